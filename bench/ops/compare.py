#!/usr/bin/env python3
"""Measures operators on this machine in one run, ours and the peers' in turn, and says how they compare. On the host the
peers are PyTorch and ONNX Runtime, whichever is faster; on a GPU it is PyTorch.

    compare.py MEASURE [--device host|cuda] [--precision f32|f16] [--rounds N] [--seconds S] [--json FILE]

MEASURE is the program `streampool-measure`. The host needs the packages torch, onnxruntime and onnx; a GPU torch. For each
operator every side is measured once in every round, one after the other. Ends with 3 if a goal is missed.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch

import peers

# What the goals are about: the list that a transformer, a vision and a speech model are made of.
LIST = ("matmul", "attention", "layer_norm", "gelu", "conv", "lstm", "softmax")
MEAN, WORST = 1.0, 0.7
MISSED = 3
# Threads that have nothing to do go on looking for work for a while: they are let fall asleep.
PAUSE = 0.02


class Ours:
    """`streampool-measure`, which measures an operator whenever it is told its name. One that it cannot is told of, and has no
    figure."""

    def __init__(self, options):
        self.command = [options.measure, "ops", "--take-turns", "--device", options.device]
        self.command += ["--precision", options.precision, "--seconds", str(options.seconds)]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, name):
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            sys.exit(f"{' '.join(self.command)} ended with {self.process.wait()} at {name}")
        if line.startswith("error:"):
            print(f"{name}: {line.strip()}", file=sys.stderr)
            return None
        return float(line)

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


class Peer:
    """Calls of another library in this process. An operator may have several: the fastest counts."""

    def __init__(self, calls, wait, seconds):
        self.calls, self.wait, self.seconds = calls, wait, seconds
        self.counts = {}

    def timed(self, call, count):
        self.wait()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        self.wait()
        return time.perf_counter() - begin

    def count(self, call):
        """How many calls take about as long as is measured."""
        self.timed(call, 3)
        count = 1
        while True:
            took = self.timed(call, count)
            if took * 8 >= self.seconds:
                return max(1, int(count * self.seconds / took))
            count *= 2

    def measure(self, name):
        best = math.inf
        for call in self.calls[name]:
            count = self.counts.get(call) or self.counts.setdefault(call, self.count(call))
            best = min(best, self.timed(call, count) / count)
        return best


def sides(options):
    """Each side by its name."""
    threads = os.cpu_count()
    torch.set_num_threads(threads)
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    found = {"ours": Ours(options)}
    found["torch"] = Peer(peers.torch_calls(options.device, options.precision), wait, options.seconds)
    # Its operators for the CPU are made for f32.
    if options.device == "host" and options.precision == "f32":
        found["onnxruntime"] = Peer(peers.onnxruntime_calls(threads), wait, options.seconds)
    return found


def measured(found, rounds):
    """Seconds of a call, for each side and operator; the first round warms up."""
    names = list(found["torch"].calls)
    times = {side: {name: [] for name in getattr(one, "calls", names)} for side, one in found.items()}
    for turn in range(rounds + 1):
        for name in names:
            for side, one in found.items():
                if name not in times[side]:
                    continue
                if sys.stderr.isatty():
                    print(f"\r[{turn + 1}/{rounds + 1}] {name}: {side:<20}", end="", file=sys.stderr, flush=True)
                time.sleep(PAUSE)
                seconds = one.measure(name)
                if seconds is None:
                    del times[side][name]
                elif turn > 0:
                    times[side][name].append(seconds)
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return {side: {name: statistics.median(each) for name, each in ops.items()} for side, ops in times.items()}


def ratios(times):
    """How many times as fast as the best peer each operator of ours is."""
    found = {}
    for name, own in times["ours"].items():
        rivals = [ops[name] for side, ops in times.items() if side != "ours" and name in ops]
        if rivals:
            found[name] = min(rivals) / own
    return found


def verdict(found):
    """The geometric mean of the list, its worst, and whether both are what they should be."""
    judged = [found[name] for name in LIST if name in found]
    if not judged:
        return None, None, False
    mean, worst = math.exp(statistics.fmean(map(math.log, judged))), min(judged)
    return mean, worst, len(judged) == len(LIST) and mean >= MEAN and worst >= WORST


def page(times, found):
    lines = [f"{'operator':<16}" + "".join(f"{side:>14}" for side in times) + f"{'x best peer':>14}"]
    for name in times["ours"]:
        row = f"{name:<16}"
        for ops in times.values():
            row += f"{ops[name] * 1e6:>11.1f} us" if name in ops else f"{'':>14}"
        lines.append(row + (f"{found[name]:>13.2f}x" if name in found else ""))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measure")
    parser.add_argument("--device", choices=("host", "cuda"), default="host")
    parser.add_argument("--precision", choices=("f32", "f16"), default="f32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each operator of each side in each round")
    parser.add_argument("--json")
    options = parser.parse_args()
    found = sides(options)
    with torch.inference_mode():
        times = measured(found, options.rounds)
    found["ours"].end()
    against = ratios(times)
    mean, worst, met = verdict(against)
    print(page(times, against))
    print(f"\ngeometric mean {mean:.2f} (goal {MEAN}), worst {worst:.2f} (goal {WORST}): {'met' if met else 'missed'}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump({"device": options.device, "precision": options.precision, "seconds": times, "ratios": against,
                       "mean": mean, "worst": worst, "met": met}, out, indent=1)
    return 0 if met else MISSED


if __name__ == "__main__":
    sys.exit(main())
