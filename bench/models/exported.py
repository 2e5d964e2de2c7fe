#!/usr/bin/env python3
"""Makes the models of bench/models/table.py, runs them by ours and by ONNX Runtime, and compares results, memory and time.

    exported.py STREAMPOOL [NAME...] [--group GROUP...] [--folder FOLDER] [--rounds N] [--json FILE] [--callers N...]

STREAMPOOL is the program `streampool`. Needs onnx, onnxruntime and numpy; all but the group `small` need torch, torchvision,
onnxscript and transformers, too. Models are made once, in FOLDER. Ends with 3 if a result is wrong, or a model is not run.
With --callers it measures how often each model runs in a second, from so many threads, beside the better of ONNX Runtime's
settings of 1 and 2 threads for a run.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "..", "target", "exported-models")
# Of the largest value: by how much results may differ where the table says nothing.
ROOM = 1e-5
WRONG = 3
# ONNX Runtime's threads for each run.
INTRA = (1, 2)


def child(*words):
    """This script in a process of its own, so that its memory is measured alone."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), *words], capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise RuntimeError(said[-1] if said else f"ended with {done.returncode}")
    return done.stdout


def make(name, path):
    from table import TABLE
    inputs = TABLE[name]["make"](path)
    # A model without inputs beside it is not complete.
    np.savez(path.removesuffix(".onnx") + ".npz", **inputs)


def reference(path, seconds, group):
    """ONNX Runtime's side: results, time of a run, peak memory."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    begun = time.perf_counter()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    load = time.perf_counter() - begun
    with np.load(path.removesuffix(".onnx") + ".npz") as data:
        inputs = {port.name: data[port.name] for port in session.get_inputs()}
    results = session.run(None, inputs)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        begun = time.perf_counter()
        session.run(None, inputs)
        times.append(time.perf_counter() - begun)
    names = [port.name for port in session.get_outputs()]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if group == "quantised":
        # With optimisations some results are of the wrong sign (1.32, a product of bytes behind a mean).
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        results = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, inputs)
    np.savez(path + ".reference.npz", **dict(zip(names, results)))
    print(json.dumps({"run": float(np.median(times)), "load": load, "peak": peak, "names": names}))


def ours(program, path, seconds):
    stem = path.removesuffix(".onnx")
    done = subprocess.run([program, "run", path, "--input", stem + ".npz", "--output", path + ".ours.npz", "--repeat",
                           "--seconds", str(seconds), "--json"], capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(" ".join(done.stderr.split())[:300])
    told = json.loads(done.stdout)
    return {"run": told["latency_seconds"]["p50"], "load": told["load_seconds"], "peak": told["peak_rss_bytes"]}


def in_their_order(want, got, names, room):
    """Ours, where rows are sorted by scores: those that are next to each other may have changed places by rounding."""
    rows = len(want[names[0]])
    if any(len(side[name]) != rows for side in (want, got) for name in names):
        return got
    got = {name: got[name].copy() for name in names}

    def same(ours, theirs):
        return all(np.allclose(got[name][ours], want[name][theirs], room, room) for name in names)

    for row in range(rows):
        for other in range(row + 1, min(row + 5, rows)):
            if not same(row, row) and same(other, row):
                for name in names:
                    got[name][[row, other]] = got[name][[other, row]]
    return got


def difference(path, names, room, sorted_rows=False):
    """How ours differs from the reference, or None."""
    with np.load(path + ".reference.npz") as want, np.load(path + ".ours.npz") as got:
        if sorted_rows:
            want = {name: want[name] for name in names}
            got = in_their_order(want, got, names, room)
        for name in names:
            a, b = want[name], got[name]
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"{name}: {a.dtype}{list(a.shape)} is {b.dtype}{list(b.shape)}"
            if a.dtype.kind in "iub":
                if (a != b).any():
                    return f"{name}: {(a != b).sum()} of {a.size} differ"
                continue
            most = max(1.0, float(np.abs(a[np.isfinite(a)]).max(initial=0.0)))
            with np.errstate(invalid="ignore"):
                near = (np.abs(a - b) <= room * most) | (a == b) | (np.isnan(a) & np.isnan(b))
            if not near.all():
                place = tuple(np.argwhere(~near)[0])
                return f"{name}: {a[place]} at {list(map(int, place))} is {b[place]}, {(~near).sum()} of {a.size} differ"
    return None


def compared(name, entry, options):
    path = os.path.join(options.folder, name + ".onnx")
    row = {"model": name, "group": entry["group"]}
    try:
        if not os.path.exists(path.removesuffix(".onnx") + ".npz"):
            child("--make", name, path)
    except Exception as error:
        return {**row, "verdict": "not made", "why": str(error)[:200]}
    theirs, mine = [], []
    try:
        # They take turns, and the median counts.
        for _ in range(options.rounds):
            theirs.append(json.loads(child("--reference", path, str(options.seconds), entry["group"])))
            mine.append(ours(options.streampool, path, options.seconds))
    except Exception as error:
        side = "ours" if len(theirs) > len(mine) else "ONNX Runtime"
        return {**row, "verdict": "error", "why": f"{side}: {error}"}
    if "exact" in entry:
        with np.load(path.removesuffix(".onnx") + ".npz") as inputs:
            np.savez(path + ".reference.npz", **entry["exact"](inputs))
    why = difference(path, theirs[0]["names"], entry.get("room", ROOM), entry["group"] == "detection")
    row["verdict"] = "right" if why is None else "wrong"
    if why:
        row["why"] = why
    for key in ("run", "load", "peak"):
        row[f"{key}_ours"] = float(np.median([one[key] for one in mine]))
        row[f"{key}_onnxruntime"] = float(np.median([one[key] for one in theirs]))
    return row


def rates(name, options):
    """Runs per second of both sides in turn, by the number of callers; medians."""
    path = os.path.join(options.folder, name + ".onnx")
    row = {"model": name}
    for callers in options.callers:
        many = ["--threads", str(callers), "--seconds", str(options.seconds)]
        sides = {"ours": [options.streampool, "run", path, "--repeat", "--json", *many]}
        for intra in INTRA:
            sides[intra] = [sys.executable, os.path.join(HERE, "peer.py"), path, "--intra", str(intra), *many]
        found = {side: [] for side in sides}
        for _ in range(options.rounds):
            for side, command in sides.items():
                done = subprocess.run(command, capture_output=True, text=True, timeout=900)
                if done.returncode != 0:
                    raise RuntimeError(f"{name}: {done.stderr.strip()[:300]}")
                found[side].append(json.loads(done.stdout)["runs_per_second"])
        own = float(np.median(found.pop("ours")))
        peer = max(float(np.median(of)) for of in found.values())
        row[callers] = {"ours": own, "onnxruntime": peer, "ratio": own / peer}
    return row


def rates_line(row):
    cells = [f"{own['ours']:.1f} | {own['onnxruntime']:.1f} | {own['ratio']:.2f}" for own in list(row.values())[1:]]
    return f"| {row['model']} | {' | '.join(cells)} |"


def line(row):
    if "run_ours" not in row:
        return f"| {row['model']} | {row['verdict']}: {row['why']} | | | |"
    run = f"{row['run_ours'] * 1e3:.2f} / {row['run_onnxruntime'] * 1e3:.2f}"
    peak = f"{row['peak_ours'] / 2**20:.0f} / {row['peak_onnxruntime'] / 2**20:.0f}"
    verdict = row["verdict"] + (f": {row['why']}" if "why" in row else "")
    return f"| {row['model']} | {verdict} | {peak} | {run} | {row['run_ours'] / row['run_onnxruntime']:.2f} |"


def main():
    if sys.argv[1:2] == ["--make"]:
        return make(*sys.argv[2:])
    if sys.argv[1:2] == ["--reference"]:
        return reference(sys.argv[2], float(sys.argv[3]), sys.argv[4])
    from table import TABLE
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("streampool")
    parser.add_argument("names", nargs="*", choices=[*TABLE, []], metavar="NAME")
    parser.add_argument("--group", nargs="+", choices=sorted({entry["group"] for entry in TABLE.values()}))
    parser.add_argument("--folder", default=FOLDER)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each side in each round")
    parser.add_argument("--json")
    parser.add_argument("--callers", nargs="+", type=int, help="measure rates with so many threads each")
    options = parser.parse_intermixed_args()
    os.makedirs(options.folder, exist_ok=True)
    chosen = {name: entry for name, entry in TABLE.items()
              if (not options.names or name in options.names) and (not options.group or entry["group"] in options.group)}
    print("| model | result | peak ours / ONNX Runtime (MiB) | a run (ms) | ratio |\n|---|---|---|---|---|", flush=True)
    rows = []
    for name, entry in chosen.items():
        rows.append(compared(name, entry, options))
        print(line(rows[-1]), flush=True)
    if options.callers:
        heads = [f"{callers} callers: ours/s | ONNX Runtime/s | ratio" for callers in options.callers]
        print(f"\n| model | {' | '.join(heads)} |\n|{'---|' * (1 + 3 * len(heads))}", flush=True)
        for row in rows:
            if "run_ours" in row:
                row["rates"] = rates(row["model"], options)
                print(rates_line(row["rates"]), flush=True)
    right = sum(row["verdict"] == "right" for row in rows)
    print(f"\n{right} of {len(rows)} are right")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)
    return 0 if right == len(rows) else WRONG


if __name__ == "__main__":
    sys.exit(main())
