"""Code in an interpreter of its own."""

import os
import subprocess
import sys
import textwrap


def in_a_process(code):
    """Runs code in an interpreter of its own; what it prints."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
