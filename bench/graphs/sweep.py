#!/usr/bin/env python3
"""Contradictory models: a sweep of attributes and impossible values over a small model of each operator.

    python3 bench/graphs/sweep.py target/release/streampool [OPERATOR...]

Each model of ONNX's own node tests is changed in one attribute, and given to onnx.checker with full_check, to ONNX Runtime,
and to `streampool run`. Printed are those that one of the first two refuses and Streampool takes ("taken"), those that both
take and Streampool refuses ("refused") or answers otherwise ("differs"), and whatever ends it otherwise than by an answer or
an error ("broken"). ONNX Runtime does not have every operator: "none" is where it has none even for the unchanged model. It
needs onnx, onnxruntime and numpy.
"""

import collections
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.backend.test.loader import load_model_tests

warnings.simplefilter("ignore")
A = onnx.AttributeProto
HUGE = 1 << 40
# The versions of ONNX's operators that Streampool takes.
OPSETS = (7, 27)


def bases(only):
    """The smallest model of each operator by itself, with inputs for it."""
    smallest = {}
    for case in load_model_tests(kind="node"):
        model = case.model
        if model is None or len(model.graph.node) != 1 or not case.data_sets:
            continue
        op = model.graph.node[0].op_type
        inputs = case.data_sets[0][0]
        if any(not isinstance(value, np.ndarray) or value.dtype.kind in "OV" for value in inputs):
            continue
        # One with many attributes says most about what a change of one contradicts.
        rank = (-len(model.graph.node[0].attribute), model.ByteSize())
        for opset in model.opset_import:
            if opset.domain == "":
                opset.version = min(max(opset.version, OPSETS[0]), OPSETS[1])
        # What the file says of its outputs' sizes holds for the attributes as they were.
        for output in model.graph.output:
            for size in output.type.tensor_type.shape.dim:
                size.Clear()
        if (not only or op in only) and rank < smallest.get(op, ((1,),))[0]:
            smallest[op] = (rank, model, dict(zip([value.name for value in model.graph.input], inputs)))
    return {op: (model, inputs) for op, (_, model, inputs) in sorted(smallest.items())}


def impossible(attribute, present):
    """Values that are likely to contradict the rest."""
    kind = attribute.type.value if hasattr(attribute.type, "value") else int(attribute.type)
    if kind == A.INT:
        return [-1, 0, 7, HUGE, -(1 << 63)]
    if kind == A.INTS:
        now = list(present.ints) if present is not None else [1, 1]
        return [[], [0] * len(now), [-1] * len(now), now + [1], now[:-1], [HUGE] * len(now), [7] * len(now)]
    if kind == A.FLOAT:
        return [-1.0, 0.0, float("nan"), float("inf")]
    if kind == A.FLOATS:
        return [[], [-1.0], [float("nan")], [1.0] * 9]
    if kind == A.STRING:
        return ["nonsense", ""]
    return []


def changed(model, attribute, value):
    other = onnx.ModelProto()
    other.CopyFrom(model)
    node = other.graph.node[0]
    rest = [each for each in node.attribute if each.name != attribute.name]
    del node.attribute[:]
    node.attribute.extend(rest)
    kind = attribute.type.value if hasattr(attribute.type, "value") else int(attribute.type)
    node.attribute.append(helper.make_attribute(attribute.name, value, attr_type=kind))
    return other


def apart(work):
    """What `work` gives, in a process of its own: "ok", why not, or how it ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            work()
            answer = "ok"
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(write, pickle.dumps(answer[:2000]))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return pickle.loads(data) if data else f"ended with {status}"


def checker(model):
    onnx.checker.check_model(model, full_check=True)


def runtime(model, inputs, folder):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    arrays = {name: value for name, value in zip(names, session.run(None, inputs)) if isinstance(value, np.ndarray)}
    np.savez(folder / "theirs.npz", **arrays)


def different(folder):
    """How our outputs differ from theirs by more than rounding, if they do."""
    with np.load(folder / "theirs.npz") as theirs, np.load(folder / "ours.npz") as got:
        for name in theirs.files:
            a, b = theirs[name], got[name]
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"{name}: {a.dtype}{a.shape} is {b.dtype}{b.shape}"
            if not np.allclose(a.astype(np.float64), b.astype(np.float64), 1e-3, 1e-3, equal_nan=True):
                return f"{name}: {a.ravel()[:4]} is {b.ravel()[:4]}"
    return None


def ours(program, model, inputs, folder):
    path, data, out = folder / "model.onnx", folder / "inputs.npz", folder / "ours.npz"
    path.write_bytes(model.SerializeToString())
    np.savez(data, **inputs)
    environment = dict(os.environ, STREAMPOOL_MEMORY_LIMIT="1GiB")
    try:
        done = subprocess.run(
            [program, "run", path, "--input", data, "--output", out], capture_output=True, text=True, timeout=20, env=environment
        )
    except subprocess.TimeoutExpired:
        return "broken", "not over after 20 s"
    if done.returncode == 0:
        return "ok", ""
    said = done.stderr.strip().splitlines()
    if done.returncode != 1 or not said or "panicked" in done.stderr:
        return "broken", f"{done.returncode}: {done.stderr.strip()[:300]}"
    return "error", said[0].removeprefix("error: ")


def main():
    program, only = sys.argv[1], set(sys.argv[2:])
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for op, (model, inputs) in bases(only).items():
            domain = model.graph.node[0].domain
            version = max(entry.version for entry in model.opset_import if entry.domain == domain)
            has = apart(lambda: runtime(model, inputs, folder)) == "ok"
            verdict, why = ours(program, model, inputs, folder)
            if verdict != "ok":
                counts["operators not taken as they are"] += 1
                print(f"{op} is not taken as it is: {verdict} {why}"[:160])
                continue
            sound = apart(lambda: checker(model)) == "ok"
            present = {each.name: each for each in model.graph.node[0].attribute}
            for name, attribute in onnx.defs.get_schema(op, version, domain).attributes.items():
                for value in impossible(attribute, present.get(name)):
                    other = changed(model, attribute, value)
                    checked = apart(lambda: checker(other)) if sound else "ok"
                    ran = apart(lambda: runtime(other, inputs, folder)) if has else "none"
                    verdict, why = ours(program, other, inputs, folder)
                    # The file says of how many axes an output is as it was; to the runtime that is a hint.
                    if "existing shape differ" in checked:
                        checked = "ok"
                    refused = checked != "ok" or ran not in ("ok", "none")
                    if verdict == "broken":
                        kind = "broken"
                    elif verdict == "ok" and refused:
                        kind = "taken"
                    elif verdict == "error" and not refused:
                        kind = "refused"
                    elif verdict == ran == "ok" and (why := different(folder)):
                        kind = "differs"
                    else:
                        kind = "same"
                    counts[kind] += 1
                    if kind != "same":
                        flat = lambda text: " ".join(text.split())[:160]
                        print(f"{kind:8}{op} {name}={value}", flush=True)
                        print(f"        checker: {flat(checked)}\n        runtime: {flat(ran)}\n        ours: {verdict} {flat(why)}")
    print(dict(counts))


main()
