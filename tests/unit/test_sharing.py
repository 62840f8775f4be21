"""Which tests share a process: see tests/conftest.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import kafka_of

ROOT = Path(__file__).parents[2]


def test_all_tests_on_embedded_kafkas_run_in_one_process() -> None:
    on_brokers, others = "tests/reality/test_observing.py", "tests/unit/test_sharing.py"
    # What this process is told as a worker of pytest-xdist does not concern the other one.
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}

    said = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-v", "-n", "3", "--dist", "loadgroup"),
            *("--no-loadscope-reorder", "-k", "not process", on_brokers, others),
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
        ("tests/clients/test_migration.py::test_it", "embedded"),
        ("tests/unit/managers/commits/test_manager.py::test_it", ""),
    ],
)
def test_which_kafka_a_test_runs_on_is_told_by_its_id(test: str, kafka: str) -> None:
    assert kafka_of(test) == kafka
