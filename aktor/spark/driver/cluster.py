"""The requests of the driver: partitions, topic ids and offsets, and the commits of progress."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

from aktor.consumer.configuration.configuration import DEFAULT_CONFIG
from aktor.consumer.facade import KafkaConsumer
from aktor.errors import BootstrapError, ConfigurationError
from aktor.spark.offsets.bounds import Offsets
from aktor.spark.offsets.ranges import name_of
from aktor.spark.options import client_settings
from aktor.spark.options.source import SourceOptions, Subscription

__all__ = ["DriverCluster", "TopicIds"]

_LOG: Final = logging.getLogger("aktor.spark")

R = TypeVar("R")

#: The id of each topic, None if the brokers do not tell it (before KIP-516).
TopicIds: TypeAlias = Mapping[str, str | None]


class DriverCluster:
    """Owns the driver's consumer. It reads no records but the sample of `maxBytesPerTrigger`. It is
    made at the first request, because Spark pickles a data source before that, and a consumer
    cannot be pickled.

    Each request has `kafka.default.api.timeout.ms`, and the consumer sends it again and again in
    that time. A request that fails sooner, by an error that may pass (`retriable`), is begun anew
    as `fetchOffset.numRetries` and `fetchOffset.retryIntervalMs` say; then its error is raised.
    """

    def __init__(
        self, options: SourceOptions, *, sleep: Callable[[float], Any] = time.sleep
    ) -> None:
        self._options = options
        self._sleep = sleep
        self._consumer: KafkaConsumer | None = None
        #: Whether it was told that no topic fits the pattern: a stream asks once a second.
        self._told_of_none = False
        #: The offsets from which the consumer reads while a query waits for a record.
        self._awaited: Offsets | None = None

    def _kafka(self) -> KafkaConsumer:
        if self._consumer is None:
            client_settings.warn_of_ignored(self._options.client, DEFAULT_CONFIG)
            settings = client_settings.with_defaults(
                client_settings.consumer_settings(self._options.client),
                client_id="aktor-spark-driver",
            )
            # Where records were deleted, a sample is taken behind them.
            fixed: dict[str, Any] = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
            self._consumer = KafkaConsumer(**settings | fixed)
        return self._consumer

    def close(self) -> None:
        """End the consumer, if there is one."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def partitions(self, known: Collection[str] = ()) -> tuple[list[TopicPartition], TopicIds]:
        """The partitions that there are to read now, and the ids of their topics.

        `known` are topics that the query has read before. If one of them does not exist any more,
        it is left out: the plan of the batch reports what was lost.

        Raises ConfigurationError for another topic or partition that is named and does not exist.
        """
        wanted = self._options.subscription
        named = frozenset(wanted.topics) | {partition.topic for partition in wanted.partitions}
        found = self._retried(lambda kafka: kafka.look_up_topics(named or None))
        if wanted.pattern is not None:
            # As in Spark's own source the pattern may match anywhere in the name.
            pattern = re.compile(wanted.pattern)
            found = {
                topic: info
                for topic, info in found.items()
                if pattern.search(topic) and not info.internal
            }
            if not found and not known and not self._told_of_none:
                self._told_of_none = True
                _LOG.warning(
                    "subscribePattern=%s: no topic fits now, so there is nothing to read",
                    pattern.pattern,
                )
        there = sorted(
            TopicPartition(topic, partition)
            for topic, info in found.items()
            for partition in info.partitions
        )
        _check_there(wanted, there, known)
        ids = {
            topic: None if info.topic_id is None else str(info.topic_id)
            for topic, info in found.items()
        }
        if wanted.partitions:
            there = sorted(set(there) & set(wanted.partitions))
        self._follow(there)
        return there, ids

    def _follow(self, partitions: Collection[TopicPartition]) -> None:
        """Have the consumer keep where the leaders of these partitions are. It forgets those of
        which nobody makes use: each look-up of offsets would ask for them again, and that was half
        of the requests of an idle query. What is assigned is not fetched before a poll.
        """
        if self._kafka().assignment() != set(partitions):
            self._assign(dict.fromkeys(partitions, 0))

    def _assign(self, offsets: Offsets) -> None:
        self._awaited = None
        self._kafka().assign(offsets)

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The first available offset of each partition."""
        return self._looked_up(
            partitions,
            lambda kafka: kafka.beginning_offsets(partitions, timeout_ms=_timeout_ms(kafka)),
        )

    def end_offsets(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> Offsets:
        """The offset at which each partition ends: its last stable offset with
        `kafka.isolation.level=read_committed`, else its high watermark. `timeout`: in seconds."""
        return self._looked_up(
            partitions,
            lambda kafka: kafka.end_offsets(
                partitions, timeout_ms=_timeout_ms(kafka) if timeout is None else timeout * 1000
            ),
        )

    def await_record(self, offsets: Offsets, seconds: float) -> None:
        """Return when a partition has a record at its offset, or after so many seconds, or after an
        error: the look-up of the ends, which comes next, has it, too, if it does not pass.

        Brokers answer a Fetch as soon as there is a record, and else twice a second. Between two
        calls with the same offsets the Fetch goes on; after a record nothing is fetched ahead.
        """
        consumer = self._kafka()
        if self._awaited != offsets:
            self._assign(offsets)
            consumer.resume(*offsets)
            self._awaited = dict(offsets)
        try:
            there = bool(consumer.poll(round(seconds * 1000), max_records=1))
        except KafkaError:
            there = True
        if there:
            self._assign(dict.fromkeys(offsets, 0))
            consumer.pause(*offsets)

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after each time (ms), None if no record is that young."""
        found: Mapping[TopicPartition, OffsetAndTimestamp | None] = self._retried(
            lambda kafka: kafka.offsets_for_times(dict(times), timeout_ms=_timeout_ms(kafka))
        )
        return found

    def committed(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The offsets that the group has committed; a partition without a commit is left out."""
        found = self._retried(lambda kafka: kafka.committed(partitions))
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def commit(self, offsets: Offsets) -> None:
        """Commit for the group, of which the driver is not a member. The query waits meanwhile, so
        the commit has two seconds, and no second attempt."""
        self._kafka().commit(
            {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()},
            timeout_ms=_COMMIT_MS,
        )

    def bytes_per_offset(self, partition: TopicPartition, offset: int) -> float | None:
        """How many bytes of keys, values and headers one offset takes, by a sample from `offset`
        on; None if nothing can be read there now."""
        consumer = self._kafka()
        self._assign({partition: offset})
        consumer.resume(partition)
        try:
            batch = consumer.poll_arrow(
                _SAMPLE_WAIT_MS,
                max_records=_SAMPLE_ROWS,
                max_bytes=_SAMPLE_BYTES,
                columns=["key", "value", "headers", "offset"],
            )
            position = consumer.position(partition)
        except KafkaError:
            return None
        finally:
            consumer.unsubscribe()
        if position is None or not batch.num_rows:
            return None
        # The records from `offset` on may have been deleted: the first one is where the sample is.
        first = batch.column("offset")[0].as_py()
        return float((batch.nbytes - batch.column("offset").nbytes) / (position - first))

    def _looked_up(
        self, partitions: Collection[TopicPartition], ask: Callable[[KafkaConsumer], Offsets]
    ) -> Offsets:
        return self._retried(ask) if partitions else {}

    def _retried(self, ask: Callable[[KafkaConsumer], R]) -> R:
        for left in range(self._options.look_up_retries, -1, -1):
            try:
                with client_settings.naming_options():
                    return ask(self._kafka())
            except KafkaError as error:
                # At a timeout the consumer has tried for all of it. With retries on top of that,
                # the user would see the error after four timeouts.
                if not left or not error.retriable or _took_all_its_time(error):
                    raise
                self._sleep(self._options.look_up_wait)
        raise AssertionError("the last attempt returns or raises")


#: A sample for `maxBytesPerTrigger`.
_SAMPLE_ROWS = 1_000
_SAMPLE_BYTES = 1_000_000
_SAMPLE_WAIT_MS = 1_000

#: How long a commit of `commitOffsets` may take.
_COMMIT_MS = 2_000


def _took_all_its_time(error: KafkaError) -> bool:
    # (BootstrapError comes sooner: as soon as it is clear that nobody answers.)
    return isinstance(error, KafkaTimeoutError) and not isinstance(error, BootstrapError)


def _timeout_ms(kafka: KafkaConsumer) -> float:
    """How long a look-up of offsets may take, as with Kafka's Admin client. The consumer's own
    default is `request_timeout_ms`: too short for a partition that has no leader for a moment."""
    timeout: float = kafka.config["default_api_timeout_ms"]
    return timeout


def _check_there(
    wanted: Subscription, there: Collection[TopicPartition], known: Collection[str]
) -> None:
    existing = set(there)
    topics = {partition.topic for partition in there} | set(known)
    missing = [topic for topic in wanted.topics if topic not in topics]
    if missing:
        raise ConfigurationError(
            f"subscribe names {', '.join(missing)}: there is no such topic in this cluster"
        )
    gone = [
        name_of(partition)
        for partition in wanted.partitions
        if partition not in existing and partition.topic not in known
    ]
    if gone:
        raise ConfigurationError(f"assign names {', '.join(gone)}: there is no such partition")
