#!/usr/bin/env python3
"""Prints what the stage `several` of gpu.sh found, as the tables of bench/README.md: several.json, as `streampool-measure
several --json` writes it.

    report_several.py REPORT_DIR
"""

import json
import pathlib
import sys


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def time(seconds):
    return f"{1e3 * seconds:.3g} ms"


def met(ok):
    return "met" if ok else "**missed**"


def speed(found):
    rows = []
    for one in found["speed"]:
        alone = [pace["per_second"] for pace in one["one"]]
        rows.append([
            one["model"], one["threads_per_device"], " / ".join(f"{rate:,.0f}" for rate in alone),
            f"{one['all']['per_second']:,.0f}", f"{one['ratio']:.2f} ({met(one['scales'])})",
            f"{time(max(pace['p99'] for pace in one['one']))} → {time(one['all']['p99'])} ({met(one['p99_no_worse'])})",
            "same" if one["same_bits"] else "**differ**",
        ])
    return table(["model", "threads a GPU", "each alone, runs/s", "all, runs/s", "ratio", "p99 of one → all", "bits"], rows)


def processes(found):
    rows = []
    for one in found["processes"]:
        for done in (one["together"], one["apart"]):
            memory = done["device_memory"]
            rows.append([
                one["model"], done["processes"], f"{done['per_second']:,.0f}", time(done["p99"]),
                f"{done['host_memory'] / 2**30:.2f} GiB", "" if memory is None else f"{memory / 2**30:.2f} GiB",
            ])
    return table(["model", "processes", "runs/s", "p99", "host memory", "GPU memory"], rows)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    found = json.loads((folder / "several.json").read_text(encoding="utf-8"))
    mixed, callers = found["mixed"], found["callers"]
    print(f"{found['devices']} × {found['machine']['cpu']}\n")
    print(speed(found))
    print(f"{mixed['models']} models from {mixed['threads']} threads: {mixed['runs']:,} runs, {mixed['wrong']} wrong, "
          f"begun on each: {mixed['begun']}.\n")
    print(f"{callers['callers']} callers of a queue: {callers['per_second']:,.0f}/s (one GPU: {callers['per_second_of_one']:,.0f}/s), "
          f"p99 {time(callers['p99'])}, uneven by {100 * callers['uneven']:.1f} % ({met(callers['balanced'])}; 99 of 100 looks: "
          f"{100 * callers['uneven_p99']:.1f} %), {callers['answered']:,} answered, "
          f"{'each once' if callers['each_once'] else '**not each once**'}.\n")
    print(processes(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
