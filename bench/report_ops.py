"""The operators' part of the report: ours beside PyTorch's, the bandwidth of what is bound by memory, and what a call
costs its thread. Read from what the stage `ops` of gpu.sh wrote: ops_f32.json and ops_f16.json (ours alone, as
`streampool-measure ops --json` writes them), compare_f32.json and compare_f16.json (bench/ops/compare.py)."""

from dataclasses import dataclass

PRECISIONS = ("f32", "f16")
# As in bench/ops/compare.py.
LIST = ("matmul", "attention", "layer_norm", "gelu", "conv", "lstm", "softmax")
ATTENTION = ("attention", "attention_long")
MEMORY_BOUND = ("layer_norm", "gelu", "softmax", "add", "cast", "embedding", "cumsum", "max_pool")
EAGER = ("add", "linear", "layer_norm")
LEAST_MEAN, LEAST, LEAST_OF_SDPA, LEAST_OF_COPY, MOST_NANOSECONDS = 1.0, 0.7, 0.7, 0.8, 4000.0


@dataclass(frozen=True)
class Judged:
    """A figure with its goal; `value` is `None` if it was not measured."""

    name: str
    value: float | None
    limit: float
    at_most: bool = False

    @property
    def met(self):
        if self.value is None:
            return None
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def goal(self):
        return f"{'≤' if self.at_most else '≥'} {self.limit:g}"


def judge(found):
    """Every goal of the operators; `found` holds the files by name."""
    judged = []
    for precision in PRECISIONS:
        compared = found.get(f"compare_{precision}") or {}
        ratios = compared.get("ratios", {})
        judged.append(Judged(f"{precision}: geometric mean, × PyTorch", compared.get("mean"), LEAST_MEAN))
        judged += [Judged(f"{precision}: {name}, × PyTorch", ratios.get(name), LEAST) for name in LIST]
        ops = (found.get(f"ops_{precision}") or {}).get("ops", {})
        judged += [
            Judged(f"{precision}: {name}, × the copy's bandwidth", ops.get(name, {}).get("of_peak"), LEAST_OF_COPY)
            for name in MEMORY_BOUND
        ]
    half = (found.get("compare_f16") or {}).get("ratios", {})
    judged += [Judged(f"f16: {name}, × PyTorch's SDPA", half.get(name), LEAST_OF_SDPA) for name in ATTENTION]
    judged += [
        Judged(f"a call of {name} that nobody waits for, ns", nanoseconds(found, name), MOST_NANOSECONDS, True)
        for name in EAGER
    ]
    return judged


def nanoseconds(found, name):
    """What a call of ours costs its thread."""
    return (found.get("ops_f32") or {}).get("overhead", {}).get(name, {}).get("ns")


def times_table(found, precision, table):
    """Ours and PyTorch's times for each operator, and how much of what bounds it ours reaches."""
    seconds = (found.get(f"compare_{precision}") or {}).get("seconds", {})
    ratios = (found.get(f"compare_{precision}") or {}).get("ratios", {})
    ops = (found.get(f"ops_{precision}") or {}).get("ops", {})
    rows = []
    for name in dict.fromkeys([*ops, *seconds.get("ours", {})]):
        time = lambda side: f"{seconds[side][name] * 1e6:.1f}" if name in seconds.get(side, {}) else ""
        own = ops.get(name, {})
        rate = ""
        if own:
            by_flops = own["bound"] == "flops" and own["flop_per_s"]
            rate = f"{own['flop_per_s'] / 1e12:.4g} TFLOP/s" if by_flops else f"{own['bytes_per_s'] / 1e9:.4g} GB/s"
        rows.append([
            name, time("ours"), time("torch"), f"{ratios[name]:.2f}" if name in ratios else "", rate,
            f"{own['of_peak']:.2f} of {own['bound']}" if own else "",
        ])
    return table(["operator", "ours, µs", "PyTorch, µs", "ratio", "reaches", "of the peak"], rows)


def eager_table(found, cpp, table):
    """What a call costs its thread, beside PyTorch's C++; `cpp` gives that by name."""
    spelled = lambda value: "" if value is None else f"{value:.0f}"
    rows = [[name, spelled(nanoseconds(found, name)), spelled(cpp(name))] for name in EAGER]
    return table(["a call that nobody waits for", "ours, ns", "PyTorch C++, ns"], rows)


def goals_table(what, judged, table):
    said = {True: "yes", False: "**no**", None: "not measured"}
    rows = [["–" if one.value is None else f"{one.value:.4g}", one.goal(), said[one.met]] for one in judged]
    return table([what, "value", "goal", "met"], [[one.name, *row] for one, row in zip(judged, rows)])


def page(found, judged, cpp, table):
    """This part for people."""
    lines = ["## Operators", ""]
    for precision in PRECISIONS:
        lines += [f"In {precision}:", "", times_table(found, precision, table)]
        refused = (found.get(f"ops_{precision}") or {}).get("refused", {})
        lines += [f"**{name} has no figures**: {why}\n" for name, why in refused.items()]
    return [*lines, eager_table(found, cpp, table), goals_table("operators", judged, table)]
