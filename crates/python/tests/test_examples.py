"""Each example runs to its end."""

import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[3] / "examples/python"


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py")))
def test_an_example_runs(name, linear, tmp_path):
    model = tmp_path / "linear.onnx"
    model.write_bytes(linear.SerializeToString())
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(
        [sys.executable, FOLDER / name, model, "host"], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 1
