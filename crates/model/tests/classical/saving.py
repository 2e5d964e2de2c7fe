"""Writes models with inputs and what ONNX Runtime makes of them, as `main.rs` reads them."""

import os

import numpy as np
import onnxruntime


def save(folder, name, model, inputs):
    """NAME.onnx, NAME_in.npz and NAME_out.npz; strings are in NAME.in.INPUT.txt and NAME.out.OUTPUT.txt, one a line. A dictionary is
    its values, and its keys beside them."""
    path = os.path.join(folder, name)
    with open(path + ".onnx", "wb") as file:
        file.write(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    outputs = dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))
    for output, value in list(outputs.items()):
        if isinstance(value, list):
            classes = list(value[0])
            outputs[output] = np.array([[row[each] for each in classes] for row in value], np.float32)
            outputs[output + ".classes"] = np.array(classes)
    for key, value in list(inputs.items()):
        if isinstance(value, dict):
            kind = object if isinstance(next(iter(value)), str) else np.int64
            inputs = inputs | {key: np.array(list(value.values()), np.float32), key + ".keys": np.array(list(value), kind)}
    for kind, values in (("in", inputs), ("out", outputs)):
        arrays = {}
        for key, value in values.items():
            if value.dtype.kind in "OUS":
                with open(f"{path}.{kind}.{key}.txt", "w", encoding="utf-8") as file:
                    file.write(" ".join(map(str, value.shape)) + "\n")
                    file.writelines(f"{each}\n" for each in value.ravel())
            else:
                arrays[key] = value
        np.savez(f"{path}_{kind}.npz", **arrays)
