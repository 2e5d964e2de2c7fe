"""Who waits while others run flat out: read from what the stage `fairness` of gpu.sh wrote, as `streampool-measure fairness --json`
writes it."""

from report_ops import Judged, goals_table

FILES = ("fairness", "fairness_long", "fairness_calls")
# Of runs by the thread that gets the fewest, and by the one that gets the most.
LEAST_EVEN = 0.7
# The longest wait of any of 31 threads, in seconds.
LONGEST_WAIT = 0.02
# A first answer may take twice what it takes on an idle device, and this much more.
ALLOWANCE = 0.005
NEWS = {"thread": "a new thread", "sizes": "new sizes", "model": "a new model"}


def crowds(found, name="fairness"):
    return (found.get(name) or {}).get("crowds", [])


def judge(found):
    """Every goal."""
    judged = [
        Judged(f"{crowd['threads']} threads: fewest runs of a thread ÷ most", crowd["fewest_by_most"], LEAST_EVEN)
        for crowd in crowds(found)
    ]
    long = crowds(found, "fairness_long")
    waited = long[0]["longest_wait"] if long else None
    judged.append(Judged("31 threads: longest wait, s", waited, LONGEST_WAIT, at_most=True))
    idle = (found.get("fairness_long") or {}).get("idle", {})
    for news, what in NEWS.items():
        took = long[0]["firsts"][news]["longest"] if long else None
        allowed = 2 * idle[news]["median"] + ALLOWANCE if idle else ALLOWANCE
        judged.append(Judged(f"31 threads: longest first answer of {what}, s", took, allowed, at_most=True))
    return judged


def time(seconds):
    for size, unit in ((1, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def page(found, judged, table):
    """This part for people."""
    pair = lambda first: f"{time(first['median'])}, {time(first['longest'])}" if first["count"] else ""
    rows = [
        [str(crowd["threads"]), f"{crowd['runs_per_second']:,.0f}", str(crowd["fewest"]), str(crowd["most"]),
         f"{crowd['fewest_by_most']:.2f}", time(crowd["p99_9"] or 0), time(crowd["longest_wait"]),
         *(pair(crowd["firsts"][news]) for news in NEWS)]
        for name in ("fairness", "fairness_long") for crowd in crowds(found, name)
    ]
    head = ["threads", "runs/s", "fewest", "most", "÷", "p99.9", "longest wait", *NEWS.values()]
    lines = ["## Fairness", "", table(head, rows)]
    calls = (found.get("fairness_calls") or {}).get("calls", [])
    if calls:
        cell = lambda times: f"{time(times['median'])}, {time(times['longest'])}" + (", starves" if times["starved"] else "")
        rows = [[f"`{call['call']}`", cell(call["without_gate"]), cell(call["with_gate"])] for call in calls]
        lines.append(table(["call, while 31 threads launch", "without the gate", "with it"], rows))
    return [*lines, goals_table("fairness", judged, table)]
