"""The program in a process of its own, for tests with real clients."""

import os
import re
import signal
import subprocess
import tempfile
import threading
from pathlib import Path


class Program:
    """`streampool serve` at free ports, on what `prepare` puts into a folder; that gives the program's other arguments."""

    def prepare(self, folder):
        raise NotImplementedError

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        given = self.prepare(Path(self.folder.name))
        program = [os.environ["STREAMPOOL"], "serve", *given, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
        self.process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            if "ready" in line:
                break
        else:
            raise RuntimeError("".join(self.log))
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()
        self.http, self.grpc = (re.search(f'{name}="([^"]*)"', self.log[-1])[1] for name in ("http", "grpc"))
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0 or kind, "".join(self.log)
        self.folder.cleanup()
