"""What `process` needs of the consumer that it is called on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime.dispatcher import Bell
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.waiting import Blocking
from aktor.trace import Trace

if TYPE_CHECKING:
    from aktor.consumer.configuration.keywords import Config

__all__ = ["BlockingConsumer", "BlockingSurroundings", "Consumer", "Host", "Surroundings"]


class Consumer(Protocol):
    """What is called as a user would call it; see `KafkaConsumer`."""

    @property
    def config(self) -> Config: ...

    def pause(self, *partitions: TopicPartition) -> None: ...
    def resume(self, *partitions: TopicPartition) -> None: ...
    def seek(self, partition: TopicPartition, offset: int) -> None: ...
    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Any
    ) -> Any: ...


class BlockingConsumer(Consumer, Protocol):
    """One whose calls block their thread."""

    def poll(self, timeout_ms: float, max_records: int) -> dict[TopicPartition, list[Any]]: ...
    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float
    ) -> None: ...


class Host(Protocol):
    """What it runs on: see `consumer.system.Host`."""

    def make_bell(self) -> Bell: ...
    def start_worker(self, work: Callable[[], None], name: str) -> None: ...
    def on_sigterm(self, act: Callable[[], None]) -> Callable[[], None]: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The consumer, and what it is made of."""

    consumer: Consumer
    engine: Engine
    clock: Callable[[], float]
    host: Host
    trace: Trace


@dataclass(frozen=True, slots=True)
class BlockingSurroundings(Surroundings):
    """The same, on the application thread."""

    consumer: BlockingConsumer
    driver: Blocking
    #: Repairs what an interrupt has left half done, as each call of the consumer does.
    repair: Callable[[], None]
    #: Calls `Processor.revoke`.
    revoke: Callable[[Collection[TopicPartition]], None]
