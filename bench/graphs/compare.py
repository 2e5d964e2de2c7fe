#!/usr/bin/env python3
"""Draws models at random and compares what a session makes of them with what ONNX Runtime does, its optimisations off.

    compare.py [--sessions] [--graphs N] [--from SEED] [--keep FOLDER]

Needs cargo, and Python's packages onnxruntime and numpy. The models are those of the test
`graphs_drawn_at_random_give_the_same_however_they_are_rewritten`, which also holds each rewrite to the graph as it was; with
--sessions those of `a_session_that_lives_long_answers_as_one_made_for_the_request`, with four requests each: there are control
flow, sequences, integers and bytes. Ends with 1 if anything differs by more than rounding; FOLDER then has each model as
SEED.onnx, or as its number times four, and up to three more.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy
import onnxruntime

TYPES = {"f64": numpy.float64, "f32": numpy.float32, "f16": numpy.float16, "i64": numpy.int64, "i32": numpy.int32,
         "bool": numpy.bool_, "u8": numpy.uint8}
# So many are drawn, compared and removed at a time.
AT_ONCE = 2000
ROOM, ROOM_OF_HALVES = 1e-3, 2e-2


def drawn(folder, first, count, sessions):
    """Has the test write models and ours to a folder."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    count, first = str(count), str(first)
    env = dict(os.environ, GRAPHS=count, GENERATED_GRAPHS=count, GRAPHS_FROM=first, GENERATED_FIRST=first, GRAPHS_TO=folder)
    which = ["--test", "session", "generated"] if sessions else ["--lib", "graphs_drawn_at_random"]
    test = ["cargo", "test", "-q", "-p", "streampool-model", *which]
    return subprocess.run(test, cwd=root, env=env, check=False).returncode == 0


def arrays(stem):
    """The inputs by name, and our outputs, or why there are none."""
    with open(stem + ".bin", "rb") as file:
        data = file.read()
    at, inputs, outputs, failed = 0, {}, [], None
    with open(stem + ".txt", encoding="utf-8") as file:
        for line in file:
            name, *words = line.split()
            if name == "!":
                failed = " ".join(words)
                continue
            shape = [int(word) for word in words[1:]]
            count = int(numpy.prod(shape, dtype=numpy.int64))
            array = numpy.frombuffer(data, TYPES[words[0]], count, at).reshape(shape)
            at += array.nbytes
            if name == "-":
                outputs.append(array)
            else:
                inputs[name] = array
    return inputs, outputs, failed


def difference(want, got):
    """How two lists of outputs differ, if they do."""
    if len(want) != len(got):
        return f"{len(want)} arrays are {len(got)}"
    for want, got in zip(want, got, strict=True):
        if want.shape != got.shape or want.dtype != got.dtype:
            return f"{want.dtype}{want.shape} is {got.dtype}{got.shape}"
        room = ROOM_OF_HALVES if want.dtype == numpy.float16 else ROOM
        want, got = want.astype(numpy.float64), got.astype(numpy.float64)
        most = max(1.0, numpy.abs(want[numpy.isfinite(want)]).max(initial=0.0))
        with numpy.errstate(invalid="ignore"):
            near = numpy.abs(want - got) <= room * most
        same = near | (want == got) | (numpy.isnan(want) & numpy.isnan(got))
        if not same.all():
            place = numpy.argwhere(~same)[0]
            return f"{want[tuple(place)]} at {place} is {got[tuple(place)]}"
    return None


def compared(stem, options):
    """How ours differs from ONNX Runtime's, if it does; `None` also where both refuse."""
    inputs, outputs, failed = arrays(stem)
    try:
        session = onnxruntime.InferenceSession(stem + ".onnx", options, providers=["CPUExecutionProvider"])
        names = {each.name for each in session.get_inputs()}
        want = session.run(None, {name: array for name, array in inputs.items() if name in names})
        want = [array for each in want for array in (each if isinstance(each, list) else [each])]
    except Exception as error:
        reason = str(error).splitlines()[0]
        # What the other has no kernel for says nothing of ours; nor does a Scan over nothing, which it cannot slice.
        if failed or "NOT_IMPLEMENTED" in reason or "dim0_offset < dim0_size" in reason:
            return None
        return "taken, but refused by ONNX Runtime: " + reason
    return f"refused: {failed}" if failed else difference(want, outputs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", action="store_true")
    parser.add_argument("--graphs", type=int, default=10000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    wrong = 0
    for first in range(arguments.first, arguments.first + arguments.graphs, AT_ONCE):
        count = min(AT_ONCE, arguments.first + arguments.graphs - first)
        with tempfile.TemporaryDirectory() as folder:
            where = arguments.keep or folder
            os.makedirs(where, exist_ok=True)
            if not drawn(where, first, count, arguments.sessions):
                return 1
            requests = 4 if arguments.sessions else 1
            for seed in range(first * requests, (first + count) * requests):
                found = compared(os.path.join(where, str(seed)), options)
                if found:
                    wrong += 1
                    print(f"seed {seed}: {found}", flush=True)
    print(f"{arguments.graphs} graphs, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
