"""A program does the same with kafka-python's consumer and with ours."""

from __future__ import annotations

from collections.abc import Callable

import kafka as kafka_python
import pytest

import aktor
from aktor.broker.embedded import EmbeddedKafka
from tests.clients.programs import PROGRAMS, RECORDS, Run
from tests.clients.support import produce


@pytest.fixture(scope="module")
def topic(kafka: EmbeddedKafka) -> str:
    """Its records are only read, so all programs share them."""
    kafka.create_topic("programs", 4)
    produce(kafka, "programs", map(str, range(RECORDS)))
    return "programs"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_the_same_with_both_classes(
    name: str, kafka: EmbeddedKafka, topic: str, unique: Callable[[str], str]
) -> None:
    program = PROGRAMS[name]

    theirs = program(Run(kafka_python.KafkaConsumer, kafka, topic, unique("theirs")))
    ours = program(Run(aktor.KafkaConsumer, kafka, topic, unique("ours")))

    assert ours == theirs
