#!/usr/bin/env python3
"""The report, made from figures that are made up: python3 bench/test_report.py"""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import report
import report_batching
import report_fairness
import report_models
import report_ops

THREADS = (1, 2, 4, 8, 16, 31)
SHARING = {
    "threads": 31, "ops_each": 1000, "checked": 31000, "wrong": 0, "faults": 0, "memory_restored": True, "met": True,
    "seconds": 1.5,
}


def runtime(**changed):
    """What `streampool-measure runtime --device cuda --json` writes when every goal is met."""
    point = lambda name, threads, ours, raw: {"name": name, "threads": threads, "ours": ours, "raw": raw}
    figures = [point("launch_sync", threads, 95e3 * threads, 100e3 * threads) for threads in THREADS]
    figures += [point("linear", 1, 90e3, 100e3), point("linear", 8, 500e3, 600e3)]
    figures += [point("mlp", 8, 400e3, 500e3), point("alloc_free", 8, 50e6, 1e6), point("matmul", 1, 780.0, None)]
    figures.append({"name": "linear_scaling", "threads": 8, "ours": 1.0, "raw": None, "against": "one_thread"})
    for figure in figures:
        figure["ours"] = changed.get(f"{figure['name']}_{figure['threads']}", figure["ours"])
    return {"device": "cuda", "figures": figures, "sharing": {**SHARING, **changed.get("sharing", {})}}


TORCH_PYTHON = {
    "torch": "2.11.0", "cuda": "13.0",
    "figures": [
        {"name": "matmul", "side": "python", "threads": 1, "value": 790.0},
        {"name": "mlp", "side": "graph", "threads": 8, "value": 80e3},
    ],
}
TORCH_CPP = {
    "figures": [
        {"name": "linear", "side": "cpp", "threads": 1, "value": 60e3},
        {"name": "linear", "side": "cpp", "threads": 8, "value": 300e3},
        {"name": "alloc_free", "side": "cpp", "threads": 8, "value": 350e3},
        {"name": "eager_add", "side": "cpp", "threads": 1, "value": 3456.0},
    ]
}


def operators(**changed):
    """What the stage `ops` leaves when every goal is met, by the names of the files."""
    names = (*report_ops.LIST, "attention_long", "copy", "add", "cast", "embedding", "cumsum", "max_pool")
    found = {}
    for precision in report_ops.PRECISIONS:
        row = {"flop_per_s": None, "bytes_per_s": 4.1e12, "bound": "bytes", "of_peak": 0.95}
        ops = {name: dict(row) for name in names}
        ops["matmul"] = {"flop_per_s": 51.5e12, "bytes_per_s": 1e11, "bound": "flops", "of_peak": 0.99}
        ops["cumsum"]["of_peak"] = changed.get(f"cumsum_{precision}", 0.9)
        overhead = {name: {"ns": changed.get(f"{name}_ns", 2345.0)} for name in report_ops.EAGER}
        found[f"ops_{precision}"] = {"ops": ops, "overhead": overhead}
        ours = {name: changed.get(f"{name}_{precision}", 100e-6) for name in names}
        ratios = {name: 120e-6 / ours[name] for name in names}
        found[f"compare_{precision}"] = {
            "seconds": {"ours": ours, "torch": dict.fromkeys(names, 120e-6)}, "ratios": ratios,
            "mean": changed.get("mean", 1.2),
        }
    return found


def models(**changed):
    """What the stage `models` leaves when every goal is met, by the names of the files."""
    meanwhile = dict.fromkeys(report_models.STEADY, 0) | {"captures": changed.get("captures", 0)}
    found = {name: {"runs_per_second": changed.get(name, 12e3), "meanwhile": meanwhile} for name in report_models.FILES}
    found["torch_encoder"] = {}
    for model in report_models.MODELS:
        found["torch_encoder"][f"{model}_batch_1_f32_graph_waited_runs_per_s"] = 5e3
        found["torch_encoder"] |= {f"{model}_large_f16_{side}_items_per_s": 96e3 for side in ("graph", "eager")}
    return found


def batching(**changed):
    """What the stage `batching` leaves when every goal is met, by the names of the files."""
    point = lambda via, threads, rate: {"via": via, "threads": threads, "rows_per_second": rate}
    rates = {"alone_1": 10e3, "alone_8": 80e3, "alone_256": 90e3, "queue": 1e6, **changed}
    points = [point("threads", threads, rates[f"alone_{threads}"]) for threads in (1, 8, 256)]
    points.append(point("queue", 256, rates["queue"]))
    return {name: {"points": points} for name in report_batching.FILES}


def fairness(**changed):
    """What the stage `fairness` leaves when every goal is met, by the names of the files."""
    first = lambda longest: {"count": 9, "median": 0.001, "longest": longest}
    firsts = lambda longest: {news: first(longest) for news in report_fairness.NEWS}
    crowd = {"threads": 31, "runs_per_second": 3e5, "fewest": 80, "most": 100, "fewest_by_most": 0.8, "p99_9": 0.002,
             "longest_wait": 0.01, "firsts": firsts(0.006), **changed}
    found = {"idle": firsts(0.002), "crowds": [crowd]}
    times = lambda starved: {"median": 0.1, "longest": 0.1, "starved": starved}
    calls = {"calls": [{"call": "cuMemAlloc", "without_gate": times(3), "with_gate": times(0)}]}
    return {"fairness": found, "fairness_long": found, "fairness_calls": calls}


class Report(unittest.TestCase):
    def make(self, **files):
        """Whether all is well by these files, the page, and the object."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for file, content in files.items():
                (folder / f"{file}.json").write_text(json.dumps(content))
            (folder / "stages.tsv").write_text("conformance\tconformance\tok\t61\t130 passed, 0 failed, 0 skips\n")
            with contextlib.redirect_stdout(io.StringIO()):
                well = report.make(folder, "abc123, rustc 1.95")
            return well, (folder / "report.md").read_text(), json.loads((folder / "report.json").read_text())

    def test_every_goal_is_met(self):
        well, page, object = self.make(
            runtime=runtime(), torch_python=TORCH_PYTHON, torch_cpp=TORCH_CPP, **operators(), **models(), **batching(),
            **fairness(),
        )
        self.assertTrue(well, page)
        self.assertEqual({goal["met"] for goal in object["goals"]}, {True})
        self.assertIn("13 goals: 13 met, 0 missed, 0 not measured.", page)
        self.assertIn("| conformance | conformance | ok | 61 | 130 passed, 0 failed, 0 skips |", page)
        self.assertIn("31000 results checked: 0 wrong, 0 faults, memory back to its start.", page)
        for word in ("1.67 × PyTorch C++", "5.56 × ours at 1", "5.00 × PyTorch graph", "142.86 × PyTorch C++", "abc123"):
            self.assertIn(word, page)
        self.assertNotIn("linear_scaling", page)
        self.assertEqual({goal["met"] for goal in object["goals_of_operators"]}, {True})
        self.assertIn("37 goals: 37 met, 0 missed, 0 not measured.", page)
        self.assertIn("| matmul | 100.0 | 120.0 | 1.20 | 51.5 TFLOP/s | 0.99 of flops |", page)
        self.assertIn("| cumsum | 100.0 | 120.0 | 1.20 | 4100 GB/s | 0.90 of bytes |", page)
        self.assertIn("| add | 2345 | 3456 |", page)
        self.assertNotIn("eager_add", page)

    def test_models_that_are_slow_are_told(self):
        slow = models(model_layers_8=9.9e3, model_whole_large=370.0, captures=1)
        well, page, object = self.make(
            runtime=runtime(), torch_python=TORCH_PYTHON, torch_cpp=TORCH_CPP, **operators(), **slow
        )
        self.assertFalse(well)
        missed = [goal["name"] for goal in object["goals_of_models"] if not goal["met"]]
        self.assertEqual(missed, [
            "six layers: 8 threads, × PyTorch's graphs", "MiniLM-L6, words to states: batch 256 in f16, × PyTorch",
            "captures, allocations and compilations on the steady path",
        ])
        self.assertIn("| six layers, f32, batch 1, 8 threads, on the device | 9,900 | 5,000 | 1.98 |", page)

    def test_threads_that_starve_are_told(self):
        starved = fairness(fewest_by_most=0.0001, longest_wait=3.0)
        well, page, object = self.make(**starved)
        self.assertFalse(well)
        missed = [goal["name"] for goal in object["goals_of_fairness"] if not goal["met"]]
        self.assertEqual(missed, ["31 threads: fewest runs of a thread ÷ most", "31 threads: longest wait, s"])
        self.assertIn("| `cuMemAlloc` | 100 ms, 100 ms, starves | 100 ms, 100 ms |", page)

    def test_operators_that_are_slow_are_told(self):
        slow = operators(lstm_f32=180e-6, attention_long_f16=200e-6, cumsum_f16=0.79, add_ns=4001.0, mean=0.99)
        well, page, object = self.make(runtime=runtime(), torch_python=TORCH_PYTHON, torch_cpp=TORCH_CPP, **slow)
        self.assertFalse(well)
        missed = [goal["name"] for goal in object["goals_of_operators"] if not goal["met"]]
        self.assertEqual(missed, [
            "f32: geometric mean, × PyTorch", "f32: lstm, × PyTorch", "f16: geometric mean, × PyTorch",
            "f16: cumsum, × the copy's bandwidth", "f16: attention_long, × PyTorch's SDPA",
            "a call of add that nobody waits for, ns",
        ])
        self.assertIn("37 goals: 31 met, 6 missed, 0 not measured.", page)

    def test_an_operator_that_fails_is_told(self):
        found = operators()
        del found["ops_f16"]["ops"]["cumsum"]
        found["ops_f16"]["refused"] = {"cumsum": "comes out wrong"}
        well, page, object = self.make(runtime=runtime(), torch_python=TORCH_PYTHON, torch_cpp=TORCH_CPP, **found)
        self.assertFalse(well)
        self.assertIn("**cumsum has no figures**: comes out wrong", page)
        self.assertIn("37 goals: 36 met, 0 missed, 1 not measured.", page)

    def test_one_that_is_missed_is_told(self):
        slow = runtime(linear_8=340e3)
        well, page, object = self.make(runtime=slow, torch_python=TORCH_PYTHON, torch_cpp=TORCH_CPP)
        self.assertFalse(well)
        missed = [(goal["name"], goal["against"]) for goal in object["goals"] if goal["met"] is False]
        self.assertEqual(missed, [("linear", "ours at 1"), ("linear", "PyTorch C++")])
        self.assertIn("**no**; **no**", page)

    def test_what_was_not_measured_is_no_success(self):
        well, page, object = self.make(runtime=runtime())
        self.assertFalse(well)
        absent = [goal["name"] for goal in object["goals"] if goal["met"] is None]
        self.assertEqual(absent, ["linear", "linear", "mlp", "alloc_free", "matmul"])
        self.assertIn("5 not measured", page)

    def test_nothing_at_all_is_a_report_too(self):
        well, page, _ = self.make()
        self.assertFalse(well)
        self.assertIn("13 not measured", page)
        self.assertIn("37 goals: 0 met, 0 missed, 37 not measured.", page)

    def test_a_wrong_result_under_sharing_is_no_success(self):
        wrong = runtime(sharing={"wrong": 1, "memory_restored": False, "met": False})
        well, page, _ = self.make(runtime=wrong, torch_python=TORCH_PYTHON, torch_cpp=TORCH_CPP)
        self.assertFalse(well)
        self.assertIn("1 wrong, 0 faults, memory **not** back", page)

    def test_numbers_are_short(self):
        cases = [(None, ""), (0.5, "0.5"), (780.4, "780"), (56_800, "56.8 k"), (298_000, "298 k"), (2.06e6, "2.06 M")]
        for value, text in cases:
            self.assertEqual(report.spelled(value), text)


if __name__ == "__main__":
    unittest.main()
