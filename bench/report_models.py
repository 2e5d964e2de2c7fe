"""The models' part of the report: an encoder of six layers and MiniLM-L6 from words to states, ours beside PyTorch's. Read
from what the stage `models` of gpu.sh wrote: model_NAME.json (as `streampool run --repeat --json` writes them) and
torch_encoder.json (bench/models/torch_encoder.py)."""

from dataclasses import dataclass

from report_ops import Judged, goals_table

# What is measured, and what PyTorch's file calls it.
MODELS = {"layers": "six layers", "whole": "MiniLM-L6, words to states"}
KINDS = [
    (f"{prefix}{threads}", threads, where)
    for threads in (8, 1) for prefix, where in (("", "on the device"), ("host_", "from and to the host"))
]
FILES = [f"model_{model}_{kind}" for model in MODELS for kind in (*(kind for kind, _, _ in KINDS), "large")]
STEADY = ("captures", "device_allocations", "kernels_compiled")
LEAST_OF_GRAPHS, LEAST_LARGE, LARGE = 2.0, 1.0, 256


@dataclass(frozen=True)
class Row:
    """Runs or sequences a second, ours and PyTorch's."""

    name: str
    ours: float | None
    torch: float | None

    @property
    def ratio(self):
        return self.ours / self.torch if self.ours and self.torch else None


def rate(found, name):
    return (found.get(f"model_{name}") or {}).get("runs_per_second")


def rows(found):
    """Every comparison, by model and kind."""
    torch = found.get("torch_encoder") or {}
    result = {}
    for model, title in MODELS.items():
        graphs = torch.get(f"{model}_batch_1_f32_graph_waited_runs_per_s")
        for kind, threads, where in KINDS:
            name = f"{title}, f32, batch 1, {threads} thread{'s' * (threads > 1)}, {where}"
            result[model, kind] = Row(name, rate(found, f"{model}_{kind}"), graphs if threads == 8 else None)
        large = rate(found, f"{model}_large")
        sides = [torch.get(f"{model}_large_f16_{side}_items_per_s") for side in ("graph", "eager")]
        best = max((side for side in sides if side), default=None)
        result[model, "large"] = Row(f"{title}, f16, batch {LARGE}, sequences", large and LARGE * large, best)
    return result


def judge(found):
    """Every goal of the models."""
    table = rows(found)
    judged = []
    for model, title in MODELS.items():
        judged.append(Judged(f"{title}: 8 threads, × PyTorch's graphs", table[model, "8"].ratio, LEAST_OF_GRAPHS))
        judged.append(Judged(f"{title}: batch {LARGE} in f16, × PyTorch", table[model, "large"].ratio, LEAST_LARGE))
    meanwhile = [(found.get(name) or {}).get("meanwhile") for name in FILES]
    besides = None if None in meanwhile else sum(each[what] for each in meanwhile for what in STEADY)
    judged.append(Judged("captures, allocations and compilations on the steady path", besides, 0, True))
    return judged


def page(found, judged, table):
    """This part for people."""
    spelled = lambda value: "" if value is None else f"{value:,.0f}"
    lines = [
        [row.name, spelled(row.ours), spelled(row.torch), "" if row.ratio is None else f"{row.ratio:.2f}"]
        for row in rows(found).values()
    ]
    return ["## Models", "", table(["model", "ours, /s", "PyTorch, /s", "ratio"], lines), goals_table("models", judged, table)]
