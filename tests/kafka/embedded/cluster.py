"""An embedded Kafka with the settings, the interface and the timing of `tests.kafka.real`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from aktor.broker.embedded import EmbeddedKafka
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.settings import ClusterSettings
from aktor.broker.transactions import TransactionSettings
from tests.kafka.real.folders import ClusterFolder
from tests.kafka.real.metadata import ClusterView, ask_metadata

__all__ = ["EmbeddedCluster"]

#: As `broker.session.timeout.ms` of the real one.
BROKER_SESSION_S = 3.0
OFFSETS_PARTITIONS = 4
POLL_INTERVAL_S = 0.02
MOST_REPLICAS = 3


def settings_of(nodes: int) -> ClusterSettings:
    """What `tests.kafka.real` writes into server.properties."""
    return ClusterSettings(
        replication_factor=min(MOST_REPLICAS, nodes),
        min_insync_replicas=min(2, nodes),
        offsets_topic_partitions=OFFSETS_PARTITIONS,
        transactions_topic_partitions=4,
        groups=GroupSettings(
            initial_rebalance_delay=0.0,
            min_session_timeout=0.5,
            consumer_min_heartbeat_interval=0.1,
            consumer_heartbeat_interval=0.5,
            consumer_min_session_timeout=1.0,
            consumer_session_timeout=6.0 if nodes > 1 else 15.0,
        ),
        cleaner_backoff=0.5,
        transactions=TransactionSettings(offsets_topic_partitions=OFFSETS_PARTITIONS),
    )


class EmbeddedCluster:
    """One or more brokers in this process; what they keep is in a temporary folder.

    `kill`, `pause` and `restart` take as long as with a real cluster where that is Kafka's rule
    (sessions), and no time where it is the work of a JVM.
    """

    def __init__(self, nodes: int = 1, *, settings: ClusterSettings | None = None) -> None:
        self.node_ids = tuple(range(1, nodes + 1))
        self._settings = settings or settings_of(nodes)
        self._folder: ClusterFolder | None = None
        self._kafka: EmbeddedKafka | None = None
        self._down: set[int] = set()
        self._paused: set[int] = set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<EmbeddedCluster {self._kafka or 'stopped'}>"

    def start(self) -> None:
        """Start all brokers."""
        self._folder = ClusterFolder()
        self._kafka = EmbeddedKafka(
            len(self.node_ids),
            racks=[f"rack-{node_id}" for node_id in self.node_ids],
            data=self._data,
            settings=self._settings,
        )
        self._kafka.start()

    def stop(self) -> None:
        """Stop all brokers and delete their data. Does nothing on a stopped cluster."""
        if self._kafka is not None:
            self._kafka.stop()
            self._kafka = None
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    @property
    def kafka(self) -> EmbeddedKafka:
        """What runs here, for what only an embedded one can be told."""
        assert self._kafka is not None, "the cluster is not started"
        return self._kafka

    # -- where it is, and what it knows

    @property
    def bootstrap_servers(self) -> list[str]:
        """The addresses ("127.0.0.1:port") of all brokers, down or up."""
        return [self.address("PLAINTEXT", node_id) for node_id in self.node_ids]

    def address(self, listener: str, node_id: int = 1) -> str:
        """Where a listener is, as "127.0.0.1:port": there is PLAINTEXT only."""
        assert listener == "PLAINTEXT", f"an embedded broker has no {listener} listener"
        return self.kafka.address(node_id)

    @property
    def running(self) -> frozenset[int]:
        """Node ids of the brokers that are there and not paused."""
        return frozenset(self.node_ids) - self._down - self._paused

    def view(self, node_id: int) -> ClusterView:
        """What this broker knows of the cluster. Raises OSError if it does not answer."""
        return ask_metadata(self.address("PLAINTEXT", node_id))

    def log_file(self, topic: str, partition: int) -> Path:
        """The file with the first records of a partition."""
        topic_id = self.kafka.status()["topics"][topic]["id"]
        return self._data / "logs" / topic_id / str(partition) / f"{0:020}.log"

    @property
    def _data(self) -> Path:
        assert self._folder is not None, "the cluster is not started"
        return self._folder.path / "data"

    # -- what is done to it

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make `node_id`, which must hold a replica, the leader."""
        self.kafka.move_leader(topic, partition, node_id)

    def kill(self, node_id: int) -> None:
        """Let a broker die: the others find out when its session times out, after 3 s."""
        self.kafka.kill_broker(node_id, session_timeout=BROKER_SESSION_S)
        self._down.add(node_id)
        self._paused.discard(node_id)

    def terminate(self, node_id: int) -> None:
        """Shut a broker down in good order."""
        self.kafka.stop_broker(node_id)
        self._down.add(node_id)
        self._paused.discard(node_id)

    def pause(self, node_id: int) -> None:
        """Freeze a broker: its connections stay open, and nobody answers."""
        self.kafka.pause_broker(node_id, session_timeout=BROKER_SESSION_S)
        self._paused.add(node_id)

    def resume(self, node_id: int) -> None:
        """Unfreeze a broker."""
        self.kafka.resume_broker(node_id)
        self._paused.discard(node_id)

    def restart(self, *node_ids: int) -> None:
        """Start brokers again, with their old ports and data.

        One that runs is shut down first. One that was killed has to wait until its old session is
        over, as the controller demands.
        """
        for node_id in set(node_ids) - self._down:
            self.terminate(node_id)
        for node_id in node_ids:
            self._wait(lambda node_id=node_id: not self._is_registered(node_id))
            self.kafka.start_broker(node_id)
            self._down.discard(node_id)

    def heal(self) -> None:
        """Resume and restart what is paused or down: all replicas are in sync then."""
        for node_id in sorted(self._paused):
            self.resume(node_id)
        self.restart(*sorted(self._down))

    def _is_registered(self, node_id: int) -> bool:
        brokers = self.kafka.status()["brokers"]
        return any(broker["id"] == node_id and broker["up"] for broker in brokers)

    def _wait(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10 * BROKER_SESSION_S
        while not happened():
            assert time.monotonic() < deadline, f"{self!r} has not lost what was killed"
            time.sleep(POLL_INTERVAL_S)
