"""The code in the guides runs, block after block, as one program for each page."""

import ast
import asyncio
import inspect
import pathlib
import re

import numpy as np
import pytest
from conftest import outside

import streampool as sp

GUIDES = pathlib.Path(__file__).parents[3] / "docs/src/guides"
PAGES = sorted(GUIDES.glob("python*.md"))

# What a page takes as given.
GIVEN = """
import numpy as np
import streampool as sp
x = np.ones((1, 16), np.float32)
session = sp.Session("model.onnx", "host")
model = np.tanh
inputs = [x] * 20
"""
MODULE = """
import torch
model = torch.nn.Linear(16, 4)
module, example, x = model, torch.ones(2, 16), torch.ones(2, 16)
"""


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)


def run(code, names, name):
    compiled = compile(code, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if compiled.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(compiled, names))
    else:
        exec(compiled, names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, linear, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_bytes(linear.SerializeToString())
    model, weights = outside(linear)
    (tmp_path / "outside.onnx").write_bytes(model.SerializeToString())
    np.save(tmp_path / "w.npy", weights["w"])
    names, ran = {"__name__": page.stem}, 0
    run(GIVEN, names, "what is given")
    for place, code in enumerate(blocks(page)):
        if re.search(r"\btorch\b|from_torch", code):
            pytest.importorskip("torch", reason="PyTorch is not installed")
            pytest.importorskip("onnxscript", reason="onnxscript is not installed")
            if page.stem == "python":
                run(MODULE, names, "what is given")
        if ("cuda:0" in code or "torch.cuda" in code) and not sp.device_count("cuda"):
            continue
        run(code.replace('backend="streampool"', "backend=sp.torch_backend"), names, f"{page.name}, block {place + 1}")
        ran += 1
    assert ran >= 3
