"""Tests planted to leave something behind are named, and their neighbours are not."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support import leftovers

ROOT = Path(__file__).resolve().parent.parent

PLANTED = """
import asyncio, gc, multiprocessing, os, socket, subprocess, sys, tempfile, threading, weakref

import pytest

from tests.support import leftovers

leftovers.WAIT_S = 0.5
kept = []


def test_clean():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as one:
        server.accept()[0].close()
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "f"), "w") as file:
        file.write("x")
    thread = threading.Thread(target=print)
    thread.start()
    subprocess.run([sys.executable, "-c", ""], check=True)
    asyncio.run(asyncio.sleep(0))


async def test_clean_on_a_loop():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    await reader.read()
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
    kept.append(asyncio.create_task(asyncio.sleep(1000)))  # which the end of the loop cancels


def test_thread_that_is_about_to_end():
    threading.Timer(0.1, lambda: None).start()


def test_process_that_is_about_to_end():
    started = subprocess.Popen([sys.executable, "-c", ""])
    threading.Thread(target=started.wait).start()


def test_listening():
    kept.append(socket.create_server(("127.0.0.1", 0)))


def test_connected():
    server = kept[-1]
    kept.append(socket.create_connection(server.getsockname()))


def test_garbage():
    one = [socket.socket()]
    one.append(one)


def test_pair():
    kept.extend(socket.socketpair())


def test_file(tmp_path):
    kept.append(open(tmp_path / "a_file", "w"))


def test_descriptor(tmp_path):
    os.open(tmp_path / "a_descriptor", os.O_CREAT)


def test_loop():
    kept.append(asyncio.new_event_loop())


def test_task():
    async def forever():
        await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    kept.append(loop.create_task(forever()))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_thread():
    kept.append(threading.Event())
    threading.Thread(target=kept[-1].wait, args=(60,), name="forgotten", daemon=True).start()


def test_process():
    kept.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))


def test_process_was_killed():
    assert kept[-1].poll() is not None


def test_process_that_ended():
    kept.append(subprocess.Popen([sys.executable, "-c", ""]))


def test_folder():
    tempfile.mkdtemp(prefix="forgotten")


def test_folder_of_a_child():
    subprocess.run([sys.executable, "-c", "import tempfile; tempfile.mkdtemp(prefix='forgotten')"], check=True)


@pytest.fixture
def too_late():
    yield
    kept.append(socket.socket())


def test_fixture(too_late):
    pass


def test_that_fails():
    one = socket.create_server(("127.0.0.1", 0))
    assert one is None


def test_after_one_that_fails():
    gc.collect()


class Server:
    def __init__(self):
        self.listens = socket.create_server(("127.0.0.1", 0))
        self.accepted = []
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            self.accepted.append(self.listens.accept()[0])
            if self.accepted[-1].recv(1):
                break

    def close(self):
        with socket.create_connection(self.listens.getsockname()) as one:
            one.sendall(b"x")
            self.thread.join()
        for one in [*self.accepted, self.listens]:
            one.close()


@pytest.fixture(scope="module")
def server():
    one = Server()
    yield one
    one.close()


@pytest.fixture(scope="module")
def folder_of_the_module():
    return tempfile.mkdtemp(prefix="of_the_module")


@pytest.fixture(scope="module", params=["a", "b"])
def changing(request):
    if request.param == "b":
        yield
    else:
        with socket.socket():
            yield


@pytest.fixture(scope="module")
def when_asked_for():
    opened = []
    yield opened
    for one in opened:
        one.close()


def test_asks_1(when_asked_for):
    with leftovers.lasting():
        when_asked_for.append(socket.socket())


def test_asks_2(when_asked_for):
    when_asked_for[0].getsockname()


def test_server_1(server):
    with socket.create_connection(server.listens.getsockname()):
        pass


def test_server_2(server, changing):
    with socket.create_connection(server.listens.getsockname()):
        pass


def test_server_3(request):
    request.getfixturevalue("server")


def test_last(folder_of_the_module):
    pass
"""

LEFT = {
    "test_listening": r"listening socket 127\.0\.0\.1:\d+, opened in test_planted\.py:\d+",
    "test_connected": r"socket 127\.0\.0\.1:\d+ -> 127\.0\.0\.1:\d+, opened in test_planted\.py:\d+",
    "test_garbage": r"socket 0\.0\.0\.0:0, not connected, opened in test_planted\.py:\d+ \(garbage\)",
    "test_pair": r"socket \(a pair\) -> \(a pair\), opened in test_planted\.py:\d+",
    "test_file": r"file descriptor \d+ \(.*a_file\)",
    "test_descriptor": r"file descriptor \d+ \(.*a_descriptor\)",
    "test_loop": r"event loop <_UnixSelectorEventLoop running=False closed=False debug=False>, made in test_planted\.py:\d+",
    "test_task": r"pending task <Task pending .*forever.*",
    "test_thread": r"thread 'forgotten', started in test_planted\.py:\d+, now in .*threading\.py:\d+.*",
    "test_process": r"child process \d+ \(.*time\.sleep\(600\)\), started in test_planted\.py:\d+",
    "test_process_that_ended": r"child process \d+ \(ended, and was not waited for\), started in test_planted\.py:\d+",
    "test_folder": r"temporary folder .*forgotten\w+",
    "test_folder_of_a_child": r"temporary folder .*forgotten\w+",
    "test_fixture": r"socket 0\.0\.0\.0:0, not connected, opened in test_planted\.py:\d+",
    "test_last": r"temporary folder .*of_the_module\w+ \(of the module's fixture folder_of_the_module\)",
}
"""Planted test -> pattern of its leftover; all others leave nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("side_by_side", [False, True], ids=["one process", "side by side"])
def test_who_leaves_something_behind_is_named_and_nobody_else(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, side_by_side: bool
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(test_planted=PLANTED)
    options = ["-n", "1"] if side_by_side else []
    result = pytester.runpytest_subprocess(
        *("-p", "tests.support.leftovers", "-p", "no:randomly", "-W", "error", "-rA", *options),
        *("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"),
    )
    text = result.stdout.str()
    blamed = dict(re.findall(r"_ ERROR at teardown of (\w+) _+\n(?:\[gw.*\n)?the test leaves behind:\n  (.*)\n", text))
    assert blamed.keys() == LEFT.keys(), text
    wrong = {name: line for name, line in blamed.items() if not re.fullmatch(LEFT[name], line)}
    assert not wrong
    result.assert_outcomes(passed=PLANTED.count("def test_") + 1 - 1, failed=1, errors=len(LEFT))
    failed = text.partition("_ test_that_fails _")[2].partition("short test summary")[0]
    assert re.search(r"Captured left behind teardown -+\nlistening socket 127\.0\.0\.1:\d+, opened in", failed), failed


def test_a_connection_to_the_jvm_of_a_spark_session_is_no_test_s(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as jvm, socket.create_server(("127.0.0.1", 0)) as other:
        parameters = SimpleNamespace(port=jvm.getsockname()[1])
        gateway = SimpleNamespace(gateway_parameters=parameters)
        context = SimpleNamespace(SparkContext=SimpleNamespace(_gateway=gateway))
        monkeypatch.setitem(sys.modules, "pyspark.core.context", context)
        pair = socket.socketpair()
        before = leftovers.look()
        with socket.create_connection(jvm.getsockname()):
            assert leftovers.look() == before
        with socket.create_connection(other.getsockname()) as client:
            assert [thing[:2] for thing in leftovers.look() - before] == [("fd", client.fileno())]
        for one in pair:
            one.close()
