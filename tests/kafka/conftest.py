"""Clusters and names for tests against a real Kafka, which are left out without Java or Maven."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.real_kafka import KafkaCluster, what_is_missing


def pytest_runtest_setup() -> None:
    """The one permitted skip: this folder, where a real Kafka can't be had."""
    if missing := what_is_missing():
        pytest.skip(missing)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """One broker, shared by all tests: whoever stops or kills it starts a cluster of their own."""
    with KafkaCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secure_kafka() -> Iterator[KafkaCluster]:
    """One broker with every kind of listener, users, and ACLs."""
    with KafkaCluster(security=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _three_brokers() -> Iterator[KafkaCluster]:
    with KafkaCluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def kafka3(_three_brokers: KafkaCluster) -> Iterator[KafkaCluster]:
    """Three brokers, all well at the start of each test, which may do to them what it likes."""
    _three_brokers.heal()
    yield _three_brokers
    _three_brokers.heal()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names that nobody else uses: unique("orders") -> "test-of-this-1f3a-orders-1"."""
    test = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:60]
    run = uuid.uuid4().hex[:6]
    numbers = itertools.count(1)
    return lambda kind: f"{test}-{run}-{kind}-{next(numbers)}"


@pytest.fixture
def topic(unique: Callable[[str], str]) -> str:
    """A name for a topic, which doesn't exist yet."""
    return unique("topic")


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    """A name for a consumer group."""
    return unique("group")
