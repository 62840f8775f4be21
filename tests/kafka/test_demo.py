"""`make demo` on each Kafka it can have: it finds nothing wrong and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.embedded import Cluster
from tests.kafka.real.ports import free_ports
from tests.kafka.support import wait_until

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120


STORY = ("--seconds", "4", "--rate", "500")


def the_demo(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "aktor.cli", "demo", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def value(output: str, name: str) -> str:
    """What the summary says of `name`."""
    found = re.search(rf"^ *{re.escape(name)} {{2,}}(.*)$", output, re.MULTILINE)
    assert found is not None, f"no {name!r} in:\n{output}"
    return found[1]


def number(output: str, name: str) -> int:
    return int(value(output, name).split()[0].replace(",", ""))


def assert_all_is_well(demo: subprocess.Popen[str]) -> None:
    """Wait for its end, and read what its summary says."""
    output, complaints = demo.communicate(timeout=TIMEOUT_S)
    assert demo.returncode == 0, f"{output}\n{complaints}"
    assert complaints == ""
    assert "\x1b" not in output
    assert number(output, "records written") > 2000
    assert number(output, "records lost") == 0
    assert number(output, "repeated for no reason") == 0
    assert number(output, "lag of the group at the end") == 0
    assert re.search(r"^rebalance to generation \d+ +\d+ ms: member-2 .* was killed$", output, re.M)
    assert re.search(r"^rebalance to generation \d+ +\d+ ms: member-2 .* came back", output, re.M)
    assert value(output, "verdict") == "everything as it must be"


def no_topic_is_left(kafka: Cluster) -> bool:
    """A broker hears of a deletion a moment after whoever asked for it was answered."""
    return not [p.topic for p in kafka.view(1).partitions if "aktor-demo" in p.topic]


@pytest.mark.real("the next test has an embedded one")
def test_a_group_loses_nothing_when_a_member_is_killed_and_comes_back(kafka: Cluster) -> None:
    servers = ",".join(kafka.bootstrap_servers)
    demo = the_demo("--bootstrap", servers, *STORY, "--cooperative")

    assert_all_is_well(demo)
    wait_until(lambda: no_topic_is_left(kafka), "its topic is deleted")


@pytest.mark.embedded("the demo starts it itself")
def test_the_demo_brings_a_kafka_along_and_needs_no_java() -> None:
    demo = the_demo(*STORY, "--eager", PATH="/nowhere", JAVA_HOME="")

    assert_all_is_well(demo)


@pytest.mark.ours("what ends is its own processes")
def test_an_interrupted_demo_ends_its_processes_and_cleans_up(kafka: Cluster) -> None:
    demo = the_demo("--bootstrap", ",".join(kafka.bootstrap_servers), "--rate", "100")
    assert demo.stdout is not None
    said = []
    for line in demo.stdout:
        said.append(line)
        if "orders are written" in line:
            break

    demo.send_signal(signal.SIGINT)
    output, complaints = demo.communicate(timeout=TIMEOUT_S)

    assert demo.returncode == 130, f"{''.join(said)}{output}\n{complaints}"
    # Were a member still there, the group could not be deleted, and that would be said here.
    assert complaints.strip() == "interrupted; all processes have ended"
    wait_until(lambda: no_topic_is_left(kafka), "its topic is deleted")


def test_a_kafka_that_does_not_answer_is_told_in_one_line() -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"

    demo = the_demo("--bootstrap", nobody, "--plain")
    output, complaints = demo.communicate(timeout=TIMEOUT_S)

    assert demo.returncode == 2
    assert output == ""
    assert complaints.count("\n") == 1
    assert f"no Kafka answers at {nobody}" in complaints
