#!/usr/bin/env python3
"""One process on a GPU beside several that share it, alone and behind Ray Serve: requests per second, times, memory of the GPU.

    ray_gpu.py MODEL [--json FILE] [--ways session,queue,ray] [--processes 1,2,4] [--callers 32,128] [--clients 4]
               [--seconds 2] [--device cuda:0]

The same number of callers is divided among the processes. Each asks for one row, waits for the answer, and asks again.

- "session": threads call `session.run`. Each has a stream.
- "queue": threads call `queue.infer` of the one queue of their process, which makes batches.
- "ray": tasks await `handle.infer.remote` of an application with so many replicas on the GPU (`replicas_per_gpu`). They run in
  as many processes as --clients says.

Memory is what the driver counts on the whole GPU while the processes are there. FILE is written after each figure, so a run
that is cut short leaves what came before. Needs the packages streampool and numpy, and `ray[serve]` for "ray".
models/make_encoder.py and models/make_mlp.py make models. With `--device host` it shows that it works, and no more.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import threading
import time

import numpy as np

import streampool as sp

ROWS = 32
NAMED = {"batch": 1, "sequence": 128}


def example(session):
    """One row of random numbers for each input."""
    random = np.random.default_rng(1)
    sizes = {port.name: [NAMED.get(size, size) for size in port.shape] for port in session.inputs}
    return {port.name: random.standard_normal(sizes[port.name]).astype(port.dtype) for port in session.inputs}


def memory(device):
    """MiB in use on the GPU, whoever uses them; None where nothing tells."""
    if not device.startswith("cuda"):
        return None
    number = device.partition(":")[2] or "0"
    asked = ["nvidia-smi", f"--id={number}", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return int(subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def by_threads(call, threads, seconds, ready):
    """Return the times of the calls that so many threads make. `ready` is called once all of them are warm."""
    stop, go, all_warm = threading.Event(), threading.Event(), threading.Barrier(threads + 1)
    times = [[] for _ in range(threads)]

    def work(place):
        for _ in range(5):
            call()
        all_warm.wait(120)
        go.wait()
        while True:
            begun = time.perf_counter()
            call()
            # What ends too late does not count.
            if stop.is_set():
                break
            times[place].append(time.perf_counter() - begun)

    workers = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(threads)]
    for worker in workers:
        worker.start()
    all_warm.wait(120)
    ready()
    go.set()
    time.sleep(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    return np.concatenate([np.array(each) for each in times])


def process(model, device, pipe):
    """Measure what is asked for by the pipe, in a process of its own."""
    session = sp.Session(model, device)
    inputs = example(session)
    session.run(inputs)
    with sp.BatchQueue(session, max_batch_size=ROWS, capacity=4096) as queue:
        calls = {"session": lambda: session.run(inputs), "queue": lambda: queue.infer(inputs)}
        pipe.send("loaded")
        while asked := pipe.recv():
            way, threads, seconds = asked

            def ready():
                pipe.send("ready")
                pipe.recv()

            pipe.send(by_threads(calls[way], threads, seconds, ready))


def alone(options, count, report):
    """Measure so many processes without Ray."""
    started = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(count):
        ours, theirs = started.Pipe()
        one = started.Process(target=process, args=(options.model, options.device, theirs), daemon=True)
        one.start()
        theirs.close()
        pipes.append(ours)
        processes.append(one)

    def all_of_them():
        return [pipe.recv() for pipe in pipes]

    def tell(what):
        for pipe in pipes:
            pipe.send(what)

    all_of_them()
    for way in ("session", "queue"):
        for callers in options.callers if way in options.ways else ():
            tell((way, callers // count, options.seconds))
            all_of_them()
            tell("go")
            times = np.concatenate(all_of_them())
            report.figure(way, count, callers, times, memory(options.device))
    tell(None)
    for one in processes:
        one.join(30)


class Client:
    """A process with callers of a handle."""

    def __init__(self, handle, inputs):
        self.handle, self.inputs = handle, inputs

    async def ask(self, callers, seconds):
        """Return the times of so many callers."""
        times = [[] for _ in range(callers)]

        async def call(place, until):
            while time.perf_counter() < until:
                begun = time.perf_counter()
                await self.handle.infer.remote(self.inputs)
                ended = time.perf_counter()
                if ended < until:
                    times[place].append(ended - begun)

        async def all_of_them(seconds):
            until = time.perf_counter() + seconds
            await asyncio.gather(*(call(place, until) for place in range(callers)))

        await all_of_them(min(1, seconds))
        for each in times:
            each.clear()
        await all_of_them(seconds)
        return np.concatenate([np.array(each) for each in times])


def behind_ray(options, report):
    """Measure each number of replicas."""
    # Ray stays on this machine, which may have no network.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray
    from ray import serve

    import streampool.ray

    gpus = 1 if options.device.startswith("cuda") else 0
    processors = max(8, os.cpu_count())
    settings = {"include_dashboard": False, "log_to_driver": False, "_node_ip_address": "127.0.0.1"}
    ray.init(num_gpus=gpus, num_cpus=processors, object_store_memory=256 << 20, **settings)
    serve.start(proxy_location="Disabled")
    inputs = example(sp.Session(options.model, "host"))
    client = ray.remote(num_cpus=0.5)(Client)
    for count in options.processes:
        app = streampool.ray.app(
            os.path.abspath(options.model),
            device=options.device,
            replicas=count,
            replicas_per_gpu=count,
            cpus=0.5,
            max_batch_size=ROWS,
            capacity=4096,
        )
        handle = serve.run(app)
        clients = [client.remote(handle, inputs) for _ in range(options.clients)]
        for callers in options.callers:
            asked = [one.ask.remote(callers // options.clients, options.seconds) for one in clients]
            times = np.concatenate(ray.get(asked))
            report.figure("ray", count, callers, times, memory(options.device))
        for one in clients:
            ray.kill(one)
        # The GPU is free for the next ones only when these are gone.
        serve.delete("default")
    ray.shutdown()


class Report:
    """The figures so far."""

    def __init__(self, options):
        self.options, self.figures = options, []

    def figure(self, way, processes, callers, times, mebibytes):
        """Take one, and write all of them."""
        p50, p99 = (float(np.percentile(times, part) * 1e3) for part in (50, 99))
        one = {"way": way, "processes": processes, "callers": callers, "requests_per_second": len(times) / self.options.seconds}
        self.figures.append({**one, "p50_ms": p50, "p99_ms": p99, "memory_mib": mebibytes})
        print(self.row(self.figures[-1]), flush=True)
        if self.options.json:
            told = {"model": os.path.basename(self.options.model), "device": self.options.device, "streampool": sp.__version__}
            with open(self.options.json, "w") as file:
                json.dump({**told, "seconds": self.options.seconds, "figures": self.figures}, file, indent=1)

    @staticmethod
    def row(one):
        """Return one as a row of the table."""
        used = "" if one["memory_mib"] is None else one["memory_mib"]
        rate, p50, p99 = f"{one['requests_per_second']:.0f}", f"{one['p50_ms']:.2f}", f"{one['p99_ms']:.2f}"
        return f"| {one['way']} | {one['processes']} | {one['callers']} | {rate} | {p50} | {p99} | {used} |"

    def table(self):
        """Print what was measured."""
        print("\n| way | processes | callers | requests/s | p50, ms | p99, ms | memory, MiB |\n|---|---|---|---|---|---|---|")
        for one in self.figures:
            print(self.row(one))


def main():
    """Measure what the arguments say."""

    def numbers(text):
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--json")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=["session", "queue", "ray"])
    parser.add_argument("--processes", type=numbers, default=[1, 2, 4])
    parser.add_argument("--callers", type=numbers, default=[32, 128])
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    report = Report(options)
    if {"session", "queue"} & set(options.ways):
        for count in options.processes:
            alone(options, count, report)
    if "ray" in options.ways:
        behind_ray(options, report)
    report.table()


if __name__ == "__main__":
    main()
