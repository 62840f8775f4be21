"""aktor and its peers behind one narrow interface, so that all are measured by the same loop."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Protocol

__all__ = ["Client", "import_client", "installed", "open_client"]


class Client(Protocol):
    """A consumer of one topic, in a group if one is named; constructed, it has subscribed."""

    def poll(self, seconds: float, at_most: int | None = None) -> list[list[Any]]:
        """Lists of records; [] if none came in time."""

    def weigh(self, records: list[Any]) -> int:
        """Touch the value of every record; the sum of their sizes."""

    def count(self, batches: list[list[Any]]) -> Mapping[int, int]:
        """How many records of which partition."""

    def rest(self, seconds: float) -> None:
        """The application does something else, without a poll."""

    def close(self) -> None:
        """Leave the group, close the connections."""


class KafkaPython:
    """kafka-python, and aktor, which has the same interface."""

    module = "kafka"

    def __init__(
        self,
        bootstrap: list[str],
        topic: str,
        group: str | None = None,
        *,
        start: str = "earliest",
        cooperative: bool = False,
        **settings: Any,
    ) -> None:
        if cooperative:
            from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

            settings["partition_assignment_strategy"] = [CooperativeStickyAssignor]
        self.consumer = importlib.import_module(self.module).KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, auto_offset_reset=start, **settings
        )
        self.consumer.subscribe([topic])

    def poll(self, seconds: float, at_most: int | None = None) -> list[list[Any]]:
        return list(self.consumer.poll(timeout_ms=seconds * 1000, max_records=at_most).values())

    def weigh(self, records: list[Any]) -> int:
        total = 0
        for record in records:
            total += len(record.value)
        return total

    def count(self, batches: list[list[Any]]) -> Mapping[int, int]:
        return {records[0].partition: len(records) for records in batches}

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        self.consumer.close()


class Aktor(KafkaPython):
    module = "aktor"

    def columns(self, seconds: float, at_most: int) -> int:
        """Records as columns of pyarrow; how many they are."""
        return int(self.consumer.poll_arrow(seconds * 1000, at_most).num_rows)


class Confluent:
    """confluent-kafka (librdkafka), `consume(500)`."""

    module = "confluent_kafka"

    def __init__(
        self,
        bootstrap: list[str],
        topic: str,
        group: str | None = None,
        *,
        start: str = "earliest",
        cooperative: bool = False,
        group_protocol: str = "classic",
        **settings: Any,
    ) -> None:
        from confluent_kafka import Consumer

        if group_protocol == "classic":
            strategy = "cooperative-sticky" if cooperative else "range"
            settings["partition.assignment.strategy"] = strategy
        self._consumer = Consumer(
            {
                "bootstrap.servers": ",".join(bootstrap),
                "group.id": group or f"nobody-{topic}",
                "auto.offset.reset": start,
                "group.protocol": group_protocol,
                **settings,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self, seconds: float, at_most: int | None = None) -> list[list[Any]]:
        # `consume` waits until it has as many as asked for; the first is had by `poll`.
        first = self._consumer.poll(seconds)
        if first is None:
            return []
        more = self._consumer.consume((at_most or 500) - 1, 0) if at_most != 1 else []
        return [[one for one in (first, *more) if one.error() is None]]

    def weigh(self, records: list[Any]) -> int:
        total = 0
        for record in records:
            total += len(record.value())
        return total

    def columns(self, seconds: float, at_most: int) -> int:
        """Records as columns of pyarrow, made of rows; how many they are."""
        import pyarrow

        (records,) = self.poll(seconds, at_most) or ([],)
        pyarrow.record_batch(
            {
                "key": pyarrow.array([one.key() for one in records], pyarrow.binary()),
                "value": pyarrow.array([one.value() for one in records], pyarrow.binary()),
                "partition": pyarrow.array([one.partition() for one in records], pyarrow.int32()),
                "offset": pyarrow.array([one.offset() for one in records], pyarrow.int64()),
                "timestamp": pyarrow.array(
                    [one.timestamp()[1] for one in records], pyarrow.timestamp("ms", "UTC")
                ),
            }
        )
        return len(records)

    def count(self, batches: list[list[Any]]) -> Mapping[int, int]:
        return Counter(record.partition() for records in batches for record in records)

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        self._consumer.close()


class AioKafka:
    """aiokafka, `getmany` on an event loop of its own."""

    module = "aiokafka"

    def __init__(
        self,
        bootstrap: list[str],
        topic: str,
        group: str | None = None,
        *,
        start: str = "earliest",
        cooperative: bool = False,
        **settings: Any,
    ) -> None:
        assert not cooperative, "aiokafka has no cooperative rebalancing"
        self._loop = asyncio.new_event_loop()
        settings["auto_offset_reset"] = start
        self._consumer = self._loop.run_until_complete(
            self._started(bootstrap, topic, group, settings)
        )

    async def _started(
        self, bootstrap: list[str], topic: str, group: str | None, settings: dict[str, Any]
    ) -> Any:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            **settings,
        )
        await consumer.start()
        return consumer

    def poll(self, seconds: float, at_most: int | None = None) -> list[list[Any]]:
        wait = self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=at_most)
        return list(self._loop.run_until_complete(wait).values())

    def weigh(self, records: list[Any]) -> int:
        total = 0
        for record in records:
            total += len(record.value)
        return total

    def count(self, batches: list[list[Any]]) -> Mapping[int, int]:
        return {records[0].partition: len(records) for records in batches}

    def rest(self, seconds: float) -> None:
        self._loop.run_until_complete(asyncio.sleep(seconds))

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


CLIENTS: Final[Mapping[str, type[Any]]] = {
    "aktor": Aktor,
    "kafka-python": KafkaPython,
    "confluent": Confluent,
    "aiokafka": AioKafka,
}


def installed() -> list[str]:
    """Who can be measured here; aktor first, kafka-python second."""
    return [name for name, kind in CLIENTS.items() if importlib.util.find_spec(kind.module)]


def import_client(name: str) -> None:
    """Import what the client needs, so that nobody's start is measured with it."""
    module = importlib.import_module(CLIENTS[name].module)
    getattr(module, "KafkaConsumer", None)  # aktor imports it when it is first named


def open_client(name: str, *arguments: Any, **settings: Any) -> Any:
    """The client of this name, constructed and subscribed."""
    return CLIENTS[name](*arguments, **settings)
