"""Which tests share a process: see tests/conftest.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import ENOUGH, chain_of, is_on_brokers, kafka_of, place_of, unit_of
from tests.sharing import Sharing

ROOT = Path(__file__).parents[2]


@pytest.mark.gate
def test_all_tests_of_a_module_on_an_embedded_kafka_run_in_one_process() -> None:
    on_brokers, others = "tests/kafka/recorded/test_observing.py", "tests/unit/test_sharing.py"
    # What this process is told as a worker of pytest-xdist does not concern the other one.
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}

    said = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-v", "-n", "4", "--dist", "loadgroup"),
            *("--no-loadscope-reorder", "-k", "which_kafka or observing", on_brokers, others),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    ran = re.findall(r"^\[(gw\d)\].* PASSED ([^:\s]+)::", said, re.MULTILINE)
    assert len({worker for worker, file in ran if file == on_brokers}) == 1, said
    assert {file for _, file in ran} == {on_brokers, others}


@pytest.mark.parametrize(
    ("test", "kafka"),
    [
        ("tests/kafka/test_commits.py::test_it[real]", "real"),
        ("tests/kafka/test_commits.py::test_it[embedded-7]", "embedded"),
        ("tests/kafka/test_security.py::test_it", "real"),
        ("tests/kafka/recorded/test_real.py::test_it", "real"),
        ("tests/kafka/recorded/test_embedded.py::test_it", "embedded"),
        ("tests/clients/test_migration.py::test_it", "embedded"),
        ("tests/unit/managers/commits/test_manager_errors.py::test_it", ""),
    ],
)
def test_which_kafka_a_test_runs_on_is_told_by_its_id(test: str, kafka: str) -> None:
    assert kafka_of(test) == kafka


@pytest.mark.parametrize(
    ("test", "chain"),
    [
        ("tests/kafka/test_spark_sink.py::test_it[real]", "spark"),
        ("tests/spark/rebalances/test_job.py::test_it", "spark"),
        ("tests/spark/test_ranges.py::test_it", ""),
        ("tests/kafka/test_commits.py::test_it[real-eager]", "real"),
        ("tests/kafka/test_faults.py::test_it[real3-eager]", "three"),
        (
            "tests/kafka/test_faults.py::test_it[embedded-eager]",
            "embedded tests/kafka/test_faults.py",
        ),
        ("tests/clients/test_migration.py::test_it", "embedded tests/clients/test_migration.py"),
    ],
)
def test_what_takes_long_to_start_is_started_in_one_process(test: str, chain: str) -> None:
    assert chain_of(test) == chain
    assert is_on_brokers(unit_of(test, ENOUGH)) == bool(chain)


@cache
def chosen(*arguments: str) -> frozenset[str]:
    """The ids of the tests that pytest chooses."""
    without = re.compile("PYTEST|AKTOR_BOTH")
    environment = {name: value for name, value in os.environ.items() if not without.search(name)}
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return frozenset(re.findall(r"^tests/\S+::.*", said, re.MULTILINE))


STORMS = "tests/simulation/test_storms.py"
FILES = (
    *("tests/kafka/test_commits.py", "tests/kafka/test_security.py"),
    *("tests/kafka/test_faults_members.py", "tests/kafka/test_faults.py"),
    *("tests/kafka/test_signals.py", "tests/kafka/test_process.py"),
    *(STORMS, "tests/unit/records/test_lz4.py"),
)


def test_make_test_runs_what_nothing_else_replaces() -> None:
    often = chosen("-m", "not gate", *FILES)

    kafkas = {kafka_of(test) for test in often if "test_commits" in test}
    assert kafkas == {"embedded"}, "what runs on both runs on the embedded one"
    assert any("test_security" in test for test in often)
    assert not any("test_faults_members" in test for test in often), "they are marked `once`"
    storms = [test for test in often if "in_storms_of_all_protocols" in test]
    seeds = sorted(int(test.rstrip("]").rpartition("[")[2]) for test in storms)
    assert seeds == [1, 3, 8], "one of each protocol but classic, which the command's storm has"


@pytest.mark.gate
def test_on_a_real_kafka_runs_what_is_not_only_ours() -> None:
    every = {test for test in chosen("-m", "", *FILES) if test.startswith("tests/kafka/")}

    def kafkas(words: str) -> set[str]:
        return {kafka_of(test) for test in every if words in test}

    assert kafkas("test_signals.py") == {"embedded"}, "all of them are ours"
    assert kafkas("test_process.py::test_what_fails_is_tried") == {"embedded", "real"}
    assert kafkas("test_process.py::test_a_handler_may_not_call") == {"embedded"}
    moves = "test_faults.py::test_commits_are_retried_until"
    assert {test.partition("[")[2] for test in every if moves in test} == {
        *("embedded-eager]", "embedded-consumer]", "real3-consumer]"),
    }


@pytest.mark.gate
def test_what_make_test_leaves_out_and_what_it_runs_are_all_tests() -> None:
    often, rest = chosen("-m", "not gate", *FILES), chosen("-m", "gate", *FILES)

    assert often | rest == chosen("-m", "", *FILES)
    assert not often & rest


class Node:
    """What a process is sent."""

    gateway = SimpleNamespace(id="one")
    shutting_down = False

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.ended = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.ended = True


@pytest.mark.parametrize("processes", [1, ENOUGH])
def test_the_tests_on_three_brokers_are_the_last_of_their_chain(processes: int) -> None:
    tests = [(one, three) for one in ("spark", "real", "embedded") for three in (True, False)]

    def place(test: tuple[str, bool]) -> tuple[int, int, bool]:
        chain, three = test
        kafka = "real" if chain == "spark" else chain
        return place_of((chain, kafka), three, processes)

    in_order = sorted([("", False), *tests], key=place)

    chains = ["spark", "real", "embedded"] if processes == ENOUGH else ["embedded", "real", "spark"]
    on_brokers = [(one, three) for one in chains for three in (False, True)]
    assert [test for test in in_order if test[0]] == on_brokers
    assert in_order.index(("", False)) == (len(tests) if processes == ENOUGH else 0)


def test_each_test_runs_once_and_a_chain_in_one_process() -> None:
    spark = [f"tests/kafka/test_spark.py::test_{number}[real]" for number in range(5)]
    acls = [f"tests/kafka/test_security.py::test_{number}[real]" for number in range(3)]
    embedded = [f"tests/kafka/test_{number % 3}.py::test_{number}[embedded]" for number in range(9)]
    units = [f"tests/unit/test_values.py::test_{number}" for number in range(40)]
    others = [f"tests/scenarios/test_groups.py::test_{number}" for number in range(9)]
    on_brokers = [*spark, *acls, *sorted(embedded)]
    ids = [*on_brokers, *units, *others]
    options = SimpleNamespace(loadscopereorder=False)
    asked: Any = SimpleNamespace(getvalue=lambda _name: ["4*popen"], option=options)
    sharing: Any = Sharing(asked, None, unit_of, is_on_brokers)
    nodes = [Node() for _ in range(4)]
    for node in nodes:
        sharing.add_node(node)
        sharing.add_node_collection(node, ids)

    sharing.schedule()
    done: Counter[int] = Counter()
    while any(len(node.sent) > done[number] for number, node in enumerate(nodes)):
        for number, node in enumerate(nodes):
            if len(node.sent) > done[number]:
                sharing.mark_test_complete(node, node.sent[done[number]])
                done[number] += 1

    assert sorted(test for node in nodes for test in node.sent) == list(range(len(ids)))
    ran = [[ids[index] for index in node.sent] for node in nodes]
    assert ran[0][:5] == spark
    assert ran[1][:3] == acls
    chains = Counter(chain for tests in ran for chain in {chain_of(test) for test in tests} - {""})
    assert set(chains.values()) == {1}, "each in one process"
    for tests in ran[:3]:
        first = [test for test in tests if test in on_brokers]
        assert tests[: len(first)] == first, "before it computes"
    assert not set(ran[3]) & set(on_brokers), "it computes from the start"
    assert all(node.ended for node in nodes)
    assert sharing.tests_finished
    assert not sharing.has_pending


@pytest.mark.gate
def test_k_finds_a_word_in_the_name_of_a_file_of_a_test_of_a_case_and_of_a_marker() -> None:
    files = ("tests/kafka/test_commits.py", "tests/unit/records/test_lz4.py", STORMS)
    everything = chosen(*files)
    told = {
        word: {test for test in everything if word.lower() in test.lower()}
        for word in ("lz4", "committed", "noise-65536", "REAL")
    }
    assert all(told.values())
    assert chosen("-k", " or ".join(told), *files) == set().union(*told.values())
    assert chosen("-k", "gate", STORMS) == chosen("-m", "gate", STORMS)
