"""One embedded cluster for all tests of this folder, and names that nobody else uses."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

import pytest

from aktor.broker.embedded import EmbeddedKafka
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.settings import ClusterSettings
from tests.clients.java import JavaTools
from tests.kafka.real import what_is_missing

#: Impatient, as tests are: what a member does is seen by the others at its next heartbeat.
_GROUPS = GroupSettings(
    min_session_timeout=0.5,
    consumer_min_heartbeat_interval=0.1,
    consumer_heartbeat_interval=0.3,
    consumer_min_session_timeout=1.0,
    consumer_session_timeout=20.0,
)

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka() -> Iterator[EmbeddedKafka]:
    """Three brokers: leaders and coordinators have to be found."""
    with EmbeddedKafka(brokers=3, settings=ClusterSettings(groups=_GROUPS)) as cluster:
        yield cluster


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names: unique("orders") -> "test-of-this-orders-1"."""
    test = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:60]
    return lambda kind: f"{test}-{kind}-{next(_numbers)}"


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    """A name for a consumer group."""
    return unique("group")


@pytest.fixture
def topic(kafka: EmbeddedKafka, unique: Callable[[str], str]) -> str:
    """A topic of four partitions."""
    name = unique("topic")
    kafka.create_topic(name, 4)
    return name


@pytest.fixture(scope="session")
def java(kafka: EmbeddedKafka) -> JavaTools:
    """Kafka's own tools, where they can be had."""
    if missing := what_is_missing():
        pytest.skip(missing)
    return JavaTools(kafka.bootstrap_servers)
