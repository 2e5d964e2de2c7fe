#!/usr/bin/env python3
"""How much of the rate of the queue in process a server gives its callers, with the encoder of `models/make_encoder.py`.

    callers.py PROGRAM FOLDER [--device cuda] [--callers 256] [--length 32] [--seconds 8] [--text]

FOLDER is what `make_encoder.py` wrote. Callers send tokens by `/v2/models/minilm/infer`, in binary, and with --text, which the
program has to be built with, texts of as many words by `/embed`. Then as many threads run the same model through its queue in
the program itself (`bench model --queue`). Needs the program wrk and no packages. All share the machine's processors.
"""

import argparse
import json
import pathlib
import random
import re
import signal
import struct
import subprocess
import tempfile
import threading
import time

WORDS = 30_000


class Streampool:
    """The server, once it is ready."""

    def __init__(self, program, models, *more):
        begun = time.monotonic()
        self.process = subprocess.Popen([program, "serve", models, "--http", "127.0.0.1:0", *more], stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if "ready" in line:
                break
        else:
            raise SystemExit("".join(lines))
        self.ready = (time.monotonic() - begun) * 1e3
        self.port = int(re.search(r'http="[^"]*:(\d+)"', line)[1])
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def memory(self):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) / 1024

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def wrk(port, path, bodies, headers, folder, seconds, callers=16):
    """Requests a second, and half and 99 in 100 of their times in ms. Callers send the bodies in turn."""
    script = folder / "wrk.lua"
    escaped = ", ".join('"' + "".join(f"\\{byte:03d}" for byte in body) + '"' for body in bodies)
    lines = "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in headers.items())
    # wrk sends one body by itself. It asks for others, which are made once: it shares the processors with the server.
    script.write_text(f"""wrk.method = "POST"
{lines}local bodies, made, sent = {{{escaped}}}, {{}}, 0
wrk.body = bodies[1]
if #bodies > 1 then
    init = function()
        for number, body in ipairs(bodies) do made[number] = wrk.format(nil, nil, nil, body) end
    end
    request = function()
        sent = sent % #made + 1
        return made[sent]
    end
end
""")
    threads = max(1, callers // 64)
    command = ["wrk", f"-t{threads}", f"-c{callers}", f"-d{seconds}s", "--latency", "-s", script, f"http://127.0.0.1:{port}{path}"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "Non-2xx" not in text, text
    unit = {"us": 1e-3, "ms": 1, "s": 1e3}
    at = {part: float(number) * unit[of] for part, number, of in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)", text)}
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]), at["50"], at["99"]


def write_tokenizer(model):
    """A tokenizer of made-up words beside a model."""
    words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"] + [f"w{number}" for number in range(WORDS)]
    mark = lambda id: {"SpecialToken": {"id": words[id], "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    (model / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
        "post_processor": {
            "type": "TemplateProcessing", "single": [mark(1), text, mark(2)], "pair": [mark(1), text, mark(2), {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {words[id]: {"id": words[id], "ids": [id], "tokens": [words[id]]} for id in (1, 2)},
        },
        "model": {"type": "WordLevel", "vocab": {word: id for id, word in enumerate(words)}, "unk_token": "[UNK]"},
    }))
    (model / "sentence_bert_config.json").write_text('{"max_seq_length": 256}')


def tokens(length):
    """The body and the headers of requests of so many tokens."""
    inputs = [{"name": name, "datatype": "INT64", "shape": [1, length], "parameters": {"binary_data_size": 8 * length}}
              for name in ("input_ids", "attention_mask")]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    draw = random.Random(1)
    bodies = [head + struct.pack(f"<{2 * length}q", *(draw.randrange(WORDS) for _ in range(length)), *[1] * length) for _ in range(64)]
    return bodies, {"inference-header-content-length": len(head)}


def texts(length):
    """The same of texts, whose tokenizer adds two."""
    draw = random.Random(1)
    words = lambda: " ".join(f"w{draw.randrange(WORDS)}" for _ in range(length - 2))
    return [json.dumps({"inputs": words()}).encode() for _ in range(512)], {"content-type": "application/json"}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program", type=pathlib.Path)
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--device", default="cuda")
    options.add_argument("--callers", type=int, default=256)
    options.add_argument("--length", type=int, default=32)
    options.add_argument("--seconds", type=int, default=8)
    options.add_argument("--text", action="store_true")
    options = options.parse_args()
    program = options.program.resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        version = folder / "models/minilm/1"
        version.mkdir(parents=True)
        for name, made in {"model.onnx": "minilm.onnx", "weights.data": "weights.data"}.items():
            (version / name).symlink_to((options.folder / made).resolve())
        requests = {"/v2/models/minilm/infer": tokens(options.length)}
        if options.text:
            write_tokenizer(version.parent)
            requests["/embed"] = texts(options.length)
        rates, server = {}, Streampool(program, folder / "models", "--device", options.device)
        try:
            for path, (bodies, headers) in requests.items():
                # First kernels are compiled for each number of rows, and the queue learns.
                wrk(server.port, path, bodies, headers, folder, 5, options.callers)
                rates[path], half, most = wrk(server.port, path, bodies, headers, folder, options.seconds, options.callers)
                print(f"{path}, {options.callers} callers: {rates[path]:.0f}/s, p50 {half:.2f} ms, p99 {most:.2f} ms", flush=True)
        finally:
            server.end()
        shapes = [word for name in ("input_ids", "attention_mask") for word in ("--shape", f"{name}=1,{options.length}")]
        report = subprocess.run([program, "bench", "model", options.folder / "minilm.onnx", "--device", options.device, "--queue", *shapes,
                                 "--threads", str(options.callers), "--seconds", str(options.seconds), "--json"], check=True, stdout=subprocess.PIPE).stdout
        point = next(point for point in json.loads(report)["points"] if point["via"] == "queue")
        rate, latency = point["rows_per_second"], point["latency_seconds"]
        print(f"the queue in process, {options.callers} threads: {rate:.0f}/s, p50 {1e3 * latency['p50']:.2f} ms, p99 {1e3 * latency['p99']:.2f} ms")
        print("of that: " + ", ".join(f"{path} {served / rate:.2f}" for path, served in rates.items()))


if __name__ == "__main__":
    main()
