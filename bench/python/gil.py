#!/usr/bin/env python3
"""How long a run holds the lock of the interpreter (GIL): a thread counts alone, then beside a thread that runs a model.

    gil.py MODEL [--seconds S] [--device NAME] [--json]

What the counting thread loses, divided by the runs meanwhile, is the time that a run holds the lock, and a little more: the
two share caches, and on a machine of one processor the processor. Needs Python's packages streampool and numpy.
"""

import argparse
import json
import threading
import time

import numpy as np
from compare import drawn

import streampool as sp


def counted(seconds):
    """Rounds of an empty loop."""
    count, until = 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        for _ in range(1000):
            pass
        count += 1000
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--device", default="host")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    session = sp.Session(arguments.model, arguments.device)
    generator = np.random.default_rng(1)
    given = {info.name: drawn(info, generator) for info in session.inputs}
    session.run(given)
    # The whole of a call, with nobody else about.
    begun, calls = time.perf_counter(), 0
    while time.perf_counter() - begun < arguments.seconds:
        session.run(given)
        calls += 1
    whole = (time.perf_counter() - begun) / calls
    alone = counted(arguments.seconds)
    runs, stop = 0, threading.Event()

    def run():
        nonlocal runs
        while not stop.is_set():
            session.run(given)
            runs += 1

    runner = threading.Thread(target=run)
    runner.start()
    beside = counted(arguments.seconds)
    stop.set()
    runner.join()
    held = max(0.0, (1 - beside / alone) * arguments.seconds / runs)
    told = {"call_us": whole * 1e6, "held_us": held * 1e6, "runs": runs}
    text = f"a call takes {told['call_us']:.1f} us, of which it holds the lock {told['held_us']:.1f}"
    print(json.dumps(told) if arguments.json else text)


if __name__ == "__main__":
    main()
