"""The queue's part of the report: many callers with one row each through a queue that makes batches, beside threads that run
the model by themselves. Read from what the stage `batching` of gpu.sh wrote: batching_NAME.json, as `streampool bench model
--queue --json` writes them."""

from report_ops import Judged, goals_table

MODELS = {"mlp": "512-1024-1024-256", "encoder": "six layers, 128 words", "half": "the same, f16"}
FILES = [f"batching_{model}" for model in MODELS]
CALLERS = 256
LEAST_OF_CALLERS, LEAST_OF_ONE, LEAST_OF_EIGHT = 10.0, 62.0, 8.0


def rate(found, model, via, threads):
    """Rows a second."""
    points = (found.get(f"batching_{model}") or {}).get("points", [])
    rates = [point["rows_per_second"] for point in points if (point["via"], point["threads"]) == (via, threads)]
    return max(rates, default=None)


def ratio(found, model, threads):
    queue, alone = rate(found, model, "queue", CALLERS), rate(found, model, "threads", threads)
    return queue / alone if queue and alone else None


def judge(found):
    """Every goal of the queue."""
    goals = [("mlp", CALLERS, LEAST_OF_CALLERS), ("mlp", 1, LEAST_OF_ONE), ("encoder", 8, LEAST_OF_EIGHT)]
    return [
        Judged(f"{MODELS[model]}: {CALLERS} callers of a queue, × {threads} alone", ratio(found, model, threads), least)
        for model, threads, least in goals
    ]


def page(found, judged, table):
    """This part for people."""
    spelled = lambda value: "" if value is None else f"{value:,.0f}"
    lines = [
        [title, str(threads), *(spelled(rate(found, model, via, threads)) for via in ("threads", "queue"))]
        for model, title in MODELS.items() for threads in (1, 8, CALLERS)
    ]
    head = ["model", "callers", "alone, rows/s", "queue, rows/s"]
    return ["## Batching", "", table(head, lines), goals_table("batching", judged, table)]
