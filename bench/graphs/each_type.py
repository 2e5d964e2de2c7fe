#!/usr/bin/env python3
"""Every operator with every type that its definition allows: ours beside ONNX Runtime.

    each_type.py [OPERATOR...] [--all] [--json FILE]

Each model of ONNX's own node tests with one node is made again for each type of each of its type variables, and so are the
models below for com.microsoft. Both run it. A pair of an operator and a type has the worst verdict of its models:

    right        both run it, and the results are the same but for rounding
    as defined   both run it, and the results differ, but ours are those of ONNX's reference
    wrong        both run it, and the results differ
    at run       ours loads it, and refuses to run it
    at load      ONNX Runtime runs it, ours refuses to load it
    ours         only ours runs it; "ours, other" if ONNX's reference gives another result
    neither      neither runs it

Needs the Python package of this repository, onnx, onnxruntime, ml_dtypes and numpy. Prints the pairs that are not right (--all:
every one) and the counts. Ends with 1 if any is wrong or refused at run.
"""

import argparse
import collections
import itertools
import json
import multiprocessing
import os
import sys
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

warnings.simplefilter("ignore")
os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"
LAST_OPSET = 27
ORDER = ["right", "as defined", "neither", "ours", "at load", "ours, other", "at run", "wrong"]
# Types that NumPy and ONNX Runtime's package share. Others are cast from and to f32 in the model.
PLAIN = {"float": "float32", "double": "float64", "float16": "float16", "int8": "int8", "int16": "int16", "int32": "int32",
         "int64": "int64", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "bool": "bool"}
SMALL = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
ROOM = {"float16": 1e-2, "float32": 2e-4, "float64": 1e-6}
# What they draw is theirs.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Dropout"}
# Where ONNX Runtime contradicts itself. The result of a mask of integers depends on how wide these are, and is not that of the same
# mask in floats, which ours is; of exponentials of integers all but the largest count as zero.
EXPLAINED = {"Attention": ("int", "uint"), "ReduceLogSumExp": ("int", "uint")}
TYPE_ATTRIBUTES = ["to", "dtype", "output_datatype", "output_dtype"]


def element(name):
    return getattr(TensorProto, name.upper())


def name_of(number):
    return TensorProto.DataType.Name(number).lower()


def converted(array, name, op, place):
    """The values of a test, in another type: such that all types can hold them."""
    if array.dtype.kind in "OUS" or array.dtype.kind == "c":
        return array.astype(object) if name == "string" and array.dtype.kind != "c" else None
    if array.dtype not in [np.dtype(plain) for plain in PLAIN.values()]:
        array = array.astype("float32")
    if name == "string":
        return array.astype(str).astype(object)
    if name == "bool":
        return array > 0
    is_float = name.startswith(("float", "double", "bfloat"))
    if not is_float:
        if array.dtype.kind == "f":
            finite = np.where(np.isfinite(array), array, 7)
            array = np.rint(finite * (1 if (finite == np.rint(finite)).all() else 4))
            array = np.clip(array, -100, 100)
        if array.dtype.kind != "b":
            low, high = SMALL.get(name, (None, None))
            if low is not None:
                array = np.clip(array, low, high)
            elif name.startswith("uint") and array.dtype.kind != "u":
                array = np.abs(array)
        if op in ("Div", "Mod") and place == 1:
            array = np.where(array == 0, 3, array)
        if op == "Pow" and place == 1:
            array = np.abs(array.astype("int64")) % 4
        if op == "BitShift" and place == 1:
            array = array % 4
        if name in ("int8", "uint8"):
            array = np.clip(array, -128 if name == "int8" else 0, 127 if name == "int8" else 255)
    elif name.startswith("float8") or name.startswith("float4"):
        array = np.clip(array.astype("float32"), -6, 6)
    return array.astype(PLAIN.get(name, "float32"))


def model_of(node, inputs, types, opset, domain=""):
    """A model of a node whose inputs have these names, values and types; types that are not plain are cast in the model."""
    graph_inputs, nodes, values = [], [], {}
    for name, (array, kind) in inputs.items():
        if kind in PLAIN or kind == "string":
            graph_inputs.append(helper.make_tensor_value_info(name, element(kind), array.shape))
        else:
            graph_inputs.append(helper.make_tensor_value_info(name + "_f", TensorProto.FLOAT, array.shape))
            nodes.append(helper.make_node("Cast", [name + "_f"], [name], to=element(kind)))
            name += "_f"
        values[name] = array
    nodes.append(node)
    outputs = [name for name in node.output if name]
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1)] * (domain == "com.microsoft")
    empty = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "g", graph_inputs, empty)
    model = helper.make_model(graph, opset_imports=imports, ir_version=10 if opset < 25 else 12)
    kinds = {}
    if domain != "com.microsoft":
        # Raises where types contradict each other: that is no model.
        onnx.shape_inference.infer_shapes(model, strict_mode=True)
    try:
        for value in onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output:
            if value.type.HasField("tensor_type"):
                kinds[value.name] = value.type.tensor_type.elem_type
            elif value.type.WhichOneof("value"):
                kinds[value.name] = value.type
    except Exception:
        pass
    del model.graph.output[:]
    for name in outputs:
        kind = kinds.get(name) or types.get(name, 0)
        if isinstance(kind, onnx.TypeProto):
            model.graph.output.append(onnx.ValueInfoProto(name=name, type=kind))
            continue
        if kind and name_of(kind) not in PLAIN and name_of(kind) not in ("string", "undefined"):
            model.graph.node.append(helper.make_node("Cast", [name], [name + "_f"], to=TensorProto.FLOAT))
            name, kind = name + "_f", TensorProto.FLOAT
        value = onnx.ValueInfoProto(name=name)
        if kind:
            value.type.tensor_type.elem_type = kind
        model.graph.output.append(value)
    return model, values


def as_shown(shape, step, scale=0.25):
    """Numbers that differ, from -1.5 to 1.5 by a quarter or as `scale` says."""
    count = int(np.prod(shape))
    return ((np.arange(count) * step % 13 - 6) * scale).astype("float32").reshape(shape)


def of_bytes(shape, step):
    return (np.arange(int(np.prod(shape))) * step % 256).astype("uint8").reshape(shape)


def one(value, kind="float32"):
    return np.array([value], kind)


def microsoft():
    """Models of com.microsoft: the operator, its inputs, its attributes, how many outputs."""
    x, y, bias = as_shown([2, 3, 4], 5), as_shown([2, 3, 4], 7), as_shown([4], 3)
    for op, inputs in [("Gelu", [x]), ("FastGelu", [x, bias]), ("BiasGelu", [x, bias]), ("QuickGelu", [x]),
                       ("FusedMatMul", [x, as_shown([4, 5], 3)]), ("TransposeMatMul", [x, as_shown([4, 5], 3)]),
                       ("SkipLayerNormalization", [x, y, bias, bias, bias]), ("ExpandDims", [x, one(1, "int32")[0]]),
                       ("SkipSimplifiedLayerNormalization", [x, y, bias, bias]), ("Inverse", [as_shown([3, 3], 5) + np.eye(3)]),
                       ("CDist", [x[0], y[1]]), ("Unique", [np.array([3, 1, 3, 2.0])]), ("Trilu", [x]),
                       ("Range", [np.array(1.0), np.array(9.0), np.array(2.0)]), ("BiasSplitGelu", [x, bias]),
                       ("BiasAdd", [x, bias, y]), ("Pad", [x, np.array([0, 1, 0, 0, 0, 2], "int64")]),
                       ("GatherND", [x, np.array([[0, 1], [1, 2]], "int64")]),
                       ("MatMulIntegerToFloat", [of_bytes([2, 4], 37), of_bytes([4, 3], 11), one(.02), one(.1)]),
                       ("DynamicQuantizeMatMul", [x, of_bytes([4, 3], 11), one(.1)]),
                       ("QLinearSigmoid", [of_bytes([2, 9], 31), one(.05), one(120, "uint8"), one(.004), one(3, "uint8")]),
                       ("QuantizeLinear", [x, one(.02)[0], one(99, "uint8")[0]]),
                       ("DequantizeLinear", [of_bytes([3, 4], 37), one(.02)[0], one(99, "uint8")[0]])]:
        yield op, inputs, {}, 1
    quantised = [of_bytes([1, 2, 5, 5], 37), one(.1), one(120, "uint8")]
    back = [one(.07), one(90, "uint8")]
    for op in ["QLinearAdd", "QLinearMul"]:
        yield op, [*quantised, of_bytes([1, 2, 5, 5], 11), one(.05), one(100, "uint8"), *back], {}, 1
    yield "QLinearLeakyRelu", [*quantised, *back], {"alpha": 0.1}, 1
    yield "QLinearAveragePool", [*quantised, *back], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, 1
    yield "QLinearGlobalAveragePool", [*quantised, *back], {}, 1
    yield "QLinearSoftmax", [*quantised, one(1 / 256), one(0, "uint8")], {"axis": -1, "opset": 13}, 1
    yield "QLinearConcat", [*back, *quantised, *quantised], {"axis": 1}, 1
    yield "QLinearReduceMean", [*quantised, *back], {"axes": [1], "keepdims": 1}, 1
    yield "QLinearWhere", [of_bytes([5], 1) > 2, *quantised, *quantised, *back], {}, 1
    yield "QGemm", [of_bytes([2, 4], 37), one(.1), one(120, "uint8"), of_bytes([4, 3], 11), one(.05), one(100, "uint8"), None,
                    *back], {}, 1
    yield "FusedGemm", [x[0], as_shown([4, 5], 3)], {"activation": "Relu"}, 1
    yield "FusedConv", [as_shown([1, 2, 5, 5], 5), as_shown([3, 2, 3, 3], 7)], {"activation": "Relu"}, 1
    yield "BiasSoftmax", [x, y], {"axis": 2, "is_inner_broadcast": 1}, 1
    yield "GridSample", [as_shown([1, 1, 3, 3], 5), as_shown([1, 2, 2, 2], 7)], {}, 1
    yield "NhwcMaxPool", [of_bytes([1, 5, 5, 2], 37)], {"kernel_shape": [2, 2]}, 1
    yield "Attention", [x, as_shown([4, 12], 3), as_shown([12], 5), np.array([[1, 1, 0], [1, 1, 1]], "int32")], {"num_heads": 2}, 1
    yield "MultiHeadAttention", [x, y, x], {"num_heads": 2}, 1
    angles = np.arange(64, dtype="float32").reshape(8, 8) * .1
    yield "RotaryEmbedding", [as_shown([1, 3, 32], 5), np.array([[0, 1, 2]], "int64"), np.cos(angles), np.sin(angles)], {}, 1
    yield "GroupQueryAttention", [as_shown([1, 3, 16], 5), as_shown([1, 3, 8], 3), as_shown([1, 3, 8], 7), None, None,
                                  one(2, "int32"), one(3, "int32")], {"num_heads": 2, "kv_num_heads": 1}, 3
    yield "EmbedLayerNormalization", [np.array([[1, 0, 2]], "int32"), np.array([[0, 1, 1]], "int32"), as_shown([3, 4], 5),
                                      as_shown([5, 4], 3), as_shown([2, 4], 7), bias, bias], {}, 2
    yield "MatMulNBits", [as_shown([2, 32], 5), of_bytes([3, 1, 16], 37), as_shown([3], 5)], \
        {"K": 32, "N": 3, "bits": 4, "block_size": 32}, 1
    yield "MatMulBnb4", [as_shown([2, 16], 5), of_bytes([24], 37), as_shown([3], 5)], \
        {"K": 16, "N": 3, "block_size": 16, "quant_type": 1}, 1
    yield "GatherBlockQuantized", [of_bytes([3, 16], 37), np.array([[2, 0]], "int64"), as_shown([3, 2], 5)], \
        {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}, 1
    boxes = np.array([[.1, .2, .9, .7], [-.2, 0, 1.2, 1.1]], "float32")
    yield "CropAndResize", [as_shown([2, 1, 3, 4], 5), boxes, np.array([1, 0], "int32"), np.array([2, 3], "int32")], {}, 1
    yield "WordConvEmbedding", [np.array([[1, 2, 3, 0], [4, 0, 0, 0]], "int32"), as_shown([2, 1, 3, 2], 5), as_shown([2], 3),
                                as_shown([6, 2], 7)], {"conv_window_size": 3}, 1
    yield "QAttention", [of_bytes([1, 3, 4], 37), of_bytes([4, 12], 11), as_shown([12], 5), one(.01), one(.02), None,
                         one(120, "uint8"), one(99, "uint8")], {"num_heads": 2}, 1
    yield "MoE", [x[0], as_shown([3, 3], 5), as_shown([3, 5, 4], 3), as_shown([3, 5], 5), as_shown([3, 4, 5], 7),
                  as_shown([3, 4], 3)], {"k": 2}, 1
    yield "QMoE", [as_shown([2, 32], 5), as_shown([2, 3], 3), of_bytes([3, 16, 16], 37), as_shown([3, 16], 5), None,
                   of_bytes([3, 32, 8], 11), as_shown([3, 32], 7)], {"k": 2, "activation_type": "silu", "expert_weight_bits": 4}, 1


class Formal:
    def __init__(self, formal):
        self.type_str = formal.typeStr


class Schema:
    """A definition of ONNX Runtime's, as those of ONNX are."""
    def __init__(self, found):
        self.inputs, self.outputs = [[Formal(each) for each in ports] for ports in (found.inputs, found.outputs)]
        self.type_constraints = found.type_constraints


def microsoft_cases(only):
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
    schemas = {each.name: each for each in get_all_operator_schema() if each.domain == "com.microsoft"}
    for op, inputs, attributes, outputs in microsoft():
        if op not in schemas or only and op not in only:
            continue
        names = [f"x{place}" if array is not None else "" for place, array in enumerate(inputs)]
        node = helper.make_node(op, names, [f"y{place}" for place in range(outputs)], domain="com.microsoft", **attributes)
        arrays = [array if array is None or array.dtype != "float64" else array.astype("float32") for array in inputs]
        given = {name: (array, name_of(helper.np_dtype_to_tensor_dtype(array.dtype)))
                 for name, array in zip(names, arrays) if name}
        yield op, Schema(schemas[op]), node, given, 17


def variables(schema):
    """Its type variables and the tensor types of each."""
    for constraint in schema.type_constraints:
        kinds = [kind[7:-1] for kind in sorted(constraint.allowed_type_strs) if kind.startswith("tensor(")]
        yield constraint.type_param_str, [kind for kind in kinds if not kind.startswith("complex")]


def param(schema, place):
    params = schema.inputs
    if place < len(params):
        return params[place]
    return params[-1] if params else None


def node_cases(only):
    """Each node test: a schema, the node, its inputs by name, the version."""
    for case in load_model_tests(kind="node"):
        model = case.model
        if model is None or len(model.graph.node) != 1 or not case.data_sets:
            continue
        node = model.graph.node[0]
        if node.domain not in ("", "ai.onnx") or only and node.op_type not in only:
            continue
        opset = min(next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 1), LAST_OPSET)
        given = case.data_sets[0][0]
        if any(not isinstance(value, np.ndarray) for value in given):
            continue
        try:
            schema = onnx.defs.get_schema(node.op_type, opset, "")
        except Exception:
            continue
        names = [value.name for value in model.graph.input]
        kinds = [name_of(value.type.tensor_type.elem_type) for value in model.graph.input]
        yield case.name, schema, node, dict(zip(names, zip(given, kinds))), opset


def typed(schema, node, inputs, variable, kind):
    """The node and its inputs with a type for a variable of its definition; None if the test has no place for it."""
    found, changed = False, {}
    for place, name in enumerate(node.input):
        formal = param(schema, place)
        if not name or formal is None or name not in inputs:
            continue
        if formal.type_str == variable:
            array = converted(inputs[name][0], kind, node.op_type, place)
            if array is None:
                return None
            changed[name] = (array, kind)
            found = True
        else:
            array, own = inputs[name]
            changed[name] = (array if own in PLAIN or own == "string" else array.astype("float32"), own)
    other = onnx.NodeProto()
    other.CopyFrom(node)
    if not found:
        for attribute in other.attribute:
            if attribute.name in TYPE_ATTRIBUTES and any(out.type_str == variable for out in schema.outputs):
                attribute.i = element(kind)
                found = True
            elif attribute.name == "value" and attribute.HasField("t") and kind in PLAIN:
                attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(PLAIN[kind])))
                found = True
    return (other, changed) if found else None


def serve(pipe, which):
    """Runs what it is sent, in a process of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if which == "theirs":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

        def load(model):
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            return lambda inputs: session.run(None, inputs)
    elif which == "reference":
        from onnx.reference import ReferenceEvaluator

        def load(model):
            session = ReferenceEvaluator(onnx.load_from_string(model))
            return lambda inputs: session.run(None, inputs)
    else:
        import streampool

        def load(model):
            session = streampool.Session(model, device="host")
            return lambda inputs: list(session.run(inputs).values())
    while True:
        model, inputs = pipe.recv()
        stage = "load"
        try:
            run = load(model)
            stage = "run"
            pipe.send(("ok", [[np.asarray(one) for one in each] if isinstance(each, list) else np.asarray(each)
                              for each in run(inputs)]))
        except BaseException as error:
            pipe.send((stage, f"{type(error).__name__}: {error}"[:400]))


class Worker:
    def __init__(self, which):
        self.which = which
        self.start()

    def start(self):
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=serve, args=(other, self.which), daemon=True)
        self.process.start()
        other.close()

    def run(self, model, inputs):
        try:
            self.pipe.send((model, inputs))
            if self.pipe.poll(20):
                return self.pipe.recv()
            why = "not over after 20 s"
        except (EOFError, BrokenPipeError, ConnectionResetError):
            why = "ended the process"
        self.process.kill()
        self.start()
        return "broken", why


def difference(want, got, op, exotic=False):
    if len(want) != len(got):
        return f"{len(want)} outputs are {len(got)}"
    for a, b in zip(want, got):
        if isinstance(a, list) or isinstance(b, list):
            a, b = (each if isinstance(each, list) else [each] for each in (a, b))
            why = difference(a, b, op, exotic)
            if why:
                return why
            continue
        if a.shape != b.shape or a.dtype != b.dtype and a.dtype.kind not in "OUS":
            return f"{a.dtype}{list(a.shape)} is {b.dtype}{list(b.shape)}"
        if op in RANDOM:
            continue
        if a.dtype.kind in "OUS":
            if a.astype(str).tolist() != b.astype(str).tolist():
                return f"{a.ravel()[:4]} is {b.ravel()[:4]}"
            continue
        room = 3e-2 if exotic else ROOM.get(a.dtype.name, 0)
        a, b = (each.astype("float64") if each.dtype.kind in "fb" else each.astype(object) for each in (a, b))
        if a.dtype == object:
            same = a == b
        else:
            most = np.maximum(1, np.abs(a))
            with np.errstate(invalid="ignore"):
                same = (np.abs(a - b) <= room * most) | (a == b) | (np.isnan(a) & np.isnan(b))
        if not np.all(same):
            place = np.argwhere(~np.asarray(same, bool))
            place = tuple(place[0]) if len(place) else ()
            return f"{a[place]} at {list(map(int, place))} is {b[place]}"
    return None


def alike(want, got):
    """The reference's outputs in the types of ours: NumPy widens some."""
    return [a.astype(b.dtype) if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype.kind not in "OUS" and
            b.dtype.kind not in "OUS" else a for a, b in zip(want, got)] if len(want) == len(got) else want


def judged(ours, theirs, reference, op, kind):
    """The verdict, and why."""
    mine, got = ours
    their, want = theirs
    exotic = kind not in PLAIN
    if mine == "broken":
        return "wrong", got
    if mine == their == "ok":
        why = difference(want, got, op, exotic)
        if why is None:
            return "right", ""
        if op in EXPLAINED and kind.startswith(EXPLAINED[op]):
            return "as defined", why
        how, want = reference()
        same = how == "ok" and difference(alike(want, got), got, op, exotic) is None
        return ("as defined" if same else "wrong"), why
    if mine == "ok":
        how, want = reference()
        why = difference(alike(want, got), got, op, exotic) if how == "ok" else None
        return ("ours", "") if why is None else ("ours, other", why)
    if their == "load" and "Type Error" in want:
        return "neither", want
    if mine == "run" and (their == "ok" or their != "run" and reference()[0] == "ok"):
        return "at run", got
    if their == "ok":
        return "at load", got
    return "neither", got


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    only = set(options.operators)
    ours, theirs, reference = Worker("ours"), Worker("theirs"), Worker("reference")
    pairs, cases, why_of = {}, collections.Counter(), {}
    for name, schema, node, inputs, opset in itertools.chain(microsoft_cases(only), node_cases(only)):
        print(name, file=sys.stderr)
        for variable, kinds in variables(schema):
            for kind in kinds:
                try:
                    made = typed(schema, node, inputs, variable, kind)
                    if made is None:
                        continue
                    model, values = model_of(*made, {}, opset, node.domain)
                    data = model.SerializeToString()
                except Exception:
                    cases["no model"] += 1
                    continue
                theirs_answer = theirs.run(data, values)
                verdict, why = judged(ours.run(data, values), theirs_answer, lambda: reference.run(data, values), node.op_type,
                                      kind)
                cases[verdict] += 1
                pair = (node.op_type, variable, kind)
                if ORDER.index(verdict) >= ORDER.index(pairs.get(pair, "right")):
                    pairs[pair], why_of[pair] = verdict, (name, why)
    counts = collections.Counter(pairs.values())
    for pair, verdict in sorted(pairs.items()):
        if options.all or verdict not in ("right", "ours", "neither"):
            print(f"{verdict:12}{pair[0]} {pair[1]}={pair[2]}: {why_of[pair][0]}: {' '.join(why_of[pair][1].split())[:170]}")
    print("models:", {each: cases[each] for each in [*ORDER, "no model"]})
    print("pairs: ", {each: counts[each] for each in ORDER})
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([[*pair, verdict, *why_of[pair]] for pair, verdict in sorted(pairs.items())], file, indent=0)
    return 1 if counts["wrong"] or counts["at run"] else 0


if __name__ == "__main__":
    sys.exit(main())
