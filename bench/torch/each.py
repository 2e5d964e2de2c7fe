#!/usr/bin/env python3
"""Runs threads.cpp once for each figure, each in a process of its own, and writes JSON. A process that crashes is run
again, and counted.

    each.py PROGRAM REPORT.json [--quick]
"""

import argparse
import json
import subprocess

FIGURES = [(name, threads) for name in ("linear", "mlp") for threads in (1, 2, 4, 8, 16)]
FIGURES += [("alloc_free", threads) for threads in (1, 8)]
# Nanoseconds of a call from one thread that does not wait.
FIGURES += [(name, 1) for name in ("eager_add", "eager_linear", "eager_layer_norm")]
ATTEMPTS = 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("report")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    seconds = "0.15" if options.quick else "0.4"
    figures, crashes = [], 0
    for name, threads in FIGURES:
        for _ in range(ATTEMPTS):
            command = [options.program, name, str(threads), seconds]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode == 0:
                value = float(run.stdout)
                figures.append({"name": name, "side": "cpp", "threads": threads, "value": value})
                print(f"{name}, {threads} threads: {value:.0f}", flush=True)
                break
            crashes += 1
            print(f"{name}, {threads} threads: PyTorch ended with {run.returncode}: {run.stderr[-300:]}", flush=True)
    with open(options.report, "w", encoding="utf-8") as out:
        json.dump({"figures": figures, "crashes": crashes}, out, indent=1)
    # A figure that is not to be had is told by the report, if a goal needs it.
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
