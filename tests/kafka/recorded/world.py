"""What a scenario gets: a client, names that nobody else uses, and a place for its notes."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.kafka.recorded.batches import batch
from tests.kafka.recorded.client import Later, RawClient
from tests.kafka.recorded.observe import Observer

__all__ = ["Scenario", "Topic", "World", "use_up_the_first_producer_id"]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that exists and whose partitions have leaders."""

    name: str
    id: uuid.UUID
    partitions: int


class World:
    """Owns the client and the notes of one run of one scenario."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.notes: dict[str, Any] = {}
        self._run = uuid.uuid4().hex[:8]
        self._observer = Observer(self._run)
        self._numbers: dict[str, itertools.count[int]] = {}

    def note(self, label: str, thing: Any) -> Any:
        """Write down what was observed, and give it back."""
        assert label not in self.notes, f"two notes {label!r}"
        self.notes[label] = self._observer.see(thing)
        return thing

    def ask(self, api: str, version: int, on: str = "main", **fields: Any) -> Any:
        """Send a request on the connection `on` and wait for the answer."""
        return self.client.ask(api, version, on, **fields)

    def send(self, api: str, version: int, on: str = "main", **fields: Any) -> Later:
        """Send a request on the connection `on` and don't wait."""
        return self.client.send(api, version, on, **fields)

    def see(self, label: str, api: str, version: int, on: str = "main", **fields: Any) -> Any:
        """Ask, and note the answer."""
        return self.note(label, self.ask(api, version, on, **fields))

    def name(self, kind: str) -> str:
        """A name that nobody has; in the notes it is `kind`, the second one `kind-2`."""
        number = next(self._numbers.setdefault(kind, itertools.count(1)))
        return f"{kind}-{self._run}" if number == 1 else f"{kind}-{number}-{self._run}"

    def topic(self, partitions: int = 1, /, **configs: str) -> Topic:
        """Create a topic; its configs have underscores for dots."""
        name = self.name("topic")
        settings = [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()]
        answer = self.ask(
            "CreateTopics",
            7,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": settings,
                }
            ],
            timeout_ms=10_000,
        )
        assert answer.topics[0].error_code == 0, answer
        self.settle(name, partitions)
        return Topic(name, answer.topics[0].topic_id, partitions)

    def settle(self, topic: str, partitions: int = 1) -> None:
        """Wait until the leaders of a new topic's partitions answer."""
        asked = [{"partition_index": p, "timestamp": -1} for p in range(partitions)]
        self.client.settled(
            "ListOffsets", 7, replica_id=-1, topics=[{"name": topic, "partitions": asked}]
        )

    def group(self) -> str:
        """A name for a group whose coordinator is there and has loaded its partition."""
        name = self.name("group")
        self.client.settled("FindCoordinator", 4, key_type=0, coordinator_keys=[name])
        self.client.settled("DescribeGroups", 5, groups=[name])
        return name

    def transactional_id(self) -> str:
        """A name for transactions whose coordinator is there and has loaded its partition."""
        name = self.name("txn")
        self.client.settled("FindCoordinator", 4, key_type=1, coordinator_keys=[name])
        self.client.settled("DescribeTransactions", 0, transactional_ids=[name])
        return name

    def produce(
        self,
        topic: Topic | str,
        *batches: bytes | str,
        partition: int = 0,
        version: int = 9,
        **fields: Any,
    ) -> Any:
        """Send batches (or texts, which become one batch of a record each), one request."""
        records = b"".join(batch(b) if isinstance(b, str) else b for b in batches)
        where = {"topic_id": topic.id} if isinstance(topic, Topic) and version >= 13 else {}
        name = topic.name if isinstance(topic, Topic) else topic
        data = {"partition_data": [{"index": partition, "records": records}]}
        return self.ask(
            "Produce",
            version,
            **{"acks": -1, "timeout_ms": 10_000, **fields},
            topic_data=[{**(where or {"name": name}), **data}],
        )

    def fetch(
        self,
        topic: Topic,
        offset: int = 0,
        *,
        partition: int = 0,
        version: int = 12,
        on: str = "main",
        partition_fields: dict[str, Any] | None = None,
        **fields: Any,
    ) -> Any:
        """Fetch one partition, without waiting for more."""
        return self.ask(
            "Fetch",
            version,
            on,
            **_one_fetch(topic, offset, partition, version, partition_fields or {}, fields),
        )

    def send_fetch(self, topic: Topic, offset: int, on: str, version: int = 12, **f: Any) -> Later:
        """Fetch one partition on a connection of its own, and don't wait."""
        return self.send("Fetch", version, on, **_one_fetch(topic, offset, 0, version, {}, f))

    def ends(self, label: str, topic: Topic) -> None:
        """Note earliest, latest and (read_committed) last stable offset of partition 0."""

        def offset(timestamp: int, isolation: int) -> Any:
            partitions = [{"partition_index": 0, "timestamp": timestamp}]
            answer = self.ask(
                "ListOffsets",
                7,
                replica_id=-1,
                isolation_level=isolation,
                topics=[{"name": topic.name, "partitions": partitions}],
            )
            return answer.topics[0].partitions[0].offset

        self.note(
            label, {"start": offset(-2, 0), "end": offset(-1, 0), "stable end": offset(-1, 1)}
        )


def _one_fetch(
    topic: Topic,
    offset: int,
    partition: int,
    version: int,
    partition_fields: dict[str, Any],
    fields: dict[str, Any],
) -> dict[str, Any]:
    where = {"topic_id": topic.id} if version >= 13 else {"topic": topic.name}
    one = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 24,
        "topics": [{**where, "partitions": [{**one, **partition_fields}]}],
        **fields,
    }


@dataclass(frozen=True, slots=True)
class Scenario:
    """A function that notes what a cluster does; its name is a sentence."""

    module: str
    name: str
    act: Callable[[World], None]

    def run(self, address: str) -> dict[str, Any]:
        """What is observed at the cluster with this bootstrap address."""
        with RawClient(address) as client:
            world = World(client)
            self.act(world)
            return world.notes


def use_up_the_first_producer_id(address: str) -> None:
    """A scenario that is run alone would get it. It is 0, which an answer does not show."""
    with RawClient(address) as client:
        client.settled("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=0)
