"""Every program in examples/ does what it says, on a real Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from examples import bad_record, poll_and_commit, rebalance_listener
from tests.kafka.support import PROMPT_S
from tests.real_kafka.topics import create_topic, produce

#: A busy machine may stand still before the first record, while the program joins its group.
PATIENT_MS = PROMPT_S * 1000


def test_poll_and_commit_reads_everything_once(
    kafka: Any, topic: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(kafka.bootstrap_servers, topic, partitions=2)
    produce(kafka.bootstrap_servers, topic, [b"%d" % number for number in range(100)])
    bootstrap = ",".join(kafka.bootstrap_servers)

    assert poll_and_commit.main(bootstrap, topic, group, idle_ms=PATIENT_MS) == 100
    assert poll_and_commit.main(bootstrap, topic, group, idle_ms=1500) == 0
    assert capsys.readouterr().out.count(topic) == 100


def test_rebalance_listener_commits_what_it_finished(kafka: Any, topic: str, group: str) -> None:
    create_topic(kafka.bootstrap_servers, topic, partitions=2)
    produce(kafka.bootstrap_servers, topic, [b"%d" % number for number in range(100)])
    bootstrap = ",".join(kafka.bootstrap_servers)

    assert rebalance_listener.main(bootstrap, topic, group, idle_ms=PATIENT_MS) == 100
    assert rebalance_listener.main(bootstrap, topic, group, idle_ms=1500) == 0


def test_bad_record_puts_it_aside_and_goes_on(kafka: Any, topic: str, group: str) -> None:
    create_topic(kafka.bootstrap_servers, topic, partitions=1)
    produce(kafka.bootstrap_servers, topic, [b"1", b"not json", b"3"])

    good, bad = bad_record.main(",".join(kafka.bootstrap_servers), topic, group, idle_ms=PATIENT_MS)

    assert good == [1, 3]
    assert bad == [b"not json"]
