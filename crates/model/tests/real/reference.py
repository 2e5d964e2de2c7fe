"""What ONNX Runtime makes of inputs: `python3 reference.py MODEL JOB...`.

Each JOB is a path without its end: JOB_in.npz is read, JOB_out.npz written. A job of several steps has a first axis
more in every input, the steps, but for the state: that is given once, as `feedback.OUTPUT.INPUT`, and then what OUTPUT
was before. The outputs of the steps lie one after the other along a first axis.
"""

import sys

import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(
    sys.argv[1], options, providers=["CPUExecutionProvider"]
)
names = [output.name for output in session.get_outputs()]
for job in sys.argv[2:]:
    given = dict(np.load(job + "_in.npz"))
    states = {}
    for name in [name for name in given if name.startswith("feedback.")]:
        _, source, target = name.split(".", 2)
        states[source] = (target, given.pop(name))
    if not states:
        outputs = dict(zip(names, session.run(None, given)))
    else:
        steps = []
        for step in range(len(next(iter(given.values())))):
            feeds = {name: np.asarray(array[step]) for name, array in given.items()}
            feeds.update(states.values())
            made = dict(zip(names, session.run(None, feeds)))
            states = {source: (target, made[source]) for source, (target, _) in states.items()}
            steps.append(made)
        outputs = {name: np.stack([made[name] for made in steps]) for name in names}
    np.savez(job + "_out.npz", **outputs)
