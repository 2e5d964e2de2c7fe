"""The program: ``python -m streampool doctor`` is ``streampool doctor``."""

import signal
import sys

from . import _streampool


def main() -> int:
    """Run the program with this process's arguments and return its exit code."""
    # Ctrl-C ends it, whatever it does.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _streampool.run_program(["streampool", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
