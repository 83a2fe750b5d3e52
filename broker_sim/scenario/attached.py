"""The user's own program beside a scenario: started with the brokers' address, listened to for its end, ended with all that it started.

program = Attached(["./start-consumers.sh", "{bootstrap}"])
await program.start(Access("127.0.0.1:40001"), ended)      # ended() is called when it has ended by itself
program.code, program.words                        # 3, "ended with code 3 after 0.4 s"
await program.stop()
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence

from broker_sim.common.text import UsageError, duration_text
from broker_sim.scenario.clients import Access, need_process_groups

__all__ = ["ADDRESS", "Attached"]

PATIENCE_S = 5.0
"""Time that the program has to end after a signal."""

ADDRESS = "the brokers' address is in its environment as BOOTSTRAP, and {bootstrap} in its arguments stands for it"


class Attached:
    """One program. ``command``: ``{bootstrap}`` in its words is the brokers' address, which BOOTSTRAP in its environment is, too.
    What the listeners require is there by librdkafka's names: SECURITY_PROTOCOL, SASL_USERNAME, SSL_CA_LOCATION and so on."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = list(command)
        self.code: int | None = None
        """Exit code of the process, once it has ended by itself; the negative number of the signal that ended it."""
        self.words = ""
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, access: Access, ended: Callable[[], object]) -> None:
        """Start it. Raises UsageError where that can't be."""
        need_process_groups()
        words = [word.replace("{bootstrap}", access.bootstrap) for word in self.command]
        environment = {**os.environ, "BOOTSTRAP": access.bootstrap, "BROKER_SIM_BOOTSTRAP": access.bootstrap}
        environment |= {name.upper().replace(".", "_"): value for name, value in access.security.items()}
        began_s = asyncio.get_running_loop().time()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *words, env=environment, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            raise UsageError(f"{words[0]} can't be started: {error.strerror}") from None
        self._watching = asyncio.ensure_future(self._watch(self._process, began_s, ended))

    async def _watch(self, process: asyncio.subprocess.Process, began_s: float, ended: Callable[[], object]) -> None:
        self.code = await process.wait()
        lasted_s = asyncio.get_running_loop().time() - began_s
        how = f"code {self.code}" if self.code >= 0 else f"signal {_signal_name(-self.code)}"
        self.words = f"ended with {how} after {duration_text(lasted_s * 1000)}"
        ended()

    async def stop(self) -> None:
        """End it and the processes that it started, even if it has ended itself."""
        process = self._process
        if process is None:
            return
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError, TimeoutError):
                os.killpg(process.pid, number)
                async with asyncio.timeout(PATIENCE_S):
                    await process.wait()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
