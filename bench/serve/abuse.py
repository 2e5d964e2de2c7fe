"""What production does to a server beyond what the tests do in seconds:

    python3 bench/serve/abuse.py --streampool target/release/streampool     # needs the packages numpy and onnx
    SERVE_CASES=1000000 cargo test --workspace strange

The first: 10,000 idle connections, of which none does harm and each takes little memory; kill -9 under load and a restart at the same socket;
a disk that is full where traces go. The second: a million of each, made from good ones: whole requests over a connection of their own, bodies, messages of gRPC, and `config.pbtxt`.
"""

import argparse
import asyncio
import http.client
import re
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import compare


def idle(options, models):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(options.connections, hard - 200)
    server = compare.Streampool(options.streampool, models)
    before = server.memory()
    held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]
    # Half of them have sent half a request.
    for connection in held[::2]:
        connection.sendall(b"POST /v2/models/identity/infer HTTP/1.1\r\n")
    body, headers = compare.binary(16)
    times = asyncio.run(compare.closed(server.port, [compare.request("/v2/models/identity/infer", body, headers.items())], 8, 2, 0))
    after = server.memory()
    for connection in held:
        connection.close()
    server.end()
    assert times, "nothing was answered beside idle connections"
    print(f"{count} idle connections: {(after - before) * 1024 / count:.1f} KiB each, and beside them {compare.told(times, 2)}")


def killed(options, models):
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/socket"
        server = compare.Streampool(options.streampool, models, "--grpc", address)
        stop = threading.Event()

        def load():
            while not stop.is_set():
                try:
                    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
                    body, headers = compare.binary(16)
                    while not stop.is_set():
                        connection.request("POST", "/v2/models/identity/infer", body, headers)
                        connection.getresponse().read()
                except OSError:
                    time.sleep(0.01)

        callers = [threading.Thread(target=load) for _ in range(4)]
        for caller in callers:
            caller.start()
        time.sleep(0.5)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        server = compare.Streampool(options.streampool, models, "--grpc", address)
        stop.set()
        for caller in callers:
            caller.join()
        server.end()
        print(f"kill -9 under load: ready again after {server.ready:.0f} ms, with the socket file of the one before")


def full(options, models):
    server = compare.Streampool(options.streampool, models, "--traces", "/dev/full", "--trace-rate", "1")
    body, headers = compare.binary(16)
    times = asyncio.run(compare.closed(server.port, [compare.request("/v2/models/identity/infer", body, headers.items())], 4, 3, 0))
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", "/metrics")
    page = connection.getresponse().read().decode()
    server.end()
    counts = dict(re.findall(r'^streampool_traces{outcome="(\w+)"} (\d+)', page, re.M))
    assert int(counts["failed"]) > 0 and int(counts["sent"]) == 0, counts
    print(f"a full disk for traces: {compare.told(times, 3)}; traces {counts}")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--streampool", required=True, type=Path)
    options.add_argument("--connections", type=int, default=10_000)
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        compare.write(models / "identity.onnx", 16)
        for part in (idle, killed, full):
            part(options, models)


if __name__ == "__main__":
    main()
