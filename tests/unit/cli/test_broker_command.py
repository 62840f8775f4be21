"""`aktor broker`: what it prints, how it ends, and that a mistake is one line."""

from __future__ import annotations

import http.client
import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from aktor.broker.embedded import EmbeddedKafka
from aktor.broker.journal import DataFolder
from aktor.cli.main import main

WINDOWS = sys.platform == "win32"


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


class Broker:
    """`aktor broker` as a process; `lines` are what it has printed until it was ready."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "aktor.cli", "broker", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if line.startswith("Ctrl-C"):
                break

    def value(self, name: str) -> str:
        """What follows `name=` in a line."""
        found = [line for line in self.lines if line.startswith(f"{name}=")]
        return found[0].partition("=")[2]

    def end(self, number: int) -> tuple[int, str, str]:
        """Exit code, the rest of the output, and errors after this signal."""
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=30)
        return self.process.returncode, output, errors


def status_of(broker: Broker) -> Any:
    """By its control port, whatever proxy the environment names."""
    connection = http.client.HTTPConnection(
        broker.value("control").removeprefix("http://"), timeout=30
    )
    try:
        connection.request("GET", "/status")
        return json.load(connection.getresponse())
    finally:
        connection.close()


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line by which `aktor broker` refuses these arguments."""
    try:
        code = main(["broker", *arguments])
    except SystemExit as end:  # argparse
        code = int(end.code or 0)
    written = capsys.readouterr()
    assert code == 2
    assert written.out == ""
    assert written.err.count("\n") == 1
    return written.err.strip()


@pytest.fixture(autouse=True)
def signals_and_logs_are_put_back() -> Iterator[None]:
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    level = logging.getLogger("aktor").level
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    logging.getLogger("aktor").setLevel(level)
    structlog.reset_defaults()


# -- what runs


@pytest.mark.skipif(WINDOWS, reason="no SIGINT for one process alone")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_ends_well_when_it_is_told_to(number: int) -> None:
    broker = Broker("--brokers", "2", "--topic", "orders:4", "--partitions", "3", "--control", "0")

    status = status_of(broker)
    code, output, errors = broker.end(number)

    first, second = (one["address"] for one in status["brokers"])
    assert broker.lines[:2] == [f"broker 1 at {first}", f"broker 2 at {second}"]
    assert broker.value("bootstrap_servers") == f"{first},{second}"
    assert len(status["topics"]["orders"]["partitions"]) == 4
    assert (code, output, errors) == (0, "\nstopped, nothing is kept\n", "")


@pytest.mark.skipif(WINDOWS, reason="no SIGTERM that could be handled")
def test_records_are_written_to_a_topic_that_has_none(tmp_path: Path) -> None:
    ends = []
    for count in ("1000", "7"):
        data = str(tmp_path / "data")
        arguments = ("--data", data, "--topic", "orders:3", "--records", count)
        code, _, errors = Broker(*arguments).end(signal.SIGTERM)
        assert (code, errors) == (0, "")
        with EmbeddedKafka(data=data) as kafka:
            ends.append([kafka.end_offset("orders", one) for one in range(3)])

    assert ends[0] == ends[1]
    assert sum(ends[0]) == 1000
    assert min(ends[0]) > 0


@pytest.mark.skipif(WINDOWS, reason="no SIGTERM that could be handled")
def test_a_data_folder_has_what_was_there_before(tmp_path: Path) -> None:
    with EmbeddedKafka(data=tmp_path / "data") as kafka:
        kafka.create_topic("orders", 2)
    broker = Broker("--data", str(tmp_path / "data"), "--topic", "orders:5", "--control", "0")

    status = status_of(broker)
    code, output, errors = broker.end(signal.SIGTERM)

    assert len(status["topics"]["orders"]["partitions"]) == 2
    assert (code, output, errors) == (0, "\nstopped\n", "")


@pytest.mark.skipif(WINDOWS, reason="no SIGTERM that could be handled")
def test_users_of_a_file_are_named_and_their_passwords_are_not(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("# who may come\n\nalice:wonder:land\nbob:builder\n")

    broker = Broker("--users-file", str(users), "--verbose")
    code, output, errors = broker.end(signal.SIGTERM)

    printed = "\n".join(broker.lines) + output + errors
    assert code == 0
    assert "users: alice, bob (SASL_PLAINTEXT" in printed
    assert "land" not in printed
    assert "builder" not in printed


# -- what is refused


def test_a_port_in_use_is_refused(capsys: pytest.CaptureFixture[str], taken_port: int) -> None:
    assert complaint(capsys, "--port", str(taken_port)).startswith(
        f"aktor broker: broker 1 cannot listen on 127.0.0.1:{taken_port}: "
    )


def test_a_control_port_in_use_is_refused(
    capsys: pytest.CaptureFixture[str], taken_port: int
) -> None:
    assert complaint(capsys, "--port", "0", "--control", str(taken_port)).startswith(
        f"aktor broker: the control port cannot listen on 127.0.0.1:{taken_port}: "
    )


def test_a_data_folder_in_use_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with DataFolder(tmp_path):
        refused = complaint(capsys, "--port", "0", "--data", str(tmp_path))

    assert f"data folder {tmp_path} is in use by process" in refused


def test_a_folder_that_is_something_elses_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").touch()

    assert "is no data folder of aktor" in complaint(capsys, "--port", "0", "--data", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--port", "x"], "argument --port: 'x' is no number from 0 to 65535"),
        (["--port", "65536"], "argument --port: '65536' is no number from 0 to 65535"),
        (["--port", "65535", "--brokers", "2"], "need ports up to 65536"),
        (["--brokers", "0"], "argument --brokers: '0' is no number from 1 to 100"),
        (["--topic", "orders:many"], "argument --topic: 'many' is no number from 1 to 10000"),
        (["--records", "9"], "--records needs a --topic"),
        (["--topic", "or ders"], "contains one or more characters other than ASCII"),
        (["--users-file", "nowhere"], "users file nowhere: No such file or directory"),
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid:9092"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["--part", "3"], "unrecognized arguments: --part 3"),
    ],
)
def test_a_mistake_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert says in complaint(capsys, *arguments)


@pytest.mark.parametrize("user", ["hunter2", ":hunter2", "hunter2:"])
def test_what_may_be_a_password_is_not_repeated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, user: str
) -> None:
    users = tmp_path / "users"
    users.write_text(f"alice:secret\n{user}\n")

    assert "hunter2" not in complaint(capsys, "--user", user)
    refused = complaint(capsys, "--users-file", str(users))
    assert "line 2" in refused
    assert "hunter2" not in refused


def test_no_command_or_an_unknown_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["brokers"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])

    assert end.value.code == 0
    assert "broker" in capsys.readouterr().out
