#!/usr/bin/env python3
"""Compares two builds of the program: how many runs a second each gives, in turn, on the same machine.

    paired.py OLD NEW [--pairs N] [--seconds S] [--threads N...] -- ARGUMENT...

OLD and NEW are two files `streampool`; ARGUMENTs are those of `run`: a model, shapes, a device. Each pair runs both for S
seconds, the old one first in every other pair, and gives one ratio, new by old. Printed for each number of threads are the
middle ratio and the range in which the true middle lies with 95 % confidence. The same file as OLD and NEW shows what the
machine's noise alone does.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys


def rate(program, arguments, threads, seconds):
    command = [program, "run", *arguments, "--repeat", "--json", "--seconds", str(seconds), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout)["runs_per_second"]


def confident(ratios):
    """The ratios between which the median of all lies with 95 % confidence; none if there are too few."""
    ratios, count = sorted(ratios), len(ratios)
    tail, beyond = 0.0, -1
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if tail > 0.025:
            break
        beyond = rank
    return (ratios[beyond], ratios[-1 - beyond]) if beyond >= 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 31])
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options, arguments = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    if not arguments:
        parser.error("the arguments of `run` come after --")
    for threads in options.threads:
        rates, ratios = [], []
        for pair in range(options.pairs):
            sides = ["old", "new"] if pair % 2 == 0 else ["new", "old"]
            got = {side: rate(getattr(options, side), arguments, threads, options.seconds) for side in sides}
            rates.append((got["old"], got["new"]))
            ratios.append(got["new"] / got["old"])
        old, new = (statistics.median(side) for side in zip(*rates))
        within = confident(ratios)
        said = f"{within[0]:.3f} to {within[1]:.3f}" if within else "too few pairs to say"
        print(f"{threads} threads: {old:,.0f} and {new:,.0f} runs/s, new by old {statistics.median(ratios):.3f} ({said})",
              flush=True)


if __name__ == "__main__":
    main()
