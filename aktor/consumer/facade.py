"""`KafkaConsumer`: kafka-python's consumer, method by method, over the actor system.

Names, defaults, argument checks, return types and exceptions are those of kafka-python 3.0; where
they differ the docstring says so. Differences on purpose: `docs/coming-from-kafka-python.md`.
"""

from __future__ import annotations

import re
import sys
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import EllipsisType, MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    Never,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import kafka.consumer.group
from kafka.errors import KafkaTimeoutError

from aktor.consumer import arguments, deserializers, habits
from aktor.consumer.agents import Agents
from aktor.consumer.assembly import Ending, assemble
from aktor.consumer.columns.extra import import_arrow
from aktor.consumer.configuration import configuration
from aktor.consumer.core.batch import iterator
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.guard import LOOK_EVERY, ThreadGuard
from aktor.consumer.core.guarded import (
    Close,
    Guarded,
    closing,
    exclusive,
    handing_out,
    looking,
)
from aktor.consumer.core.iteration import Calls, Polled
from aktor.consumer.core.questions import ANSWER_GRACE
from aktor.consumer.core.subscription import SubscriptionPattern
from aktor.consumer.core.waiting import Bells, Blocking, LateBell, Patience, Waiting
from aktor.consumer.internals import NAMES as VIEWS
from aktor.consumer.internals import Internals
from aktor.consumer.kind import kind_of
from aktor.consumer.shown import Shown
from aktor.consumer.system import HOST, Host
from aktor.errors import ConsumerClosedError
from aktor.events.membership import Operation
from aktor.events.metadata import TopicInfo
from aktor.events.positions import ResetStrategy
from aktor.records import Columns
from aktor.structs import (
    ConsumerRecord,
    K,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    V,
)

if TYPE_CHECKING:
    import pyarrow

    from aktor.consumer.columns import arrow_range
    from aktor.consumer.configuration.keywords import Config, ConsumerSettings, Keywords
    from aktor.consumer.configuration.shapes import Deserializes, OnCommit
    from aktor.consumer.subscription_state import (
        AsyncConsumerRebalanceListener,
        ConsumerRebalanceListener,
    )
    from aktor.future import Future
    from aktor.processing import Failure, Processed, Retries
    from aktor.processing.processor import Processor
else:  # the same classes, without a module of ours that every program would have to load
    from kafka.consumer.subscription_state import (
        AsyncConsumerRebalanceListener,
        ConsumerRebalanceListener,
    )
    from kafka.future import Future

__all__ = ["KafkaConsumer"]

R = TypeVar("R")
#: What the deserializers that a constructor is given make of keys and values.
Key = TypeVar("Key")
Value = TypeVar("Value")

#: Whether threads take turns at the GIL: from Python 3.13 on it may be off.
HAS_GIL: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)()

#: How long `close` may take after the interpreter has taken the background thread away, in seconds:
#: a program that ends is not held up for long.
LATE_CLOSE: Final = 5.0


class _Help:
    """`KafkaConsumer.__doc__`: a text and the settings, put together when somebody asks for it."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    def __get__(self, _instance: object, _owner: type | None = None) -> str:
        from aktor.consumer.configuration.help import with_settings

        return with_settings(self._text or "")


class KafkaConsumer(Guarded, Shown, Internals, Generic[K, V]):
    """Consume records from a Kafka cluster.

    `topics` are subscribed to at once, if given; `configs` are kafka-python's settings (and a few
    of our own: `docs/configuration.md`). Any thread may call any method; one call at a time is at
    work, and one that waits for the cluster lets others in. `wakeup` and the methods that only read
    (`metrics`, `status`, `assignment`, `subscription`, `paused`, `highwater`, `group_metadata`,
    `bootstrap_connected`, `config`) never wait for another call. A call that waits in vain for the
    end of another one raises KafkaTimeoutError.

    The constructor starts one background thread and, as kafka-python's, waits until a broker has
    answered, `bootstrap_timeout_ms` at most. With `bootstrap_timeout_ms=0`, or if `api_version` is
    given, it does not wait. If it raises, the thread has ended and the connections are closed.

    Raises:
        ConfigurationError: an unknown setting (the nearest known name is in the text), a value
            out of range, or settings that contradict each other.
        BootstrapError: no broker has answered in time. It names each server and why that failed. It
            is a KafkaTimeoutError, as kafka-python 3 raises, and is kafka-python 2's
            NoBrokersAvailable.
        AuthenticationError: a broker refuses the login, or a certificate is refused (at once).
    """

    __doc__ = _Help(__doc__)

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = configuration.DEFAULT_CONFIG
    _replaceable = frozenset((*dir(kafka.consumer.group.KafkaConsumer), *VIEWS))

    #: The settings in use; those that were not given by their defaults. Passwords are masked.
    config: Config
    #: Threads, clock and sockets.
    _host: Host
    _engine: Engine

    # The deserializers say of what type a record's key and value are; without one they are bytes,
    # and None stands for a missing key and for a tombstone.
    @overload
    def __init__(
        self: KafkaConsumer[bytes | None, bytes | None],
        *topics: str,
        key_deserializer: None = None,
        value_deserializer: None = None,
        **configs: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: KafkaConsumer[bytes | None, Value],
        *topics: str,
        key_deserializer: None = None,
        value_deserializer: Deserializes[Value],
        **configs: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: KafkaConsumer[Key, bytes | None],
        *topics: str,
        key_deserializer: Deserializes[Key],
        value_deserializer: None = None,
        **configs: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: KafkaConsumer[Key, Value],
        *topics: str,
        key_deserializer: Deserializes[Key],
        value_deserializer: Deserializes[Value],
        **configs: Unpack[ConsumerSettings],
    ) -> None: ...
    def __init__(self, *topics: str, **configs: Unpack[Keywords]) -> None:
        self._check_names()
        super().__init__(ThreadGuard())
        habits.check_topics(topics)
        given, own = habits.with_defaults(type(self).DEFAULT_CONFIG, configs)
        config, settings = configuration.parse(given)
        self.config = cast("Config", config | own)
        self._settings = settings
        #: The `process` under way.
        self._processor: Processor | None = None
        #: A timeout that is probably meant in seconds was warned of.
        self._warned = False
        #: What was subscribed to when it was closed.
        self._last_subscription: set[str] | None = None
        # Settings that may be refused are read before anything is made that holds descriptors.
        # (Here, because a warning names the line that calls this constructor.)
        key = deserializers.wrap(self.config["key_deserializer"], "key_deserializer")
        value = deserializers.wrap(self.config["value_deserializer"], "value_deserializer")
        kind = kind_of(settings.group_protocol)
        self._prepare_metrics(self.config, kind.metrics)
        host = HOST.get().for_consumer(self)
        self._make_bell = host.make_bell
        self._bell = Bells(self._make_bell)
        made = assemble(kind, self.config, settings, host, self._bell, key=key, value=value)
        #: Programs that look at the actors find the dispatcher here.
        self._system = made
        to_close = [self.config["value_deserializer"], self.config["key_deserializer"]]
        self._ending = Ending(made, self._guard, to_close)
        self._host, self._dispatcher, self._engine = made
        self._core = self._engine.core
        #: What another `poll` than ours has returned to an iteration.
        self._polled = Polled(self._engine.delivery)
        AGENTS.follow(self._core.trace)
        dispatcher = made.dispatcher
        self._driver = Blocking(self._bell, dispatcher.clock)
        self._begin_to_show()
        if topics:
            try:
                KafkaConsumer.subscribe(self, topics)  # not a subclass's, as in kafka-python
            except BaseException:
                dispatcher.end()  # no thread runs yet that would end it
                self._close_reporters()
                raise
        # A consumer that is dropped without close(), or whose constructor is interrupted, must not
        # leave its thread behind. (At the exit the thread lives on: functions of `atexit` may yet
        # use the consumer. Then the interpreter takes it away; see `Dispatcher.fail_if_gone`.)
        dropped = weakref.finalize(self, dispatcher.stop, 0.0)
        dropped.atexit = False
        made.start()
        timeout_ms = self.config["bootstrap_timeout_ms"]
        if timeout_ms and self.config["api_version"] is None:
            try:
                self.bootstrap(timeout_ms)
            except BaseException:  # Ctrl-C, too
                why = "the constructor raises an error"
                for step in self._ending.give_up(self._close_reporters, why):
                    step()
                raise

    # -- subscription

    @habits.explained
    @exclusive
    def subscribe(
        self,
        topics: Sequence[str] | None = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | AsyncConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to these topics, or to those of a pattern, replacing an earlier subscription.

        A `pattern` in Python's syntax must match from the beginning of a topic's name, and finds
        topics as they come and go (`metadata_max_age_ms`); a `SubscriptionPattern`, in the syntax
        of RE2, is evaluated by the brokers (group_protocol 'consumer'). Without a `group_id` all
        partitions of the topics are read by this consumer. `listener` is called on the application
        thread, inside `poll`.

        Raises:
            IllegalStateError: after `assign`, or called from a listener.
            TypeError: `topics` is a str or no sequence, or `listener` is not a listener.
            ValueError: neither topics nor a pattern, or an invalid topic name.
            re.error: the pattern is not one of Python's.
            ConfigurationError: a SubscriptionPattern without a group that speaks KIP-848.
        """
        named, matching, regex = arguments.subscription(topics, pattern, listener, self._settings)
        self._run(self._engine.subscribe(named, listener, pattern=matching, regex=regex))

    @exclusive
    def unsubscribe(self) -> None:
        """Leave the group and own nothing; with auto-commit the positions are committed first."""
        self._run(self._engine.unsubscribe(self._deadline("unsubscribe")))

    def subscription(self) -> set[str] | None:
        """The subscribed topics, or those that match the pattern; None: nothing is subscribed to.
        After `close` what it was.

        With a SubscriptionPattern only those topics are known that have assigned partitions.
        """
        self._guard.check_process()
        if self._guard.closed:
            return self._last_subscription
        return self._engine.subscribed_topics

    def assign(
        self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int | None] | None
    ) -> None:
        """Read exactly these partitions, without group management. Empty is `unsubscribe`.

        A dict `{TopicPartition: offset}` also says where to begin, as a `seek` after it would; but
        no broker is asked for a position meanwhile. Offset None: as in a list; a partition that is
        assigned already keeps its position. (kafka-python takes the keys only.)

        Raises:
            IllegalStateError: after `subscribe`, or called from a listener.
            ValueError: an offset below 0.
        """
        wanted = arguments.checked_partitions(() if partitions is None else partitions)
        if not wanted:
            self.unsubscribe()
            return
        self._assign(wanted, arguments.offsets_to_begin_at(partitions))

    @exclusive
    def _assign(self, wanted: list[TopicPartition], offsets: dict[TopicPartition, int]) -> None:
        self._run(self._engine.assign(wanted, offsets))

    def assignment(self) -> set[TopicPartition]:
        """The partitions owned now; none after `close`."""
        self._guard.check_process()
        return set(self._engine.delivery.partitions)

    # -- records

    @habits.without_refused
    def poll(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        update_offsets: bool = True,
        # (Not `**unknown`: with it each call takes 0.2 µs more.)
        timeout: EllipsisType = ...,
        num_messages: EllipsisType = ...,
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Records as soon as there are any; {} when `timeout_ms` has passed.

        Returns `{TopicPartition: [ConsumerRecord, ...]}` with at most `max_records` in all
        (default `max_poll_records`). `update_offsets` is for internal use.

        Raises:
            ValueError, TypeError: bad arguments.
            IllegalStateError: closed, forked, or called from a listener.
            WakeupError: `wakeup` was called.
            AuthenticationError, BootstrapError, BrokersUnreachableError: the cluster cannot be
                used or reached; the consumer keeps trying. As long as no broker has ever answered,
                a poll of a second or more does not return {}.
            NoOffsetForPartitionError, OffsetOutOfRangeError: no position, and no policy to reset.
            CorruptBatchError, RecordDeserializationError, BatchTooLargeError: at this offset; the
                position stays until the user seeks past it. A corrupt batch is also fetched again,
                a few times: if sound bytes come, later polls read on.
            TopicAuthorizationFailedError, GroupAuthorizationFailedError, ...: the broker's errors.
            UserCallbackError: a rebalance listener raised, or a commit callback StopIteration; the
                exception is the cause.
        """
        if timeout is not ... or num_messages is not ...:
            habits.refuse_of_poll(timeout, num_messages)
        if type(timeout_ms) is float and not self._warned:
            self._warned = habits.warn_of_seconds(timeout_ms)
        seconds = arguments.seconds(timeout_ms)
        if max_records is None:
            limit = self.config["max_poll_records"]
        else:
            limit = arguments.record_limit(max_records)
        return self._poll_once(seconds, limit, update_offsets)

    # (The name is kafka-python's: Apache SkyWalking replaces this method.)
    @exclusive
    def _poll_once(
        self, timeout: float, max_records: int, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        found = self._engine.poll_at_once(timeout, max_records, advance=update_offsets)
        return found if isinstance(found, dict) else self._run(found)

    def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int = 10_000,
        max_bytes: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pyarrow.RecordBatch:
        """As `poll`, in columns: a `pyarrow.RecordBatch`, without rows after `timeout_ms`.

        Rows of a partition are in order; those of several partitions follow each other. Positions,
        commits, rebalances and errors are those of `poll`. Deserializers do not apply.

        Args:
            timeout_ms: how long to wait for a first record.
            max_records: at most so many rows.
            max_bytes: no row follows once keys, values and headers have so many bytes (at most, and
                by default, 1 GiB).
            columns: their names, in this order. Default: `arrow.DEFAULT_COLUMNS`: key, value
                (binary), topic (dictionary), partition (int32), offset (int64), timestamp (ms,
                UTC), timestamp_type (int8; 0: the producer's, 1: the broker's), headers (a list of
                key, value). On request also leader_epoch (int32).

        Raises:
            ImportError: pyarrow is missing; `pip install pyarrow`.
            ValueError: an unknown column.
            What `poll` raises, except RecordDeserializationError.
        """
        arrow = import_arrow()
        names = arrow.checked_columns(columns)
        limit, size = arguments.record_limit(max_records), arguments.byte_limit(max_bytes)
        wanted = self._new_columns(limit, size, names)
        make = arrow.maker(self._engine, names)
        return self._poll_arrow(arguments.seconds(timeout_ms), wanted, make)

    def arrow_batches(
        self,
        max_records: int = 10_000,
        max_bytes: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Batches as `poll_arrow` gives them, until none came within `consumer_timeout_ms`, or
        until the consumer is closed."""
        arrow = import_arrow()
        names = arrow.checked_columns(columns)
        limit, size = arguments.record_limit(max_records), arguments.byte_limit(max_bytes)
        make = arrow.maker(self._engine, names)
        timeout = self.config["consumer_timeout_ms"] / 1000

        def next_batch() -> pyarrow.RecordBatch:
            wanted = self._new_columns(limit, size, names)
            try:
                return self._poll_arrow(timeout, wanted, make_if_any)
            except ConsumerClosedError:  # between two batches: a loop ends
                raise StopIteration from None

        def make_if_any(columns: Columns) -> pyarrow.RecordBatch | None:
            return make(columns) if columns.rows else None

        return Calls(next_batch)

    def to_table(
        self,
        start: arrow_range.Bound = None,
        end: arrow_range.Bound = None,
        *,
        columns: Sequence[str] | None = None,
        timeout_ms: float | None = None,
        progress: Callable[[int, int], Any] | None = None,
        skip_deleted: bool = False,
    ) -> pyarrow.Table:
        """A bounded range of the assigned partitions, as a `pyarrow.Table`.

        If the consumer has subscribed, this waits for its partitions: without a `group_id` those
        of all its topics, else those that the group gives to this member (others may have more).

        The range does not follow `auto_offset_reset`: what is not in the log any more is an error,
        or is skipped and logged. The positions are at the ends of the ranges afterwards, or where
        the ranges begin if it raises; nothing else has changed.

        Args:
            start: where to begin: {TopicPartition: offset}, a time (datetime, with a time zone or
                of the local one), "earliest"; default: the present positions.
            end: where to stop, not included: the same; "latest" and the default: where the
                partitions end now.
            columns: as for `poll_arrow`.
            timeout_ms: how long to wait while nothing comes (default `default_api_timeout_ms`),
                and for the brokers to say where the range is (default `request_timeout_ms`).
            progress: called with how many offsets are done, and how many there are in all.
            skip_deleted: if records of the range were deleted (by retention, or DeleteRecords), go
                on where the log begins, and log a warning. By default that is an error.

        Raises:
            IllegalStateError: neither `subscribe` nor `assign` was called; or a topic of the range
                was deleted and created anew.
            OutsideLogError: a partition was to be read at an offset that its log does not have, at
                the beginning or later; it names the offsets.
            KafkaTimeoutError: nothing came, or no partition was assigned, for `timeout_ms`.
            What `poll_arrow` raises.
        """
        from aktor.consumer.columns import arrow_range

        names = import_arrow().checked_columns(columns)
        limit = None if timeout_ms is None else arguments.seconds(timeout_ms)
        # What is asked before and after the polls has its usual time, unless one is given.
        asked = {} if limit is None else {"timeout_ms": limit * 1000}
        reading = arrow_range.Reading.of(
            self._engine,
            self._poll_range,
            names,
            limit=limit,
            progress=progress,
            skip_deleted=skip_deleted,
            ask=lambda method, *arguments: method(*arguments, **asked),
        )
        return arrow_range.at_once(arrow_range.read(self, start, end, reading))

    def _poll_range(self, timeout: float, names: Sequence[str]) -> pyarrow.RecordBatch:
        """As `poll_arrow`, of a bounded range."""
        wanted = self._new_columns(10_000, None, names)
        make = import_arrow().maker(self._engine, names)
        return self._poll_arrow(timeout, wanted, make, follows_policy=False)

    def _new_columns(self, limit: int, max_bytes: int | None, names: Sequence[str]) -> Columns:
        # The simulation's consumer asks for more: it notes records whole.
        return self._engine.new_columns(limit, max_bytes, names)

    @exclusive
    def _poll_arrow(
        self,
        timeout: float,
        columns: Columns,
        make: Callable[[Columns], R],
        *,
        follows_policy: bool = True,
    ) -> R:
        made = self._run(
            self._engine.poll_columns(
                self._core.clock() + timeout,
                columns,
                make,
                follows_policy=follows_policy,
            )
        )
        if made is None:  # here, since after this method an interrupt would lose the rows
            raise self._engine.call.own(StopIteration())
        return made

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        # A `__next__` of a subclass, or one that was put in place of ours (by a decorator, or by an
        # agent that monitors the application), must be called for each record.
        if "__next__" in vars(self):
            return Calls(self.__next__)
        overridden = type(self).__next__ is not _NEXT
        return self if overridden else self._records(self.__next__)

    def _records(
        self, next_record: Callable[[], ConsumerRecord[K, V]]
    ) -> Iterator[ConsumerRecord[K, V]]:
        """Hands out records without a call of `next_record` for each, if that is compiled.

        The compiled iterator does not enter the consumer for each record. That is safe beside calls
        of other threads only where threads take turns at the GIL.
        """
        if iterator is None or not HAS_GIL:
            return self
        call, clock = self._engine.call, self._core.clock
        return iterator(
            next_record,
            self._engine.iteration,
            call.attention,
            self._core.port.events,
            None if clock is time.monotonic else clock,
        )

    def __aiter__(self) -> Never:
        raise TypeError(habits.ASYNC)

    def __aenter__(self) -> Never:
        raise TypeError(habits.ASYNC)

    def __aexit__(self, *_: object) -> Never:
        raise TypeError(habits.ASYNC)

    def __next__(self) -> ConsumerRecord[K, V]:
        """The next record, waiting up to `consumer_timeout_ms` for it.

        A position moves past a record when it is handed out; each call counts as a poll. As long as
        no broker has ever answered, BootstrapError is raised in place of StopIteration.
        """
        return self._next() or self._next_of_poll()  # (a record is a tuple, and true)

    @handing_out
    def _next(self) -> ConsumerRecord[K, V] | None:
        """The next record; None if it is to be had by another `poll` than ours."""
        iteration = self._engine.iteration
        batch = iteration.batch
        handed = batch.handed
        try:
            record: ConsumerRecord[K, V] | None = None
            if not self._guard.broken:
                record = iteration.next()
            return self._wait_for_record() if record is None else record
        except BaseException:
            iteration.take_back_to(batch, handed)
            raise

    def _wait_for_record(self) -> ConsumerRecord[K, V] | None:
        self._guard.check_process()
        if self._guard.ending:  # by a signal handler, as this call came in
            raise StopIteration("KafkaConsumer closed")
        if self._has_another_poll():
            return None
        try:
            self._begin_call()
        except ConsumerClosedError:  # a signal handler has closed it since `ending` was looked at
            raise self._engine.call.own(StopIteration("KafkaConsumer closed")) from None
        record: ConsumerRecord[K, V] | None = self._run(
            self._engine.next_record(
                self._core.clock() + self.config["consumer_timeout_ms"] / 1000,
                self.config["max_poll_records"],
            )
        )
        if record is None:
            raise self._engine.call.own(StopIteration())
        return record

    def _has_another_poll(self) -> bool:
        kind = self._kind()
        replaced = (kind.poll, kind._poll_once) != _POLLS
        return replaced or not {"poll", "_poll_once"}.isdisjoint(vars(self))

    def _kind(self) -> type[KafkaConsumer[Any, Any]]:
        """Its class as the user knows it: a simulation puts one of its own before that."""
        return type(self)

    def _poll_to_iterate(self, timeout_ms: float) -> dict[TopicPartition, list[Any]]:
        return self.poll(timeout_ms=timeout_ms, max_records=1)

    def _next_of_poll(self) -> ConsumerRecord[K, V]:
        """The next record of a `poll` that a subclass has, or that was put in place of ours (by a
        decorator, or by an agent that monitors the application). As in kafka-python, an iteration
        calls it. It asks for one record at a time: so the position moves past that one only.
        """
        deadline = self._core.clock() + arguments.seconds(self.config["consumer_timeout_ms"])
        while not self._guard.ending:
            record: ConsumerRecord[K, V] | None = self._polled.next()
            if record is not None:  # that `poll` has returned more than one
                return record
            left = deadline - self._core.clock()
            if left <= 0:
                raise StopIteration
            self._polled.add(self._poll_to_iterate(left * 1000))
        raise StopIteration("KafkaConsumer closed")

    def process(
        self,
        handler: Callable[[ConsumerRecord[K, V]], object],
        *,
        concurrency: int = 8,
        order: str = "key",
        on_error: Callable[[Failure], object] | str = "raise",
        retries: int | Retries = 0,
        workers: str | None = None,
        max_pending: int = 1000,
        max_uncommitted: int = 10_000,
        commit_interval_ms: float | None = None,
        drain_timeout_ms: float = 30_000,
    ) -> Processed:
        """Call `handler(record)` for each record, several at a time; commit what is finished.

        Of a partition, offsets are committed up to its lowest unfinished record: at-least-once.
        A revocation waits until the running handlers of its partitions have ended, and commits. The
        method returns when nothing has come for `consumer_timeout_ms` (by default it waits for
        ever), after SIGTERM (unless the application handles that itself), and after `close` was
        called by a signal handler, a listener, a handler or another thread. It raises what `poll`
        raises (a corrupt batch only after it was fetched anew in vain), WakeupError, and
        KeyboardInterrupt. In every case it waits for the running handlers, commits, and leaves the
        positions at the lowest unfinished records.

        Args:
            handler: a function, or a coroutine function. It may only close and look at the
                consumer.
            concurrency: so many handlers run at a time.
            order: which records are handled one after the other: those with the same "key" (those
                without one in any order), those of a "partition", or "none".
            on_error: what is done with a record whose attempts have all failed: "raise", "skip", a
                `dead_letter(...)`, or a function of a `Failure`; the record is finished when it
                returns. Records that a deserializer refuses are treated so, too.
            retries: further attempts, as a number or as `Retries`.
            workers: "threads", "processes" (the handler is pickled) or "coroutines"; default:
                threads, or coroutines if the handler is a coroutine function.
            max_pending: so many records are in hand at most; beyond it partitions are paused.
            max_uncommitted: a partition is paused that is so many offsets ahead of its lowest
                unfinished one.
            commit_interval_ms: default: `auto_commit_interval_ms`.
            drain_timeout_ms: how long to wait for running handlers at a revocation (at most half of
                `max_poll_interval_ms`) and at the end. After that coroutines are cancelled, others
                go on in the background; their records are given out again.

        Returns:
            `Processed`: how many records were finished, skipped, dead-lettered, tried again, and
            left unfinished.

        Raises:
            ConfigurationError: `enable_auto_commit` is on: it would commit what is unfinished.
            HandlerError: a handler failed and on_error is "raise", or on_error itself failed;
                `__cause__` is the exception of the one that failed last.
            ValueError, TypeError: a bad argument.
            IllegalStateError: called in a listener or in another `process`.
        """
        from aktor.processing.plan import plan_for
        from aktor.processing.processor import Processor
        from aktor.processing.surroundings import BlockingSurroundings

        self._guard.check_usable()
        user_code = self._engine.rebalancing.user_code.name
        if user_code or self._processor is not None:
            raise self._refusal("process", user_code or "a handler")
        chosen = plan_for(
            self.config,
            handler,
            concurrency=concurrency,
            order=order,
            on_error=on_error,
            retries=retries,
            workers=workers,
            max_pending=max_pending,
            max_uncommitted=max_uncommitted,
            commit_interval_ms=commit_interval_ms,
            drain_timeout_ms=drain_timeout_ms,
        )
        around = BlockingSurroundings(
            consumer=self,
            engine=self._engine,
            driver=self._driver,
            clock=self._core.clock,
            host=self._host,
            trace=self._core.trace,
            repair=self._repair,
            revoke=self._revoke,
        )
        processor = Processor(around, chosen)
        try:
            self._processor = processor
            return processor.run()
        finally:
            self._processor = None
            asked = processor.close_asked
            if asked is not None:
                self._close_now(asked)

    def _revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Tell the `process` under way, if there is one, that these partitions are revoked."""
        if self._processor is not None:
            self._processor.revoke(partitions)

    @exclusive
    def _repair(self) -> None:
        """Do nothing but begin a call: as each call begins, it repairs what an interrupt has left
        half done."""

    def wakeup(self) -> None:
        """End a blocked call with `WakeupError`, or the next one. From any thread."""
        self._engine.call.wakeup()

    # -- positions

    @habits.explained
    @exclusive
    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """The offset of the next record to be given out; None if not found within `timeout_ms`.

        Raises:
            TypeError, IllegalStateError: not a TopicPartition, not assigned.
            TopicAuthorizationFailedError: the topic may not be described.
            KafkaTimeoutError: no timeout was given and `default_api_timeout_ms` has passed.
        """
        arguments.check_assigned((partition,), self._engine.delivery.partitions)
        deadline = self._deadline("position", timeout_ms)
        found = self._engine.known_position(partition)
        if found is None:
            must = timeout_ms is None
            found = self._run(self._engine.position(partition, deadline, must=must))
        return found

    @exclusive
    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Give out records from `offset` on. ValueError: not an int >= 0, or not assigned.

        An `OffsetAndMetadata`, as `committed(metadata=True)` returns it, has the leader epoch of
        the record before the offset: if that was lost in an unclean election (KIP-320),
        `auto_offset_reset` says what is done.
        """
        position = arguments.position(offset)
        arguments.check_assigned((partition,), self._engine.delivery.partitions, _unassigned)
        self._engine.seek(partition, position)

    @exclusive
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first available offset of these (default: all) partitions, lazily."""
        arguments.check_each_given("seek_to_beginning", partitions)
        chosen = self._assigned_or_all(partitions)
        self._engine.reset(chosen, ResetStrategy.EARLIEST)

    @exclusive
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go to the end of these (default: all) partitions, lazily."""
        arguments.check_each_given("seek_to_end", partitions)
        chosen = self._assigned_or_all(partitions)
        self._engine.reset(chosen, ResetStrategy.LATEST)

    def _assigned_or_all(self, partitions: tuple[TopicPartition, ...]) -> list[TopicPartition]:
        assigned = self._engine.delivery.partitions
        return arguments.assigned_or_all(partitions, assigned, _unassigned, nothing=ValueError)

    @exclusive
    def pause(self, *partitions: TopicPartition) -> None:
        """Give out nothing of these until `resume`. KeyError: not assigned."""
        self._set_paused(partitions, paused=True)

    @exclusive
    def resume(self, *partitions: TopicPartition) -> None:
        """Give out records of these again. KeyError: not assigned."""
        self._set_paused(partitions, paused=False)

    def _set_paused(self, partitions: tuple[TopicPartition, ...], *, paused: bool) -> None:
        arguments.check_each_given("pause" if paused else "resume", partitions)
        arguments.check_assigned(partitions, self._engine.delivery.partitions, KeyError)
        self._engine.pause(partitions, paused=paused)

    def paused(self) -> set[TopicPartition]:
        """The paused partitions; none after `close`."""
        self._guard.check_process()
        return {
            partition
            for partition, state in self._engine.delivery.partitions.items()
            if state.paused
        }

    @looking
    def highwater(self, partition: TopicPartition) -> int | None:
        """The offset after the last record, as the latest poll knew it; None before the first."""
        arguments.check_partition(partition)
        state = self._engine.delivery.partitions.get(partition)
        if state is None:
            raise arguments.not_assigned(partition)
        return state.high_watermark

    # -- commits

    @habits.explained
    @exclusive
    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets (default: all consumed positions) and wait for it.

        Retries through coordinator changes until `timeout_ms` (default `request_timeout_ms`).

        Raises:
            IllegalStateError: no `group_id`.
            CommitFailedError: the group has given the partitions to somebody else.
            RebalanceInProgressError: the group rebalances; poll, then commit again.
            KafkaTimeoutError: not done in time.
        """
        named = self._offsets_to_commit(offsets)
        self._run(self._engine.commit(named, self._deadline("commit", timeout_ms)))

    @exclusive
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: OnCommit | None = None,
    ) -> Future:
        """Commit without waiting; returns kafka-python's `Future`.

        `callback(offsets, response_or_error)` (response None) runs in the next poll, commit or
        close, on the application thread. The future ends by itself, on the background thread, where
        functions given to its `add_callback` run: they may not call the consumer.
        """
        arguments.check_callback(callback)
        named = self._offsets_to_commit(offsets)
        future = Future()
        trace = self._core.trace  # not `self`: a dropped consumer would live until the answer

        def settle(_value: Any, error: BaseException | None) -> None:
            try:
                if error is None:
                    future.success(None)
                else:
                    future.failure(error)
            except BaseException as failure:  # SystemExit, too: it would crash an actor
                trace.warning("future.failed", because=failure)

        self._run(self._engine.commit_async(named, settle, callback))
        return future

    def _offsets_to_commit(self, offsets: Any) -> dict[TopicPartition, OffsetAndMetadata] | None:
        in_process = self._processor is not None
        return arguments.offsets_to_commit(offsets, self._settings, in_process=in_process)

    @overload
    def committed(
        self,
        partition: TopicPartition,
        metadata: Literal[False] = False,
        timeout_ms: float | None = None,
    ) -> int | None: ...
    @overload
    def committed(
        self,
        partition: TopicPartition,
        metadata: Literal[True],
        timeout_ms: float | None = None,
    ) -> OffsetAndMetadata | None: ...
    @overload
    def committed(
        self,
        partition: Iterable[TopicPartition],
        metadata: Literal[False] = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, int | None]: ...
    @overload
    def committed(
        self,
        partition: Iterable[TopicPartition],
        metadata: Literal[True],
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...
    @overload
    def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> (
        int
        | OffsetAndMetadata
        | dict[TopicPartition, int | None]
        | dict[TopicPartition, OffsetAndMetadata | None]
        | None
    ): ...
    @habits.explained
    @exclusive
    def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """The group's committed offset, or None. With `metadata` the whole OffsetAndMetadata.

        For several partitions it returns a dict, by one request (kafka-python takes only one
        partition).
        Raises KafkaTimeoutError after `timeout_ms` (default `default_api_timeout_ms`).
        """
        arguments.check_group(self._settings)
        if isinstance(partition, tuple | str) or not isinstance(partition, Iterable):
            one = cast("TopicPartition", partition)
            return self._look_up_committed([one], metadata, timeout_ms)[one]
        return self._look_up_committed(partition, metadata, timeout_ms)

    def _look_up_committed(
        self, partitions: Iterable[TopicPartition], metadata: bool, timeout_ms: float | None
    ) -> dict[TopicPartition, Any]:
        wanted = arguments.checked_partitions(partitions)
        deadline = self._deadline("committed", timeout_ms)
        found = self._run(self._engine.questions.committed(wanted, deadline))
        if metadata:
            return found
        return {partition: None if at is None else at.offset for partition, at in found.items()}

    group_metadata = looking(Shown.group_metadata)

    # -- the cluster

    @exclusive
    def topics(self) -> set[str]:
        """The names of all topics this user may describe. Always asks a broker.

        Kafka's own topics (`__consumer_offsets`, ...) are left out, unless
        `exclude_internal_topics` is False.
        """
        return self._run(self._engine.questions.names_of_topics(self._deadline("topics")))

    @looking
    def partitions_for_topic(self, topic: str) -> set[int]:
        """The partition ids of a topic; empty if it does not exist.

        If the topic is not being read, a broker is asked; only one thread at a time may do that.
        """
        topic = arguments.topic_name(topic)
        known = self._core.port.cluster.partitions_for_topic(topic)
        if known is not None:
            return known
        found = self.look_up_topics({topic}).get(topic)
        return set(found.partitions) if found is not None else set()

    @exclusive
    def look_up_topics(self, topics: Iterable[str] | None = None) -> Mapping[str, TopicInfo]:
        """Topic ids, partitions and leaders of these topics, or of all topics that this user may
        describe. Always asks a broker (Metadata); topics that do not exist are left out.

        Not in kafka-python. A topic that was deleted and created again has another `topic_id`
        (KIP-516).
        """
        named = arguments.checked_topics(topics)
        return self._run(self._engine.questions.topics(named, self._deadline("topics")))

    @looking
    def known_topics(self) -> Mapping[str, TopicInfo]:
        """Topic ids, partitions and leaders as in the last Metadata that the consumer has: of the
        topics that it reads, and of those that its pattern matches. No broker is asked. Not in
        kafka-python."""
        return MappingProxyType(self._core.port.cluster.topics)

    @habits.explained
    @exclusive
    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first available offset of each partition (assigned or not)."""
        deadline = self._deadline("beginning_offsets", timeout_ms)
        return self._edges(partitions, ResetStrategy.EARLIEST, deadline)

    @habits.explained
    @exclusive
    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record (the last stable one, with read_committed)."""
        deadline = self._deadline("end_offsets", timeout_ms)
        return self._edges(partitions, ResetStrategy.LATEST, deadline)

    def _edges(
        self, partitions: Iterable[TopicPartition], strategy: ResetStrategy, deadline: float
    ) -> dict[TopicPartition, int]:
        wanted = arguments.checked_partitions(partitions)
        return self._run(self._engine.questions.edges(wanted, strategy, deadline))

    @habits.explained
    @exclusive
    def offsets_for_times(
        self, timestamps: dict[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after each timestamp (ms), None where there is none.

        Raises ValueError for a negative time, KafkaTimeoutError for a partition that does not
        answer in time (default `request_timeout_ms`).
        """
        wanted = arguments.checked_timestamps(timestamps)
        deadline = self._deadline("offsets_for_times", timeout_ms)
        return self._run(self._engine.questions.offsets(wanted, deadline))

    # -- watching

    def _broker_version(self) -> tuple[int, ...] | None:
        """The brokers' version, as kafka-python infers it from their API versions; None before the
        first connection."""
        versions = (actor.broker_version for actor in self._actors())
        return next(filter(None, versions), None)

    @exclusive
    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until a broker has described the cluster, for ever if no `timeout_ms` is given. The
        constructor has done so unless it was told not to wait. `refresh`: ask a broker in any case.
        Then `config["api_version"]` is the version of the brokers, as kafka-python infers it.

        Raises:
            BootstrapError: no broker has answered in time.
            KafkaTimeoutError: a broker answers, but has not described the cluster in time.
            AuthenticationError: a broker refuses the login, or a certificate is refused.
        """
        deadline = self._deadline("bootstrap", timeout_ms)
        self._run(self._engine.questions.reach_cluster(deadline, refresh=refresh))
        if self.config["api_version"] is None:
            self.config["api_version"] = self._broker_version()

    # -- the end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(autocommit=kind is None)

    @habits.explained
    def close(
        self,
        autocommit: bool = True,
        timeout_ms: float | None = None,
        *,
        group_membership_operation: str = "default",
    ) -> None:
        """Commit (with auto-commit on), run the listener, leave the group, end the thread.

        `group_membership_operation` (KIP-1092): "leave_group" leaves for good, "remain_in_group"
        keeps the member's partitions for it until its session ends, "default" leaves unless the
        member is static (`group_instance_id`).

        Ends within `timeout_ms` (default `request_timeout_ms`) plus the listener's own time, also
        when all brokers are down. Closing twice, or in a forked child, does nothing. After
        ActorCrashedError the listener is told that the partitions are lost.

        Any thread may call it: calls of other threads end at once (`poll` returns {}, an iteration
        ends, others raise ConsumerClosedError; a listener, and a commit for a moment, are waited
        for), and then the consumer is closed. If a signal handler calls it in the middle of another
        call, or a callback calls it, that other call stops waiting and closes the consumer as it
        ends. With auto-commit, what was given to another thread last is committed only if that
        thread has come back for more, or has ended. If
        `close` itself is interrupted (Ctrl-C), it ends the thread all the same, and may be called
        again.

        Raises:
            ValueError, TypeError: there is no such operation, or timeout.
            UserCallbackError: the listener raised; the consumer is closed all the same.
            KafkaTimeoutError: the call of another thread has not ended in time (it is in a
                listener, say); the consumer closes when that call ends.
            BackgroundThreadError: the background thread had ended before, and no other call has
                said so: nothing was committed, and the group was not left. So it is at the very end
                of a program (`__del__` of an object that a module keeps).
        """
        Operation.named(group_membership_operation)
        if self._ending.over or self._guard.forked:
            return
        timeout = arguments.timeout("close", self._settings, timeout_ms)
        asked = Close(autocommit, timeout, group_membership_operation)
        processor = self._processor
        if processor is None:
            self._close(asked)
        elif not processor.close(asked):
            self._close(self._wait_for_process(processor, asked))

    def _wait_for_process(self, processor: Processor, asked: Close) -> Close:
        """Wait until the `process` of another thread has ended, which closes the consumer."""
        clock, bell = self._core.clock, self._make_bell()
        began = clock()
        until = began + asked.timeout
        patience = Patience(until, began)
        while self._processor is processor:
            now = clock()
            if patience.is_over(now):
                raise KafkaTimeoutError(
                    f"process() has not ended within {asked.timeout:g} s: it waits for its handlers"
                    " (drain_timeout_ms). It closes the consumer as it ends"
                )
            bell.wait(patience.until(now, now + LOOK_EVERY) - now)
        return asked._replace(timeout=max(0.0, until - clock()))

    def _close_now(self, asked: Close) -> None:
        # (Not a subclass's method: that has run, and has asked for this.)
        KafkaConsumer.close(
            self,
            asked.autocommit,
            asked.timeout * 1000,
            group_membership_operation=asked.operation,
        )

    @closing
    def _close(self, asked: Close) -> None:
        self._begin_close()
        timeout = asked.timeout
        if self._dispatcher.is_taken_away:
            timeout = min(timeout, LATE_CLOSE)
            late = LateBell(self._bell, self._dispatcher.turn_until_rung)
            self._driver = Blocking(late, self._core.clock)
        deadline, error = self._core.clock() + timeout, None
        try:
            before = KafkaConsumer.subscription(self)
            self._last_subscription = before or self._last_subscription
            operation = Operation.named(asked.operation)
            leaving = self._ending.leave(deadline, commit=asked.autocommit, operation=operation)
            error = self._driver.run(leaving, self._wait_open)
        finally:
            why = "close() was called"
            for step in self._ending.stop(deadline, self._close_reporters, why):
                step()
        if (first := error or self._ending.failed or self._gone) is not None:
            raise self._engine.call.own(first)

    # -- below the methods

    def _patience(self, method: str, given: Mapping[str, Any]) -> float:
        if method == "_next":
            return arguments.seconds(self.config["consumer_timeout_ms"])
        if "timeout" in given:
            return float(given["timeout"])
        timeout = arguments.timeout(method, self._settings, given.get("timeout_ms"))
        return timeout + ANSWER_GRACE

    def _run(self, waiting: Waiting[R]) -> R:
        """Run what may wait to its end, on this thread."""
        self._engine.call.touch()
        return self._driver.run(waiting, self._wait_open)

    def _deadline(self, method: str, timeout_ms: float | None = None) -> float:
        return self._core.clock() + arguments.timeout(method, self._settings, timeout_ms)

    def __reduce__(self) -> Any:
        raise TypeError("a KafkaConsumer cannot be copied or pickled: make one where it is used")

    def __repr__(self) -> str:
        if "_settings" not in vars(self):  # a test's subclass, whose __init__ did not call ours
            return f"<{type(self).__name__} without a KafkaConsumer: __init__ was not called>"
        topics = ", ".join(sorted(self._engine.subscription.topics))
        return (
            f"<KafkaConsumer {self._settings.client_id} group={self._settings.group_id} [{topics}]>"
        )


#: As it is when nobody has replaced it.
_NEXT: Final = KafkaConsumer.__next__
_POLLS: Final = KafkaConsumer.poll, KafkaConsumer._poll_once

#: What has wrapped kafka-python's class, and ours since.
AGENTS: Final = Agents(KafkaConsumer)


def _unassigned(partition: TopicPartition) -> Exception:
    return ValueError(f"Unassigned partition: {partition}")
