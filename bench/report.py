#!/usr/bin/env python3
"""Puts what bench/gpu.sh found into one report: report.md and report.json.

    report.py REPORT_DIR [BUILT_TXT]

Reads stages.tsv (how each step went), runtime.json (ours and the raw driver's figures), torch_python.json,
torch_cpp.json and what the other report_*.py name from REPORT_DIR, whichever are there. The exit code is not zero if a goal is
missed or a figure of one is not there.
"""

import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
from dataclasses import dataclass

import report_batching
import report_fairness
import report_models
import report_ops

# Whose figures there are, in the order of the table's columns.
SIDES = {"ours": "ours", "raw": "raw driver", "python": "PyTorch Python", "graph": "PyTorch graph", "cpp": "PyTorch C++"}


@dataclass(frozen=True)
class Goal:
    """Ours has to be at least `least` times as much as `side` at so many threads, by default at as many as ours."""

    figure: str
    threads: int
    least: float
    side: str
    at: int | None = None

    def other(self):
        return self.figure, self.side, self.at or self.threads

    def against(self):
        return SIDES[self.side] + (f" at {self.at}" if self.at else "")


GOALS = [Goal("launch_sync", threads, 0.9, "raw") for threads in (1, 2, 4, 8, 16, 31)] + [
    Goal("linear", 1, 1.3, "cpp"),
    Goal("linear", 8, 4.0, "ours", at=1),
    Goal("linear", 8, 1.5, "cpp"),
    Goal("mlp", 8, 0.75, "raw"),
    Goal("mlp", 8, 3.0, "graph"),
    Goal("alloc_free", 8, 50.0, "cpp"),
    Goal("matmul", 1, 0.95, "python"),
]

# What the figures are, in the order of the table; those not named here come after.
FIGURES = {
    "launch_sync": "launch + synchronise of an empty kernel, /s",
    "linear": "Linear 256→128, batch 4, synchronised each, /s",
    "mlp": "MLP 512-1024-1024-256, batch 1, a program (raw: a 10-node graph), /s",
    "alloc_free": "allocate + free 64 KiB, /s",
    "matmul": "matrix product 8192³ bf16, TFLOP/s",
    **{f"pipelined_{depth}": f"empty kernels, {depth} between two synchronisations, /s" for depth in (1, 2, 4, 8, 16, 32)},
    "pipelining_gain": "the same at 32 over synchronising each",
    "copy_f32": "copy of 1 GiB, read and written, GB/s",
    "add_f32": "sum of two tensors, read and written, GB/s",
}


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return None


def read_stages(path):
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    keys = ("stage", "step", "verdict", "seconds", "detail")
    return [dict(zip(keys, line.split("\t"))) for line in lines]


def collect(runtime, *torch):
    """Every figure as `(name, side, threads) -> value`."""
    values = {}
    for figure in (runtime or {}).get("figures", []):
        if figure["name"] == "pipelining_gain":
            values[figure["name"], "ours", figure["threads"]] = figure["ratio"]
        if figure.get("against") not in (None, "driver"):
            continue  # What ours gains over ours: the goals here say which of that counts.
        for side in ("ours", "raw"):
            if figure.get(side) is not None:
                values[figure["name"], side, figure.get("threads", 1)] = figure[side]
    for source in torch:
        for figure in (source or {}).get("figures", []):
            if not figure["name"].startswith("eager_"):  # Those stand beside the operators.
                values[figure["name"], figure["side"], figure["threads"]] = figure["value"]
    return values


def judge(values):
    """Each goal with its ratio and whether it is met; `None` where a figure is not there."""
    judged = []
    for goal in GOALS:
        ours, other = values.get((goal.figure, "ours", goal.threads)), values.get(goal.other())
        ratio = ours / other if ours is not None and other else None
        judged.append((goal, ratio, None if ratio is None else ratio >= goal.least))
    return judged


def crashes(cpp):
    """What PyTorch did not survive: its figures are those of the runs that ended."""
    count = (cpp or {}).get("crashes", 0)
    return [f"PyTorch's C++ threads crashed in {count} runs, which were tried again.", ""] if count else []


def sharing(runtime):
    """Whether threads that share everything disturbed one another: a line, and whether all was well."""
    found = (runtime or {}).get("sharing")
    if found is None:
        return "Threads that share everything: not measured.", None
    line = (
        f"{found['threads']} threads × {found['ops_each']} mixed ops with cross-stream sharing, {found['checked']} "
        f"results checked: {found['wrong']} wrong, {found['faults']} faults, memory "
        f"{'back to its start' if found['memory_restored'] else '**not** back to its start'}."
    )
    return line, found["met"]


def spelled(value):
    if value is None:
        return ""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}" if value < 100 * size else f"{value / size:.0f}{unit}"
    return f"{value:.3g}"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def figures_table(values, judged):
    names = list(FIGURES) + sorted({name for name, _, _ in values} - set(FIGURES))
    rows = []
    for name in names:
        for threads in sorted({at for figure, _, at in values if figure == name}):
            goals = [one for one in judged if (one[0].figure, one[0].threads) == (name, threads)]
            rows.append(
                [FIGURES.get(name, name), str(threads)]
                + [spelled(values.get((name, side, threads))) for side in SIDES]
                + [
                    "; ".join("–" if ratio is None else f"{ratio:.2f} × {goal.against()}" for goal, ratio, _ in goals),
                    "; ".join(f"≥ {goal.least:g}" for goal, _, _ in goals),
                    "; ".join({True: "yes", False: "**no**", None: "not measured"}[met] for _, _, met in goals),
                ]
            )
    return table(["figure", "threads", *SIDES.values(), "ratio", "goal", "met"], rows)


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def machine(built, torch):
    """What this was measured on, and with what."""
    query = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    gpus = output_of(*query)
    processor = [line for line in (output_of("lscpu") or "").splitlines() if line.startswith("Model name")]
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%F %H:%M UTC"),
        "gpus": gpus.splitlines() if gpus else [],
        "processor": processor[0].split(":", 1)[1].strip() if processor else platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}",
        "python": platform.python_version(),
        "torch": torch and f"{torch['torch']} (CUDA {torch['cuda']})",
        "built": built,
    }


def eager(cpp):
    """What a call costs PyTorch's thread, by the name of the operator."""
    values = {figure["name"]: figure["value"] for figure in (cpp or {}).get("figures", [])}
    return lambda name: values.get(f"eager_{name}")


def tally(verdicts):
    """How many goals are met, and how many not."""
    counts = [list(verdicts).count(verdict) for verdict in (True, False, None)]
    return f"{len(verdicts)} goals: {counts[0]} met, {counts[1]} missed, {counts[2]} not measured."


def page(report, values, judged, parts):
    """The report for people."""
    facts = [f"- {name}: {', '.join(value) if isinstance(value, list) else value}"
             for name, value in report["machine"].items() if value]
    steps = [[step.get(key, "") for key in ("stage", "step", "verdict", "seconds", "detail")] for step in report["stages"]]
    return "\n".join([
        "# Streampool on a GPU",
        "",
        *facts,
        "",
        "## What was run",
        "",
        table(["stage", "step", "verdict", "seconds", "said"], steps),
        "## Figures",
        "",
        figures_table(values, judged),
        tally([met for _, _, met in judged]),
        "",
        report["sharing"],
        "",
        *report["crashes"],
        *parts,
    ])


def told(one):
    """A goal, for the object."""
    return {"name": one.name, "value": one.value, "limit": one.limit, "at_most": one.at_most, "met": one.met}


def make(folder, built):
    """Writes the report; says whether every goal is met."""
    runtime, python, cpp = (read_json(folder / f"{name}.json") for name in ("runtime", "torch_python", "torch_cpp"))
    values = collect(runtime, python, cpp)
    judged = judge(values)
    names = [f"{what}_{precision}" for what in ("ops", "compare") for precision in report_ops.PRECISIONS]
    found = {name: read_json(folder / f"{name}.json") for name in names}
    models = {name: read_json(folder / f"{name}.json") for name in (*report_models.FILES, "torch_encoder")}
    batching = {name: read_json(folder / f"{name}.json") for name in report_batching.FILES}
    judged_ops, judged_models = report_ops.judge(found), report_models.judge(models)
    judged_batching = report_batching.judge(batching)
    fairness = {name: read_json(folder / f"{name}.json") for name in report_fairness.FILES}
    judged_fairness = report_fairness.judge(fairness)
    shared, undisturbed = sharing(runtime)
    report = {
        "machine": machine(built, python),
        "stages": read_stages(folder / "stages.tsv"),
        "figures": [
            {"name": name, "side": side, "threads": threads, "value": value}
            for (name, side, threads), value in sorted(values.items())
        ],
        "goals": [
            {"name": goal.figure, "threads": goal.threads, "against": goal.against(), "least": goal.least,
             "ratio": ratio, "met": met}
            for goal, ratio, met in judged
        ],
        "sharing": shared,
        "crashes": crashes(cpp),
        "runtime": runtime,
        "operators": found,
        "goals_of_operators": [told(one) for one in judged_ops],
        "models": models,
        "goals_of_models": [told(one) for one in judged_models],
        "batching": batching,
        "goals_of_batching": [told(one) for one in judged_batching],
        "fairness": fairness,
        "goals_of_fairness": [told(one) for one in judged_fairness],
    }
    parts = []
    for lines, goals in (
        (report_ops.page(found, judged_ops, eager(cpp), table), judged_ops),
        (report_models.page(models, judged_models, table), judged_models),
        (report_batching.page(batching, judged_batching, table), judged_batching),
        (report_fairness.page(fairness, judged_fairness, table), judged_fairness),
    ):
        parts += [*lines, tally([one.met for one in goals]), ""]
    text = page(report, values, judged, parts)
    (folder / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(text, encoding="utf-8")
    print(text)
    goals = [met for _, _, met in judged] + [one.met for one in (*judged_ops, *judged_models, *judged_batching, *judged_fairness)]
    return all(goals) and bool(undisturbed)


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    built = None
    if len(sys.argv) == 3 and os.path.exists(sys.argv[2]):
        built = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8").strip()
    return 0 if make(pathlib.Path(sys.argv[1]), built) else 1


if __name__ == "__main__":
    raise SystemExit(main())
