"""The pytest plugin: `embedded_kafka`, a cluster of its own for each test that asks for one.

    @pytest.mark.embedded_kafka(brokers=3, topics={"orders": 4})
    def test_orders(embedded_kafka):
        loop = Loop(bootstrap_servers=embedded_kafka.bootstrap_servers)

The marker takes the arguments of `aktor.broker.embedded.EmbeddedKafka`; the fixture
`embedded_kafka_settings` gives the same to all tests of a module or a project. Who does not use
the fixtures does not wait for them: what is heavy is imported when the first cluster starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from aktor.broker.embedded import EmbeddedKafka
    from aktor.simulation import Simulation

__all__ = [
    "crash",
    "embedded_kafka",
    "embedded_kafka_cluster",
    "embedded_kafka_settings",
    "simulation",
]

_MARKER: Final = "embedded_kafka"
_SIMULATION: Final = "simulation"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(brokers=1, topics=..., partitions=..., settings=..., ...): what cluster the "
        "fixture `embedded_kafka` starts; the arguments of EmbeddedKafka",
    )
    config.addinivalue_line(
        "markers",
        f"{_SIMULATION}(seed=0, brokers=3, ...): the arguments of the fixture `simulation`",
    )


@pytest.fixture(scope="session")
def embedded_kafka_settings() -> dict[str, Any]:
    """Arguments of EmbeddedKafka for all clusters; override it in a module or a conftest.py."""
    return {}


@pytest.fixture
def embedded_kafka(
    request: pytest.FixtureRequest, embedded_kafka_settings: Mapping[str, Any]
) -> Iterator[EmbeddedKafka]:
    """A cluster for this test alone; it takes milliseconds to start."""
    with _cluster({**embedded_kafka_settings, **_marked(request.node)}) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def embedded_kafka_cluster(embedded_kafka_settings: Mapping[str, Any]) -> Iterator[EmbeddedKafka]:
    """One cluster for all tests: they have to keep apart by the names of topics and groups."""
    with _cluster(embedded_kafka_settings) as kafka:
        yield kafka


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """Consumers, brokers, network and faults in virtual time (the extra `simulation`)."""
    from aktor.simulation import Simulation

    with Simulation(**_marked(request.node, _SIMULATION)) as sim:
        yield sim


@pytest.fixture
def crash(simulation: Simulation) -> Callable[..., Any]:
    """`crash("fetch", on=Tick)`: the next actor of this name crashes at such a message."""
    return simulation.crash


def _marked(node: pytest.Item, name: str = _MARKER) -> dict[str, Any]:
    """The arguments of all markers; the one closest to the test wins."""
    arguments: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers(name))):
        if marker.args:
            raise pytest.UsageError(
                f"@pytest.mark.{name} takes arguments by name, as brokers=3, "
                f"not {', '.join(map(repr, marker.args))}"
            )
        arguments.update(marker.kwargs)
    return arguments


def _cluster(arguments: Mapping[str, Any]) -> EmbeddedKafka:
    from aktor.broker.embedded import EmbeddedKafka
    from aktor.broker.settings import ClusterSettings

    settings = arguments.get("settings")
    if isinstance(settings, Mapping):
        arguments = {**arguments, "settings": ClusterSettings(**settings)}
    return EmbeddedKafka(**arguments)
