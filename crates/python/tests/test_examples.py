"""Each example runs to its end."""

import concurrent.futures
import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import onnx
import pytest
from conftest import counter

FOLDER = pathlib.Path(__file__).parents[3] / "examples/python"
TESTED = {"files.py", "generate.py", "module.py", "tasks.py", "threads.py", "web.py"}


@pytest.fixture
def model(linear, tmp_path):
    path = tmp_path / "linear.onnx"
    path.write_bytes(linear.SerializeToString())
    return path


def environment():
    return dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))


def example(name, *arguments):
    """Runs an example; the lines that it prints."""
    done = subprocess.run(
        [sys.executable, FOLDER / name, *arguments], capture_output=True, text=True, timeout=120, env=environment()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_no_example_is_without_a_test():
    assert {path.name for path in FOLDER.glob("*.py")} == TESTED


def test_threads(model):
    told, _ = example("threads.py", model, "host")
    streams = {line.rsplit(" ", 1)[1] for line in told if line.startswith("thread ")}
    assert len(told) == 10 and len(streams) == 8 and "OTHER BITS" not in str(told)


def test_tasks(model):
    (told,), _ = example("tasks.py", model, "host")
    assert told.startswith("1000 answers in ")


def test_a_folder_of_files(model, weight, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    drawn = np.random.default_rng(3).standard_normal((25, 16), dtype=np.float32)
    for number, row in enumerate(drawn):
        np.save(folder / f"{number:02}.npy", row)
    for _ in range(2):
        told, bar = example("files.py", model, folder, "host")
        assert told == ["25 files answered"] and "25" in bar
    for number, row in enumerate(drawn):
        answer = np.load(folder / f"{number:02}.out.npy")
        np.testing.assert_allclose(answer, row @ weight, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("onnxscript")), reason="PyTorch is not installed"
)
def test_a_module_in_one_line():
    told, _ = example("module.py")
    assert told[0].startswith("Streampool runs the whole module") and told[1].startswith("64 outputs")
    assert float(told[1].rsplit(" ", 1)[1]) < 1e-4 and told[2] == "compiled: (4, 10)"


def test_text_goes_on(tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    words = ["one", "two", "three", "four", "five"]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="one"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    # After each word comes the one behind it, and after three words the first again: what is in the cache counts.
    onnx.save(counter(len(words)), tmp_path / "decoder.onnx")
    told, _ = example("generate.py", tmp_path / "decoder.onnx", tmp_path / "tokenizer.json", "one two", "5", "host")
    assert told == ["one two three one two three four"]


@pytest.fixture
def server(model):
    """The web server in a process of its own; its address."""
    for name in ("fastapi", "uvicorn"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, FOLDER / "web.py", model, "host", str(port)], stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        address = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 60
        while True:
            try:
                ask(f"{address}/statistics")
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < until, process.stderr.read()
                time.sleep(0.05)
        yield address
        # As Ctrl-C ends it: the last requests are answered.
        process.send_signal(2)
        assert process.wait(30) in (0, -2, 130), process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def ask(address, rows=None):
    body = None if rows is None else json.dumps({"rows": rows}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_a_web_server(server, weight):
    drawn = np.random.default_rng(4).standard_normal((60, 1, 16), dtype=np.float32)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for way in ("threads", "threads/batched", "tasks"):
            answers = pool.map(lambda row, way=way: ask(f"{server}/{way}", row.tolist()), drawn)
            for row, answer in zip(drawn, answers, strict=True):
                np.testing.assert_allclose(answer["y"], row @ weight, rtol=1e-4, atol=1e-5)
    assert ask(f"{server}/statistics")["requests"]["completed"] == 121
    for way in ("threads", "threads/batched", "tasks"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(f"{server}/{way}", [[1.0, 2.0]])
        assert refused.value.code == 400 and "error" in json.load(refused.value)
