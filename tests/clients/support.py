"""What tests of several clients have in common: patience with an end, and records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from kafka import KafkaProducer

#: How long anything that should happen at once may take on a busy machine.
SOON_S = 30.0

#: All topics of these tests have these, unless they say otherwise.
PARTITIONS = range(4)


class Reachable(Protocol):
    """A cluster as its clients see it."""

    @property
    def bootstrap_servers(self) -> str:
        """Its addresses, with commas between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A cluster of which only the addresses are known."""

    bootstrap_servers: str


class Record(NamedTuple):
    """What every client knows of a record."""

    partition: int
    offset: int
    value: str


def wait_until(happened: Callable[[], Any], what: str, within: float = SOON_S) -> None:
    """Look again and again whether it `happened`; fails with `what` when it did not."""
    deadline = time.monotonic() + within
    while not happened():
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        time.sleep(0.01)


def produce(kafka: Reachable, topic: str, values: Iterable[str], **settings: Any) -> list[str]:
    """Write values, in turn to each of the topic's four partitions; the values."""
    written = list(values)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
        sent = [
            producer.send(topic, value=value.encode(), partition=number % len(PARTITIONS))
            for number, value in enumerate(written)
        ]
        for one in sent:
            one.get(timeout=SOON_S)
    return written


def numbered(kind: str, count: int) -> list[str]:
    """ "kind-0", "kind-1", ..."""
    return [f"{kind}-{number}" for number in range(count)]
