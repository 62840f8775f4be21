"""The file that AKTOR_TRACE names: when lines are written, and what does not stop a consumer."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor import aio
from aktor.broker.embedded import EmbeddedKafka
from aktor.trace import open_trace
from aktor.trace.file import AT_CLOSE, MAX_BYTES, PAUSE, WAITING_MAX, TraceFile, trace_file

A = TopicPartition("orders", 0)

#: Far longer than a line waits: a limit for one that never comes.
SOON = 30.0


@pytest.fixture(name="path")
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "trace.jsonl"
    monkeypatch.setenv("AKTOR_TRACE", str(path))
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of the file, when all are written."""
    trace_file(str(path)).flush(SOON)
    return [json.loads(line) for line in path.read_text().splitlines()]


def run(program: str, path: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program whose consumers have this trace file."""
    environment = {**os.environ, "AKTOR_TRACE": str(path)}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


# -- lines


def test_the_file_gets_a_line_of_json_for_each_event(path: Path) -> None:
    trace = open_trace(client="app")
    trace.debug("commit.sent", offsets={A: OffsetAndMetadata(3, "", 5)}, owned={"b", "a"})
    trace.info("topic.found", topic="a\nb")

    first, second = lines_of(path)

    assert first["offsets"] == {"orders-0": {"offset": 3, "metadata": "", "leader_epoch": 5}}
    assert first["owned"] == ["a", "b"]
    assert (first["level"], first["client"]) == ("debug", "app")
    assert second["topic"] == "a\nb"


def test_a_number_that_json_does_not_have_is_null(path: Path) -> None:
    open_trace().info("thing.happened", seconds=math.inf, partitions=[1.0, math.nan])

    (line,) = lines_of(path)
    assert (line["seconds"], line["partitions"]) == (None, [1.0, None])


def test_two_consumers_share_the_file(path: Path) -> None:
    open_trace(client="one").info("thing.happened")
    open_trace(client="two").info("thing.happened")

    assert [line["client"] for line in lines_of(path)] == ["one", "two"]


def test_a_line_says_which_host_process_and_trace_wrote_it_and_is_numbered(path: Path) -> None:
    one, other = open_trace(), open_trace()
    for trace in (one, other, one):
        trace.info("thing.happened")

    lines = lines_of(path)

    assert {line["host"] for line in lines} == {socket.gethostname()}
    assert {line["pid"] for line in lines} == {os.getpid()}
    assert lines[0]["trace"] == lines[2]["trace"] != lines[1]["trace"]
    assert [line["line"] for line in lines] == [1, 1, 2]


def test_lines_of_several_threads_are_whole_and_numbered_in_their_order(path: Path) -> None:
    trace = open_trace()

    def tell() -> None:
        for _ in range(200):
            trace.info("thing.happened")

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    lines = lines_of(path)
    assert [line["line"] for line in lines] == list(range(1, 801))
    assert sorted(line["seq"] for line in lines) == list(range(1, 801))


@pytest.mark.parametrize("value", [None, ""])
def test_without_the_variable_there_is_no_file(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AKTOR_TRACE", raising=False)
    if value is not None:
        monkeypatch.setenv("AKTOR_TRACE", value)

    open_trace().error("thing.failed")

    assert list(tmp_path.iterdir()) == []


def test_a_trace_file_does_not_make_the_logger_say_more(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="aktor")

    open_trace().info("commit.sent")

    assert caplog.records == []
    assert lines_of(path)[0]["level"] == "info"


# -- when they are written


def test_a_line_is_written_soon_by_itself_and_not_by_who_tells_the_event(path: Path) -> None:
    open_trace().info("thing.happened")
    ends = time.monotonic() + SOON

    while not (path.exists() and path.read_text()):
        assert time.monotonic() < ends
        time.sleep(PAUSE / 10)


def test_the_last_event_of_a_consumer_is_written_at_once(path: Path) -> None:
    trace = open_trace()
    trace.info("thing.happened")
    trace.info("consumer.closed")
    trace.flush()

    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("end", ["pass", "raise ValueError", "sys.exit(3)"])
def test_an_exit_and_a_crash_write_what_waits_and_what_is_told_after(
    end: str, tmp_path: Path
) -> None:
    path = tmp_path / "trace"
    run(
        f"""
import atexit, sys
atexit.register(lambda: trace.info("thing.late"))  # runs after the functions that come later
from aktor.trace import open_trace
trace = open_trace()
trace.info("thing.happened")
{end}
""",
        path,
    )

    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert events == ["thing.happened", "thing.late"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_repeats_no_line_that_waits_and_the_child_writes_its_own(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    ran = run(
        """
import os
from aktor.trace import open_trace
trace = open_trace()
trace.info("thing.before")
child = os.fork()
open_trace().info("thing.of_child" if child == 0 else "thing.of_parent")
if child:
    os.waitpid(child, 0)
""",
        path,
    )

    assert ran.stderr == ""
    events = sorted(json.loads(line)["event"] for line in path.read_text().splitlines())
    assert events == ["thing.before", "thing.of_child", "thing.of_parent"]


def test_a_signal_handler_may_tell_an_event_while_one_is_written(path: Path) -> None:
    trace = open_trace()

    def tell(_signal: int, _frame: object) -> None:
        trace.info("thing.handled")

    before = signal.signal(signal.SIGALRM, tell)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for _ in range(2000):
            trace.info("thing.happened")
            if _ % 100 == 0:
                trace_file(str(path)).flush()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    numbers = sorted(line["line"] for line in lines_of(path))
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 2000


# -- how long it may become


def test_a_file_that_is_too_long_is_renamed_and_a_new_one_is_begun(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    file = TraceFile(str(path), max_bytes=100)
    for number in range(10, 40):
        file.add({"n": number})  # a line of ten bytes
        file.flush()

    kept = (tmp_path / "trace.1").read_text() + path.read_text()
    assert [json.loads(line)["n"] for line in kept.splitlines()] == list(range(20, 40))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["trace", "trace.1"]


def test_who_writes_to_a_file_that_another_process_has_renamed_goes_on_in_the_new_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trace"
    one, other = (TraceFile(str(path), max_bytes=10) for _ in range(2))
    for file, number in ((one, 1), (other, 2), (one, 3), (other, 4)):
        file.add({"n": number})
        file.flush()

    assert (tmp_path / "trace.1").read_text() == '{"n": 1}\n{"n": 2}\n'
    assert path.read_text() == '{"n": 3}\n{"n": 4}\n'


def test_the_variable_says_how_long_a_file_may_become(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MAX_BYTES, "1000")
    trace = open_trace()
    for _ in range(100):
        trace.info("thing.happened")
        trace_file(str(path)).flush()

    assert path.stat().st_size < 1500
    assert path.with_name("trace.jsonl.1").stat().st_size < 1500


def test_a_length_of_nothing_is_no_bound(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_BYTES, "0")
    trace = open_trace()
    for _ in range(3):
        trace.info("thing.happened")
        trace_file(str(path)).flush()

    assert len(lines_of(path)) == 3
    assert not path.with_name("trace.jsonl.1").exists()


@pytest.mark.parametrize("given", ["1 GB", "²", "-1"])
def test_a_length_that_is_no_number_is_said_and_the_trace_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], given: str
) -> None:
    monkeypatch.setenv(MAX_BYTES, given)
    open_trace().info("thing.happened")

    assert f"AKTOR_TRACE_MAX_BYTES is {given!r}" in capfd.readouterr().err
    assert len(lines_of(path)) == 1


# -- what hangs


@pytest.fixture(name="locked")
def _locked(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has locked the file (flock), until it is terminated; at most for as long
    as everybody waits at most."""
    program = """
import fcntl, sys, time
with open(sys.argv[1], "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    time.sleep(float(sys.argv[2]))
"""
    command = [sys.executable, "-c", program, str(path), str(SOON)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.terminate()


@pytest.mark.usefixtures("locked")
def test_a_file_that_another_process_has_locked_is_written_all_the_same(path: Path) -> None:
    trace, begins = open_trace(), time.monotonic()
    for lines in (1, 2, 3):
        trace.info("consumer.closed")
        trace.flush()
        assert len(path.read_text().splitlines()) == lines

    assert time.monotonic() - begins < SOON / 2


def test_a_file_that_is_too_long_is_renamed_once_it_is_no_longer_locked(
    path: Path, locked: subprocess.Popen[str]
) -> None:
    file = TraceFile(str(path), max_bytes=10)
    for number in range(3):
        file.add({"n": number})
        file.flush(SOON)
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == [0, 1, 2]

    locked.terminate()
    locked.wait()
    file.add({"n": 3})
    file.flush(SOON)

    assert path.read_text() == '{"n": 3}\n'


@pytest.fixture(name="goes_on")
def _goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Each write to the file hangs until this is set, as on a network file system whose server is
    gone."""
    goes_on, write = threading.Event(), os.write

    def hang(file: int, data: bytes) -> int:
        if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
            goes_on.wait(SOON)
        return write(file, data)

    monkeypatch.setattr(os, "write", hang)
    yield goes_on
    goes_on.set()


def test_a_consumer_waits_for_a_file_that_hangs_once_and_not_for_long(
    path: Path, goes_on: threading.Event
) -> None:
    one, other, begins = open_trace(), open_trace(), time.monotonic()
    one.info("consumer.closed")
    one.flush()
    first = time.monotonic() - begins
    for _ in range(100):
        other.info("consumer.closed")
        other.flush()

    assert AT_CLOSE <= first < SOON / 2
    assert time.monotonic() - begins < SOON / 2
    # No line is lost, if it goes on in the end.
    goes_on.set()
    ends = time.monotonic() + SOON
    while len(path.read_text().splitlines()) < 101:
        assert time.monotonic() < ends
        time.sleep(PAUSE / 10)


def test_a_file_that_goes_on_is_waited_for_again(path: Path, goes_on: threading.Event) -> None:
    file = TraceFile(str(path), max_bytes=0)
    file.add({"n": 0})
    file.flush(PAUSE)  # in vain
    goes_on.set()
    ends = time.monotonic() + SOON
    while file._hangs:
        assert time.monotonic() < ends
        time.sleep(PAUSE / 10)
    goes_on.clear()
    file.add({"n": 1})
    threading.Timer(0.3, goes_on.set).start()

    file.flush(SOON)

    assert path.read_text() == '{"n": 0}\n{"n": 1}\n'


def test_a_program_that_exits_waits_once_more_for_a_file_that_hung(
    path: Path, goes_on: threading.Event, capfd: pytest.CaptureFixture[str]
) -> None:
    file = TraceFile(str(path), max_bytes=0)
    file.add({"n": 0})
    file.flush(PAUSE)  # in vain
    threading.Timer(0.3, goes_on.set).start()

    file.end()

    assert path.read_text() == '{"n": 0}\n'
    assert "lost" not in capfd.readouterr().err


def test_a_forked_child_has_lost_no_lines_of_its_parent(
    path: Path,
    goes_on: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("aktor.trace.file.WAITING_MAX", 1)
    file = TraceFile(str(path), max_bytes=0)
    for number in range(5):
        file.add({"n": number})

    file.after_fork_in_child()
    goes_on.set()
    file.end()

    assert not re.search(r"\d lines? of it", capfd.readouterr().err)


def test_a_file_that_another_process_has_begun_meanwhile_is_not_renamed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the name and the lock."""
    fcntl = pytest.importorskip("fcntl")
    flock, old = fcntl.flock, path.with_name(f"{path.name}.1")

    def late(file: int, operation: int) -> None:
        flock(file, operation)
        if operation & fcntl.LOCK_EX and not old.exists():
            path.rename(old)
            path.write_text("another's\n")

    file = TraceFile(str(path), max_bytes=5)
    file.add({"n": 0})
    file.flush(SOON)
    monkeypatch.setattr(fcntl, "flock", late)
    file.add({"n": 1})
    file.flush(SOON)

    assert old.read_text() == '{"n": 0}\n'
    assert path.read_text() == 'another\'s\n{"n": 1}\n'


@pytest.mark.usefixtures("path", "goes_on")
def test_a_file_that_hangs_does_not_keep_the_tasks_of_a_loop_waiting() -> None:
    gaps: list[float] = []

    async def beat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - before)

    async def main() -> None:
        with EmbeddedKafka(topics={"orders": 1}) as kafka:
            consumer = aio.KafkaConsumer[Any, Any](
                "orders", bootstrap_servers=kafka.bootstrap_servers
            )
            await consumer.start()
            await consumer.getmany()
            beating, begins = asyncio.create_task(beat()), time.monotonic()
            await consumer.stop()
            beating.cancel()
            assert time.monotonic() - begins >= AT_CLOSE  # so the file does hang

    asyncio.run(main())

    assert max(gaps) < AT_CLOSE / 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_does_not_wait_for_a_file_that_hangs_nor_does_the_child(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    begins = time.monotonic()
    ran = run(
        f"""
import os, threading, time
from pathlib import Path
from aktor.trace import open_trace
from aktor.trace.file import trace_file
path, write, parent, hangs = {str(path)!r}, os.write, os.getpid(), threading.Event()

def hang(file, data):
    if os.getpid() == parent:
        hangs.set()
        time.sleep({SOON})
    return write(file, data)

os.write = hang
trace = open_trace()
trace.info("thing.before")
hangs.wait()
if child := os.fork():
    os.waitpid(child, 0)
    os._exit(0)
trace = open_trace()
trace.info("consumer.closed")
trace.flush()
os._exit(0)
""",
        path,
    )

    assert (ran.stderr, ran.returncode) == ("", 0)
    assert time.monotonic() - begins < SOON
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == [
        "consumer.closed"
    ]


def test_a_program_that_exits_gives_up_a_file_that_hangs_and_says_how_many_lines_are_lost(
    tmp_path: Path,
) -> None:
    begins = time.monotonic()
    ran = run(
        f"""
import os, time
from aktor.trace import open_trace
write = os.write
os.write = lambda file, data: time.sleep({2 * SOON})
trace = open_trace()
trace.info("thing.happened")
trace.info("consumer.closed")
trace.flush()
""",
        tmp_path / "trace",
    )

    assert time.monotonic() - begins < SOON
    assert ran.stderr.endswith("is written too slowly: 2 lines of it are lost\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_while_another_thread_adds_an_event_does_not_stop_the_child(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    ran = run(
        """
import os, threading
from aktor.trace import open_trace
from aktor.trace.file import trace_file
trace = open_trace()
trace.info("thing.before")
file = trace_file(os.environ["AKTOR_TRACE"])
file.flush()
holds, ends = threading.Event(), threading.Event()

def hold():
    with file.adding:
        holds.set()
        ends.wait()

threading.Thread(target=hold).start()
holds.wait()
if child := os.fork():
    os.waitpid(child, 0)
    ends.set()
else:
    trace.info("consumer.closed")
    trace.flush()
    os._exit(0)
""",
        path,
    )

    assert (ran.stderr, ran.returncode) == ("", 0)
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert events == ["thing.before", "consumer.closed"]


# -- what cannot be written


def a_full_disk(_: Path) -> str:
    return "/dev/full"


def a_missing_folder(folder: Path) -> str:
    return str(folder / "missing" / "trace.jsonl")


def a_folder(folder: Path) -> str:
    return str(folder)


def a_pipe_without_a_reader(folder: Path) -> str:
    os.mkfifo(folder / "pipe")
    return str(folder / "pipe")


PLACES = [a_full_disk, a_missing_folder, a_folder, a_pipe_without_a_reader]


@pytest.mark.parametrize("place", PLACES)
def test_a_file_that_cannot_be_written_is_given_up_with_one_line_on_stderr(
    place: Callable[[Path], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = place(tmp_path)
    monkeypatch.setenv("AKTOR_TRACE", path)
    one, other = open_trace(consumer="c"), open_trace(consumer="d")

    for trace in (one, other, one, open_trace(consumer="e")):
        trace.info("commit.sent")
        trace_file(path).flush()
    open_trace(consumer="f").info("commit.sent")

    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"aktor: the trace file {path!r} (AKTOR_TRACE) cannot be written and is")


def test_a_pipe_without_a_reader_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = a_pipe_without_a_reader(tmp_path)
    monkeypatch.setenv("AKTOR_TRACE", path)
    open_trace(consumer="c").info("commit.sent")
    trace_file(path).flush()

    assert capfd.readouterr().err.endswith(
        "is given up: it is a named pipe, and no program reads it\n"
    )


def test_a_socket_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        monkeypatch.setenv("AKTOR_TRACE", "s")
        open_trace(consumer="c").info("commit.sent")
        trace_file("s").flush()

    assert capfd.readouterr().err.endswith("is given up: it is a socket, which is no file\n")


def test_a_path_that_no_file_can_have_is_given_up(capfd: pytest.CaptureFixture[str]) -> None:
    file = TraceFile("a\0b", max_bytes=100)
    file.add({"n": 1})
    file.flush()

    assert file.is_given_up
    assert "cannot be written and is given up" in capfd.readouterr().err


@pytest.mark.parametrize("then", ["it writes", "it forks"])
def test_a_file_whose_descriptor_others_have_closed_touches_no_other_file(
    tmp_path: Path, then: str
) -> None:
    """A program that becomes a daemon closes all descriptors, and opens others."""
    path, another = tmp_path / "trace.jsonl", tmp_path / "another"
    file = TraceFile(str(path), max_bytes=0)
    file.add({"n": 1})
    file.flush()
    assert file._file is not None
    opened = os.open(another, os.O_WRONLY | os.O_CREAT)
    number = os.dup2(opened, file._file)

    if then == "it forks":
        file.after_fork_in_child()
    file.add({"n": 2})
    file.flush()

    os.write(number, b"of another")
    assert another.read_bytes() == b"of another"
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == [1, 2]
    os.close(opened)
    os.close(number)


def test_a_pipe_gets_all_lines_also_if_its_reader_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setenv("AKTOR_TRACE", str(path))
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    trace, data = open_trace(), b""

    for _ in range(100):
        trace.info("thing.happened", values="x" * 3000)
    while data.count(b"\n") < 100:
        trace_file(str(path)).flush()
        data += os.read(reader, 1_000_000)
    os.close(reader)

    assert [json.loads(line)["line"] for line in data.splitlines()] == list(range(1, 101))


def test_a_pipe_whose_reader_does_not_read_loses_lines_and_holds_nobody_up(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = TraceFile(str(path), max_bytes=100)
    wanted = WAITING_MAX + 10_000

    for number in range(wanted):
        assert file.add({"n": number})
    file.end()
    numbers: list[int] = []
    while data := _read(reader):
        numbers += [json.loads(line)["n"] for line in data.splitlines()]
        file.flush()
    os.close(reader)

    # Which ones are lost depends on when the thread fills the pipe: with the first of them, or when
    # there are too many. (Compared outside of `assert`, which takes minutes over a difference.)
    begins_well = numbers[:WAITING_MAX] == list(range(WAITING_MAX))
    in_order = numbers == sorted(set(numbers))
    assert begins_well
    assert in_order
    assert WAITING_MAX <= len(numbers) < wanted
    told = capfd.readouterr().err.splitlines()
    assert len(told) == 2
    assert "is written too slowly: lines of it are lost" in told[0]
    # Those that wait when the program ends are counted, too: nobody knows that they are read later.
    lost = re.search(r"is read too slowly: ([0-9]+) lines of it are lost$", told[1])
    assert lost is not None
    assert wanted - len(numbers) < int(lost[1]) <= wanted


@pytest.mark.parametrize("told_late", [False, True])
def test_lines_that_nobody_has_read_when_the_program_ends_are_said_to_be_lost_once(
    told_late: bool, tmp_path: Path
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    program = """
import atexit, os
from aktor.trace import open_trace
from aktor.trace.file import trace_file

def tell(count):
    for _ in range(count):
        trace.info("thing.happened", values="x" * 3000)

if TOLD_LATE:
    atexit.register(lambda: tell(100))
trace = open_trace()
tell(1 if TOLD_LATE else 100)
trace_file(os.environ["AKTOR_TRACE"]).flush()
""".replace("TOLD_LATE", str(told_late))

    done = run(program, path)

    lines = 0
    while data := _read(reader):
        lines += data.count(b"\n")
    os.close(reader)
    (line,) = done.stderr.splitlines()
    said = re.search(r"is read too slowly: (\d+) lines? of it (is|are) lost$", line)
    assert said is not None
    # (What is told after the program has ended was not counted when that was said.)
    assert int(said[1]) == (1 if told_late else 100 - lines)
    assert 0 < lines < 100


def test_what_was_read_at_last_is_not_said_to_be_lost(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = TraceFile(str(path), max_bytes=100)
    for number in range(1000):
        file.add({"n": number, "x": "x" * 1000})
    while data := _read(reader) or not_yet(file):
        assert data
    file.end()
    os.close(reader)

    assert capfd.readouterr().err == ""


def not_yet(file: TraceFile) -> bool:
    """Whether more can be read once it is written."""
    before = len(file._events) + len(file._lines)
    file.flush()
    return before > 0


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 1_000_000)
    except BlockingIOError:
        return b""


def test_a_trace_goes_on_without_its_file_if_stderr_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_missing_folder(tmp_path)
    monkeypatch.setenv("AKTOR_TRACE", path)
    monkeypatch.setattr("sys.stderr", None)
    trace = open_trace()
    events: list[dict[str, Any]] = []

    with trace.listen(events.append):
        trace.info("thing.happened")
        trace_file(path).flush()
        trace.info("thing.happened")

    assert len(events) == 2
