"""The tests again and again, each time in another random order, every second time beside busy loops: what fails now and then.

    make test-orders RUNS=20
    make test-orders RUNS=10 LOAD=4                         # beside four busy loops, every time
    LOAD=4 python tests/orders.py 20 -n 2 tests/simulation  # a number of runs, then arguments for pytest

Without LOAD every second run is beside one busy loop. It stops at the first red run and prints the line that repeats it. With several
processes side by side the order is the same, but which test runs beside which is not.
"""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Program of a busy loop that ends with its parent process, however that ends."""


@contextmanager
def _load(loops: int) -> Iterator[None]:
    """So many processes that compute all the time."""
    processes = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _loops(number: int, load: str | None) -> int:
    """Return the number of busy loops beside this run."""
    return int(load) if load else int(number % 2 == 0)


def _beside(loops: int) -> str:
    return {0: "", 1: ", beside a busy loop"}.get(loops, f", beside {loops} busy loops")


def main(runs: int, arguments: list[str], load: str | None) -> int:
    """The exit code of the first run that is red, or 0. ``load``: how many busy loops are beside each run."""
    if load and not load.isdecimal():
        print(f"invalid LOAD {load!r} (expected a number of busy loops)", file=sys.stderr)
        return 2
    for number in range(1, runs + 1):
        loops = _loops(number, load)
        command = ["-m", "pytest", "-q", *arguments, f"--randomly-seed={random.randrange(2**31)}"]
        shown = shlex.join(["python", *command])
        print(f"== run {number} of {runs}{_beside(loops)}: {shown}", flush=True)
        began_s = time.monotonic()
        with _load(loops):
            code = subprocess.run([sys.executable, *command], check=False).returncode
        print(f"== run {number}: exit code {code} after {time.monotonic() - began_s:.0f} s", flush=True)
        if code:
            print(f"red; {number - 1} runs before it were green. Again: {shown}", flush=True)
            return code
    print(f"{runs} runs in a row were green")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:], os.environ.get("LOAD")))
