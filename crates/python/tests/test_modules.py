"""Modules that are not ours. They skip where PyTorch and the libraries that they come from are not installed.

By default a few; TORCH_MODULES=all takes all, for which `python tests/modules.py` prints what it sees.
"""

import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

import modules  # noqa: E402

FEW = ["mobilenet_v3_small", "bert", "gpt2_cached", "lstm"]


@pytest.mark.parametrize("name", modules.MODULES if os.environ.get("TORCH_MODULES") == "all" else FEW)
def test_a_module_gives_what_pytorch_gives(name):
    try:
        checked = modules.Checked(name)
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))
    assert checked.difference <= modules.LIMIT, checked
    assert checked.is_same and checked.taken, checked
