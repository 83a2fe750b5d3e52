"""The tests again and again, each time in another random order, every second time beside a busy loop: what fails now and then.

    make test-orders RUNS=20
    python tests/orders.py 20 -n 2 tests/simulation         # a number of runs, then arguments for pytest

It stops at the first red run and prints the line that repeats it. With several processes side by side the order is the same, but which
test runs beside which is not.
"""

from __future__ import annotations

import random
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_BUSY = "while True: pass"


@contextmanager
def _load(busy: bool) -> Iterator[None]:
    """A process that computes all the time."""
    if not busy:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", _BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main(runs: int, arguments: list[str]) -> int:
    """The exit code of the first run that is red, or 0."""
    for number in range(1, runs + 1):
        busy = number % 2 == 0
        command = ["-m", "pytest", "-q", *arguments, f"--randomly-seed={random.randrange(2**31)}"]
        shown = shlex.join(["python", *command])
        print(f"== run {number} of {runs}{', beside a busy loop' if busy else ''}: {shown}", flush=True)
        began_s = time.monotonic()
        with _load(busy):
            code = subprocess.run([sys.executable, *command], check=False).returncode
        print(f"== run {number}: exit code {code} after {time.monotonic() - began_s:.0f} s", flush=True)
        if code:
            print(f"red; {number - 1} runs before it were green. Again: {shown}", flush=True)
            return code
    print(f"{runs} runs in a row were green")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
