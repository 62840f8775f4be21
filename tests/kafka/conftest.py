"""Clusters and names for tests that run on an embedded Kafka and on a real one.

A test that takes `kafka` or `kafka3` runs on both, unless it is marked with the reason: `embedded`
or `real`, `once` if it takes long, or `ours` if it proves nothing of Kafka. Without Java or Maven
the real ones are left out. `pytest -m embedded` and `-m real` choose; AKTOR_BOTH=1 in the
environment lets `once` and `ours` be on both.
"""

from __future__ import annotations

import itertools
import os
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import ENOUGH, chain_of, processes
from tests.kafka.embedded import Cluster, EmbeddedCluster
from tests.kafka.real import KafkaCluster, what_is_missing
from tests.spark import session

CLUSTERS: dict[str, Callable[[int], Cluster]] = {"embedded": EmbeddedCluster, "real": KafkaCluster}
ONCE = "once"
#: On a module, a test, or one of its cases. `BOTH` excepts a test of such a module.
OURS = "ours"
BOTH = "both"

#: What was started for several tests, by the fixture and which Kafka it is.
_started: dict[tuple[str, str], Cluster] = {}

#: By the id of a test: of what it is the last one.
_ended_by: dict[str, set[tuple[str, str]]] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known."""
    for name in CLUSTERS:
        config.addinivalue_line("markers", f"{name}(why): runs on the {name} Kafka only")
    config.addinivalue_line(
        "markers", f"{ONCE}(why): runs on the real Kafka, or where it can't be had on the embedded"
    )
    config.addinivalue_line("markers", f"{OURS}(why): needs a broker, and any does: the embedded")
    config.addinivalue_line("markers", f"{BOTH}(why): runs on both, though its module does not")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test with a cluster twice, but for those that are marked. Its id tells which: "real3"
    are three real brokers, for these tests have a process of their own (tests/conftest.py)."""
    if "which_kafka" in metafunc.fixturenames:
        names = _clusters_of(metafunc.definition)
        three = {"real": "real3"} if "kafka3" in metafunc.fixturenames else {}
        clusters = [
            pytest.param(name, marks=getattr(pytest.mark, name), id=three.get(name, name))
            for name in names
        ]
        metafunc.parametrize("which_kafka", clusters, indirect=True, scope="session")


def _clusters_of(test: pytest.Item) -> list[str]:
    if test.get_closest_marker(ONCE) and not os.environ.get("AKTOR_BOTH"):
        return ["embedded" if what_is_missing() else "real"]
    if _is_ours(test):
        return ["embedded"]
    return [name for name in CLUSTERS if test.get_closest_marker(name)] or list(CLUSTERS)


def _is_ours(test: pytest.Item) -> bool:
    """Whether a test, or a case of one, need not be on a real Kafka."""
    return (
        test.get_closest_marker(OURS) is not None
        and test.get_closest_marker(BOTH) is None
        and not os.environ.get("AKTOR_BOTH")
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out, on a real Kafka, the cases that are marked `ours`: when a test is made for one
    Kafka and for the other, its cases are not known yet."""
    items[:] = [item for item in items if not (item.get_closest_marker("real") and _is_ours(item))]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The permitted skips: a real Kafka, and Spark, where they can't be had."""
    if item.get_closest_marker("real") and (missing := what_is_missing()):
        pytest.skip(missing)
    if "spark" in getattr(item, "fixturenames", ()) and (missing := session.what_is_missing()):
        pytest.skip(missing)


@pytest.fixture(scope="session")
def which_kafka(request: pytest.FixtureRequest) -> str:
    """Which Kafka: "embedded" or "real"; all tests of one come before those of the other."""
    return str(request.param)


@pytest.fixture(scope="session")
def kafka(which_kafka: str) -> Iterator[Cluster]:
    """One broker, shared by all tests: whoever stops or kills it starts a cluster of their own."""
    with CLUSTERS[which_kafka](1) as cluster:
        _started["kafka", which_kafka] = cluster
        yield cluster


@pytest.fixture(scope="session")
def secure_kafka() -> Iterator[KafkaCluster]:
    """One broker with every kind of listener, users, and ACLs."""
    with KafkaCluster(security=True) as cluster:
        _started["secure_kafka", ""] = cluster
        yield cluster


@pytest.fixture
def kafka3(which_kafka: str) -> Iterator[Cluster]:
    """Three brokers, all well at the start of each test, which may do to them what it likes."""
    name = ("kafka3", which_kafka)
    if name not in _started:
        cluster = CLUSTERS[which_kafka](3)
        cluster.start()
        _started[name] = cluster
    cluster = _started[name]
    cluster.heal()
    yield cluster
    cluster.heal()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find the last test of each real cluster. A process of several has all tests of a chain on
    real ones, or none. (Which modules on the embedded one it has is not known yet, and that costs
    nothing: it stays.)"""
    last: dict[tuple[str, tuple[str, str]], str] = {}
    for item in session.items:
        chain = chain_of(item.nodeid) if processes() >= ENOUGH else ""
        for name in _real_clusters_of(item):
            last[chain, name] = item.nodeid
    _ended_by.clear()
    for (_, name), test in last.items():
        _ended_by.setdefault(test, set()).add(name)


def _real_clusters_of(item: pytest.Item) -> Iterator[tuple[str, str]]:
    fixtures = getattr(item, "fixturenames", ())
    if "secure_kafka" in fixtures:
        yield "secure_kafka", ""
    if item.get_closest_marker("real"):
        for fixture in {"kafka", "kafka3"}.intersection(fixtures):
            yield fixture, "real"


@pytest.hookimpl(trylast=True)  # when the test's own fixtures have ended
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Brokers that no test needs any more would go on taking a twentieth of a processor: as long as
    this process helps others, which takes longer than its own tests."""
    for name in _ended_by.get(item.nodeid, ()):
        if name in _started:
            _started.pop(name).stop()


def pytest_sessionfinish() -> None:
    """After Ctrl-C, too."""
    while _started:
        _started.popitem()[1].stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of Spark with two cores, shared by all tests. Its streams are planned by forked
    processes."""
    found = session.a_session(python=session.command(tmp_path_factory.mktemp("bin")))
    yield found
    found.stop()


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
