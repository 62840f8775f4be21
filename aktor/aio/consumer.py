"""`KafkaConsumer` for asyncio: aiokafka's consumer, method by method, over the core.

It checks arguments and drives: what is done in which order is in `aktor.consumer.core`, for this
class and the synchronous one. Differences from aiokafka: `docs/coming-from-aiokafka.md`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import re
import time
import warnings
import weakref
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, Unpack, cast, overload

from kafka.errors import KafkaTimeoutError, RebalanceInProgressError

from aktor.aio import tasks
from aktor.aio.attendance import Attendance
from aktor.aio.driver import Driver, LoopBell
from aktor.aio.guarded import Guarded, running_loop
from aktor.aio.settings import translated
from aktor.aio.tokens import LoopTokens
from aktor.aio.turns import TaskGuard, Turn
from aktor.consumer import arguments, deserializers
from aktor.consumer.assembly import Blocking, Ending, assemble
from aktor.consumer.columns.extra import import_arrow
from aktor.consumer.configuration import configuration
from aktor.consumer.core.batch import iterator
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.guard import LOOK_EVERY
from aktor.consumer.core.iteration import Calls
from aktor.consumer.core.subscription import SubscriptionPattern
from aktor.consumer.core.timeout import patient_timeout
from aktor.consumer.core.waiting import Waiting
from aktor.consumer.kind import kind_of
from aktor.consumer.shown import Shown
from aktor.consumer.system import HOST
from aktor.errors import ConsumerStoppedError
from aktor.events.lifecycle import ActorStatus
from aktor.events.metadata import TopicInfo
from aktor.events.positions import ResetStrategy
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

    from aktor.aio.processor import Processor
    from aktor.consumer.columns import arrow_range
    from aktor.consumer.configuration.keywords import Config, ConsumerSettings
    from aktor.consumer.configuration.shapes import Deserializes
    from aktor.processing import Failure, Processed, Retries

__all__ = ["AIOKafkaConsumer", "InProcess", "KafkaConsumer"]

T = TypeVar("T")
Key = TypeVar("Key")
Value = TypeVar("Value")

#: What `commit` takes as an offset, as aiokafka does.
Committable = int | tuple[int, str] | OffsetAndMetadata

#: How long `start` waits for the first assignment of the group, in seconds; without a group, for
#: metadata of the topics.
ASSIGNMENT_WAIT: Final = 10.0
METADATA_WAIT: Final = 1.0

#: For how many seconds records are given out before other tasks of the event loop have a turn. No
#: call waits as long as records are here, and the thread fetches faster than most programs read:
#: without this a program that catches up would keep the loop for itself. An iteration looks at the
#: end of each batch; amid a batch only after `AMID_A_BATCH`, since what is left is put back then.
TURN_EVERY: Final = 0.001
AMID_A_BATCH: Final = 0.002


class InProcess:
    """A consumer, while its `process` runs."""

    def __init__(self, consumer: KafkaConsumer[Any, Any]) -> None:
        self._consumer = consumer

    @property
    def config(self) -> Config:
        return self._consumer.config

    async def settle(self) -> None:
        """Wait for the end of a poll that was cancelled and goes on alone: the positions may be
        past records that it will take back, and the first commit would be of these."""

        def nothing() -> Waiting[None]:
            yield from ()

        await self._consumer._call("process (poll)", nothing)

    async def poll(self, timeout: float, limit: int) -> dict[TopicPartition, list[Any]]:
        return await self._consumer._getmany((), timeout, limit, "process (poll)")

    def pause(self, *partitions: TopicPartition) -> None:
        with self._consumer._at_once("process (pause)"):
            self._consumer._engine.pause(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        with self._consumer._at_once("process (resume)"):
            self._consumer._engine.pause(partitions, paused=False)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        with self._consumer._at_once("process (seek)"):
            self._consumer._engine.seek(partition, arguments.position(offset))

    async def commit(
        self, choose: Callable[[], Mapping[TopicPartition, OffsetAndMetadata]], timeout: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The last commit of partitions that are given up: `wakeup` does not end it. Returns what
        `choose` has chosen.

        It chooses when it is this call's turn. Before, a poll that was cancelled may still go on
        alone: the positions are past records that it will take back.
        """
        consumer = self._consumer
        call, deadline = consumer._engine.call, consumer._core.clock() + timeout

        def steadily() -> Waiting[Mapping[TopicPartition, OffsetAndMetadata]]:
            if offsets := choose():
                with call.steady():
                    yield from consumer._engine.commit(offsets, deadline)
            return offsets

        return await consumer._call("process (commit)", steadily)

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Callable[..., None]
    ) -> None:
        """Commit without waiting; `callback(offsets, error)` runs in a later call.

        It is sent at once. A call that waited for its turn might find that a rebalance came first,
        and set back the offsets of partitions that are another member's by then.

        After a restart of actors the listener may have to hear what is lost, and a coroutine needs
        a call that waits: nothing is committed then, and the next poll tells it.
        """
        consumer = self._consumer
        if consumer._core.events.restarts():
            callback(offsets, RebalanceInProgressError())
            return
        with consumer._at_once("process (commit)"):
            committing = consumer._engine.commit_async(offsets, _no_future, callback)
            consumer._driver.run_at_once(committing)


async def _within(
    timeout: float | None, method: Callable[..., Awaitable[T]], *arguments: object
) -> T:
    """The result of this method, which is to come within so many seconds, if they are given."""
    try:
        async with asyncio.timeout(timeout):
            return await method(*arguments)
    except TimeoutError:
        raise KafkaTimeoutError(
            f"{method.__name__}() had no answer of the brokers within {timeout:g} s"
        ) from None


def _no_future(_value: object, _error: BaseException | None) -> None:
    """Nobody was given a future of it."""


class KafkaConsumer(Guarded, Shown, Generic[K, V]):
    """Consume records in an event loop.

    `topics` are subscribed to at once, if given; `configs` are aiokafka's, and all others of
    `aktor.KafkaConsumer` (`docs/configuration.md`). The constructor needs no event loop. `start`
    starts one background thread, which keeps the membership: a loop that is blocked loses nothing.

    Tasks may share a consumer: a call that waits for the cluster lets others in. A call that is
    cancelled loses no record and repeats none.

    Raises:
        ConfigurationError: an unknown setting, a value out of range, or settings that contradict
            each other.
    """

    #: The settings in use; those that were not given by their defaults. Passwords are masked.
    config: Config
    _engine: Engine
    _guard: TaskGuard
    #: How `process` calls it; one that is observed has another.
    _in_process = InProcess
    #: `metrics` does not hold up the event loop for longer, in seconds.
    _look_wait = 0.1

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
    def __init__(self, *topics: str, **configs: Any) -> None:
        self._check_names()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_task: asyncio.Task[None] | None = None
        #: The last `unsubscribe`.
        self._unsubscribing: asyncio.Task[None] | None = None
        #: The `process` under way.
        self._processor: Processor | None = None
        config, settings = configuration.parse(translated(configs))
        self.config = cast("Config", config)
        self._settings = settings
        #: The provider of tokens, if its `token` is a coroutine function.
        self._tokens = LoopTokens.of(config["sasl_oauth_token_provider"])
        if self._tokens is not None:
            settings.connection["sasl_oauth_token_provider"] = self._tokens
        with warnings.catch_warnings():  # here a function of the bytes is the usual deserializer
            warnings.simplefilter("ignore", DeprecationWarning)
            key = deserializers.wrap(config["key_deserializer"], "key_deserializer")
            value = deserializers.wrap(config["value_deserializer"], "value_deserializer")
        self._bell = LoopBell()
        self._guard = TaskGuard()
        #: For so long a call waits for its turn, in seconds, unless it has a time of its own.
        self._patience = config["max_poll_interval_ms"] / 1000
        kind = kind_of(settings.group_protocol)
        self._prepare_metrics(self.config, kind.metrics)
        host = HOST.get().for_consumer(self)
        made = assemble(kind, self.config, settings, host, self._bell, key=key, value=value)
        self._system = made
        self._host, self._dispatcher, self._engine = made
        self._core = self._engine.core
        to_close = [config["value_deserializer"], config["key_deserializer"]]
        self._ending = Ending(made, self._guard, to_close)
        self._driver = Driver(self._bell, self._guard, self._engine, self._dispatcher.check)
        #: When other tasks of the event loop must have a turn before more records are given out.
        self._others_at = -math.inf
        self._engine.iteration.look_every = AMID_A_BATCH
        self._attendance = Attendance(self._engine, self._driver, self._guard, self._patience)
        self._begin_to_show()
        self._records = self._iterate()
        if topics:
            try:
                self.subscribe(topics)
            except BaseException:
                self._dispatcher.end()  # no thread runs yet that would end it
                self._close_reporters()
                raise
        self._dropped = _when_dropped(self, self._dispatcher.end)

    # -- the beginning and the end

    async def start(self) -> None:
        """Start the background thread, and wait until a broker has described the cluster, for
        `bootstrap_timeout_ms` at most (0: do not wait); if there is a subscription, also until
        partitions are assigned, for ten seconds at most: the listener is called. The consumer
        belongs to this event loop from now on. A second call does nothing.

        Raises:
            BootstrapError: no broker has answered in time. It names each server and why it failed.
            AuthenticationError: a broker refuses the login, or a certificate is refused (at once).
            ConsumerStoppedError: it was stopped; make a new one.
        """
        loop = running_loop()
        if self._guard.ending:
            raise ConsumerStoppedError
        if self._loop is not None:
            self._check_loop()
            return
        self._loop = loop
        self._guard.start()
        self._bell.belong_to(loop)
        if self._tokens is not None:
            self._tokens.loop = loop
        self._dropped.detach()
        self._dropped = _when_dropped(self, self._dispatcher.stop, 0.0)
        self._system.start()
        timeout = arguments.seconds(self.config["bootstrap_timeout_ms"])
        if not timeout:
            return
        try:
            await self._call(
                "start", lambda: self._engine.questions.reach_cluster(self._core.clock() + timeout)
            )
            if self._engine.subscription.is_subscribed:
                in_group = self._engine.subscription.in_group
                await self._attendance.begin(ASSIGNMENT_WAIT if in_group else METADATA_WAIT)
        except GeneratorExit:  # the event loop was closed: nothing can be awaited
            raise
        except BaseException:
            self._guard.end()
            self._engine.call.end_waits()
            if self._stop_task is None:
                self._stop_task = tasks.begin(self._give_up())
                await asyncio.shield(self._stop_task)  # also if this is cancelled once more
            raise

    async def stop(self, timeout_ms: float | None = None, *, autocommit: bool = True) -> None:
        """Commit (with auto-commit on, unless `autocommit` is False), run the listener, leave the
        group, end the thread.

        Calls of other tasks end by ConsumerStoppedError, an iteration ends. It ends within
        `timeout_ms` (default `request_timeout_ms`) plus the listener's own time, also when all
        brokers are down. If it is cancelled, the consumer stops all the same. Stopping twice does
        nothing. A listener may call it: then the consumer stops when the listener has returned.

        Raises UserCallbackError if the listener raised; the consumer is stopped all the same.
        """
        if self._guard.forked:
            return
        if self._loop is None:
            if not self._guard.closed:
                self._guard.close()
                self._dropped.detach()
                self._dispatcher.end()
                self._core.port.close()
                self._close_reporters()
            return
        self._check_loop()
        if self._stop_task is None:
            timeout = arguments.timeout("close", self._settings, timeout_ms)
            self._stop_task = tasks.begin(self._stop(timeout, autocommit))
        if self._guard.in_callback_of is None and not self._is_in_handler():
            await asyncio.shield(self._stop_task)

    async def _give_up(self) -> None:
        await self._end(self._ending.give_up(self._close_reporters, "start() raises an error"))

    async def _end(self, steps: Blocking) -> None:
        """Go these steps; where one may block, on a thread of its own."""
        for step in steps:
            await asyncio.get_running_loop().run_in_executor(None, step)

    def _is_in_handler(self) -> bool:
        if self._processor is None:
            return False
        from aktor.aio.processor import HANDLING

        return HANDLING.get() is self._processor

    async def _stop(self, timeout: float, autocommit: bool) -> None:
        guard, ending = self._guard, self._ending
        if self._processor is not None:
            self._processor.stop("the consumer was stopped")
            await self._processor.over.wait()
        until = guard.end_calls(self._engine, timeout)
        stopping = ending.stop(until, self._close_reporters, "stop() was called")
        turn = Turn("stop", asyncio.current_task())
        try:
            await self._wait_for_others(turn, until)
            try:
                self._driver.begin(closing=True)
                # Others may have taken all of the time, or the process has stood still.
                leaving = ending.leave(self._core.clock() + timeout, commit=autocommit)
                error = await self._driver.run(turn, leaving)
            finally:
                guard.leave(turn)
        except GeneratorExit:  # the event loop was closed: nothing can be awaited
            raise
        except BaseException:
            await self._end(stopping)
            raise
        await self._end(stopping)
        if (first := error or ending.failed) is not None:
            raise first

    async def _wait_for_others(self, turn: Turn, until: float) -> None:
        """Enter when the calls of other tasks have ended."""
        guard = self._guard
        while True:
            try:
                async with patient_timeout(max(0.0, until - self._core.clock())):
                    await guard.wait_for_turn(turn)
            except TimeoutError:
                holder = guard.holder.get(None)
                where = f"{holder.name}() of {holder.where}" if holder is not None else "a call"
                raise KafkaTimeoutError(
                    f"stop() has waited in vain for the end of {where}: it is in a listener,"
                    " perhaps. Nothing was committed, and the group was not left."
                ) from None
            if not guard.away or self._core.clock() >= until:
                return
            guard.leave(turn)
            await asyncio.sleep(0)
            await self._bell.wait_for_ring(self._bell.rings, LOOK_EVERY)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _: object) -> None:
        """Stop. After an error there is no commit: the record that was in hand was not finished. If
        it was a call for records that was cancelled, none was in hand."""
        if isinstance(error, GeneratorExit):  # the event loop was closed: nothing can be awaited
            return
        finished = error is None or error is self._cancelled_reading()
        await self.stop(autocommit=finished)

    def __del__(self) -> None:
        guard = vars(self).get("_guard")
        if guard is None or guard.closed or self._loop is None or guard.forked:
            return
        warnings.warn(
            f"{self!r} was not stopped: await stop(), or use `async with`",
            ResourceWarning,
            stacklevel=2,
            source=self,
        )

    # -- records

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Records as soon as there are any, of these partitions, or of all; {} when `timeout_ms`
        has passed. At most `max_records` in all (default `max_poll_records`).

        Raises:
            ConsumerStoppedError: the consumer was stopped, or is while this waits.
            IllegalStateError: a partition is not assigned; or called from a listener.
            What `aktor.KafkaConsumer.poll` raises: OffsetOutOfRangeError, CorruptBatchError, ...
        """
        timeout = arguments.seconds(timeout_ms)
        limit = (
            self.config["max_poll_records"]
            if max_records is None
            else arguments.record_limit(max_records)
        )
        return await self._getmany(partitions, timeout, limit)

    async def _getmany(
        self,
        partitions: tuple[TopicPartition, ...],
        timeout: float,
        limit: int,
        name: str = "getmany",
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        engine, guard = self._engine, self._guard
        only = self._checked(partitions)
        if self._core.clock() >= self._others_at:
            await self._let_other_tasks_run(timeout)
        turn = self._turn(name, timeout=timeout)
        try:
            await self._enter(turn)
            self._driver.begin()
            found = engine.poll_at_once(timeout, limit, only=only)
            records = found if isinstance(found, dict) else await self._driver.run(turn, found)
        except BaseException as error:
            if turn.ran_out:  # `timeout` has passed while another call was inside
                return {}
            raise self._error_of(error, turn) from error.__cause__
        finally:
            self._driver.leave(turn)
        if not records and guard.ending:
            raise ConsumerStoppedError
        return records

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[K, V]:
        """The next record, of these partitions, or of all. It waits until there is one.

        Raises what `getmany` raises.
        """
        if partitions:
            while True:
                for some in (await self._getmany(partitions, arguments.FOREVER, 1)).values():
                    return some[0]
        if self._loop is not None:
            self._check_loop()
        record: ConsumerRecord[K, V] | None = self._next_at_hand()
        return await self._next_record("getone") if record is None else record

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        self._check_usable()
        if self._loop is not None:  # here, and not for each record
            self._check_loop()
        # A `getone` of a subclass, or one that was put in place of ours, is called for each record,
        # as by aiokafka's iteration.
        kind = type(self)
        replaced = kind.getone is not _GETONE or "getone" in vars(self)
        return _ByGetone(self) if replaced and kind.__anext__ is _ANEXT else self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """The next record, as `getone`; the iteration ends when the consumer is stopped."""
        record: ConsumerRecord[K, V] | None = next(self._records)
        if record is not None:
            return record
        try:
            return await self._next_record("iteration")
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    def _iterate(self) -> Iterator[Any]:
        """Gives the next record that is at hand, or None, without a look at all else each time."""
        engine = self._engine
        at_hand = weakref.WeakMethod(self._next_at_hand)

        def next_at_hand() -> Any:
            method = at_hand()
            return None if method is None else method()

        if iterator is None:
            return Calls(next_at_hand)
        clock = self._core.clock
        return iterator(
            next_at_hand,
            engine.iteration,
            engine.call.attention,
            self._core.port.events,
            None if clock is time.monotonic else clock,
        )

    def _next_at_hand(self) -> Any:
        """The next record of the batch that is being handed out; None: ask `_next_record`."""
        guard = self._guard
        if guard.broken or guard.ending or guard.holder:
            return None
        return self._engine.iteration.next()

    async def _next_record(self, name: str) -> ConsumerRecord[K, V]:
        if self._core.clock() >= self._others_at:
            await self._let_other_tasks_run(math.inf)
        while True:
            record: ConsumerRecord[K, V] | None = await self._call(
                name,
                lambda: self._engine.next_record(
                    self._core.clock() + arguments.FOREVER, self.config["max_poll_records"]
                ),
            )
            if record is not None:
                return record
            if self._guard.ending:
                raise ConsumerStoppedError

    async def _let_other_tasks_run(self, timeout: float) -> None:
        """Let the event loop go round once. Nothing is taken yet: this may be cancelled."""
        if timeout and not self._engine.has_records:  # the call is going to wait
            return
        await asyncio.sleep(0)
        self._others_at = self._core.clock() + TURN_EVERY

    async def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int = 10_000,
        max_bytes: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pyarrow.RecordBatch:
        """As `getmany`, in columns: see `aktor.KafkaConsumer.poll_arrow`."""
        arrow = import_arrow()
        limit, size = arguments.record_limit(max_records), arguments.byte_limit(max_bytes)
        timeout = arguments.seconds(timeout_ms)
        return await self._poll_arrow(timeout, arrow.checked_columns(columns), limit, size)

    async def _poll_arrow(
        self,
        timeout: float,
        names: Sequence[str],
        limit: int = 10_000,
        max_bytes: int | None = None,
        *,
        follows_policy: bool = True,
    ) -> pyarrow.RecordBatch:
        wanted = self._engine.new_columns(limit, max_bytes, names)
        make = import_arrow().maker(self._engine, names)
        if self._core.clock() >= self._others_at:
            await self._let_other_tasks_run(timeout)
        batch = await self._call(
            "poll_arrow",
            lambda: self._engine.poll_columns(
                self._core.clock() + timeout,
                wanted,
                make,
                follows_policy=follows_policy,
            ),
        )
        if not batch.num_rows and self._guard.ending:
            raise ConsumerStoppedError
        return batch

    async def to_table(
        self,
        start: arrow_range.Bound = None,
        end: arrow_range.Bound = None,
        *,
        columns: Sequence[str] | None = None,
        timeout_ms: float | None = None,
        progress: Callable[[int, int], Any] | None = None,
        skip_deleted: bool = False,
    ) -> pyarrow.Table:
        """A bounded range of the assigned partitions, as a table: see
        `aktor.KafkaConsumer.to_table`. If it is cancelled, the positions are where the ranges
        begin."""
        from aktor.consumer.columns import arrow_range

        limit = None if timeout_ms is None else arguments.seconds(timeout_ms)
        reading = arrow_range.Reading.of(
            self._engine,
            functools.partial(self._poll_arrow, follows_policy=False),
            import_arrow().checked_columns(columns),
            limit=limit,
            progress=progress,
            skip_deleted=skip_deleted,
            # What is asked before and after the polls has its usual time, unless one is given.
            ask=functools.partial(_within, limit),
        )
        return await arrow_range.awaited(arrow_range.read(self, start, end, reading))

    async def arrow_batches(
        self,
        max_records: int = 10_000,
        max_bytes: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> AsyncIterator[pyarrow.RecordBatch]:
        """Batches as `poll_arrow` gives them, until the consumer is stopped."""
        with contextlib.suppress(ConsumerStoppedError):
            while True:
                batch = await self.poll_arrow(
                    arguments.FOREVER * 1000, max_records, max_bytes, columns
                )
                if batch.num_rows:
                    yield batch

    async def process(
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

        As `aktor.KafkaConsumer.process`, with the same arguments. A handler that is a coroutine
        function runs as a task of this event loop; a function runs in a thread (or `workers`:
        "processes"). `on_error` may be a coroutine function, too.

        It returns when the consumer is stopped, which a handler may do as well, after SIGTERM
        (unless the application handles that itself), and when nothing has come for
        `consumer_timeout_ms`. If it is cancelled, it waits for the running handlers, commits what
        is finished, and then ends; cancelled once more, it cancels the handlers. Handlers and other
        tasks may look (`position`, `committed`, ...) and stop the consumer meanwhile.

        Returns:
            `Processed`: how many records were finished, skipped, dead-lettered, tried again, and
            left unfinished.

        Raises:
            ConfigurationError: `enable_auto_commit` is on: it would commit what is unfinished.
            HandlerError: a handler failed and on_error is "raise", or on_error itself failed.
            ValueError, TypeError: a bad argument.
            IllegalStateError: called in a listener or beside another `process`.
            What `getmany` raises, and WakeupError.
        """
        from aktor.aio.processor import Processor
        from aktor.processing.plan import plan_for
        from aktor.processing.surroundings import Surroundings

        self._check_usable()
        self._check_loop()
        self._check_beside_process("process")
        if self._guard.in_callback_of is not None:
            raise self._guard.refusal("process")
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
            awaits=True,
        )
        caller = self._in_process(self)
        around = Surroundings(
            consumer=caller,
            engine=self._engine,
            clock=self._core.clock,
            host=self._host,
            trace=self._core.trace,
        )
        self._processor = processor = Processor(around, chosen, caller, self._bell)
        try:
            return await processor.run()
        finally:
            self._processor = None

    def wakeup(self) -> None:
        """End a call that waits for records by `WakeupError`, or the next one. From any thread."""
        self._engine.call.wakeup()

    # -- subscription

    def subscribe(
        self,
        topics: Sequence[str] | Set[str] | None = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: Any = None,
    ) -> None:
        """Subscribe to these topics, or to those of a pattern, replacing an earlier subscription.

        The listener's methods are functions or coroutine functions; these run in the consumer's
        event loop, inside `getmany`, `getone` and iterations, and may call the consumer.

        Raises:
            IllegalStateError: after `assign`, or called from a listener.
            TypeError, ValueError: as `aktor.KafkaConsumer.subscribe`.
        """
        if isinstance(topics, Set):
            topics = [*topics]
        strange = None if _hears(listener) else listener
        named, matching, regex = arguments.subscription(topics, pattern, strange, self._settings)

        def subscribe() -> None:
            self._driver.run_at_once(
                self._engine.subscribe(named, listener, pattern=matching, regex=regex)
            )

        self._after_unsubscribe("subscribe", subscribe)

    def unsubscribe(self) -> Awaitable[None]:
        """Leave the group and own nothing; with auto-commit the positions are committed first. It
        goes on in the event loop, also if an await of what is returned is cancelled: await that if
        you need to know that it is done. `subscribe` and `assign` that are called before that take
        effect after it."""
        deadline = self._deadline("unsubscribe")
        engine = self._engine
        unsubscribe = engine.unsubscribe
        if engine.leaving.is_unfinished:
            unsubscribe = engine.resume_unsubscribe
        self._unsubscribing = self._start("unsubscribe", lambda: unsubscribe(deadline))
        if not self._guard.holder:  # what is at hand is not handed out before the task runs
            self._engine.call.attention.call()
            self._engine.iteration.stow()
        return asyncio.shield(self._unsubscribing)

    def _after_unsubscribe(self, name: str, act: Callable[[], None]) -> None:
        """Do this now, or after the `unsubscribe` that is under way. One that was interrupted goes
        on first: its listener may be a coroutine."""
        is_unfinished = self._engine.leaving.is_unfinished
        if is_unfinished and not self._is_unsubscribing and self._guard.in_callback_of is None:
            self.unsubscribe()
        if self._is_unsubscribing:
            self._engine.following.append(act)
            return
        with self._at_once(name):
            act()

    @property
    def _is_unsubscribing(self) -> bool:
        return self._unsubscribing is not None and not self._unsubscribing.done()

    def subscription(self) -> frozenset[str]:
        """The subscribed topics, or those that match the pattern; or the topics of partitions that
        are assigned by hand."""
        subscribed = self._engine.subscribed_topics
        if subscribed is None:
            return frozenset(partition.topic for partition in self._engine.delivery.partitions)
        return frozenset(subscribed)

    def assign(
        self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int | None]
    ) -> None:
        """Read exactly these partitions, without group management.

        A dict `{TopicPartition: offset}` also says where to begin, as in `aktor.KafkaConsumer`.

        Raises IllegalStateError after `subscribe`, or called from a listener.
        """
        wanted = arguments.checked_partitions(partitions)
        begins = arguments.offsets_to_begin_at(partitions)

        def assign() -> None:
            self._driver.run_at_once(self._engine.assign(wanted, begins))

        self._after_unsubscribe("assign", assign)

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions owned now; none after `stop`."""
        self._guard.check_process()
        return frozenset(self._engine.delivery.partitions)

    # -- positions

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to be given out.

        Raises IllegalStateError if it is not assigned, KafkaTimeoutError after
        `default_api_timeout_ms`.
        """
        self._check_assigned((partition,))
        deadline = self._deadline("position")
        found = await self._call(
            "position", lambda: self._engine.position(partition, deadline, must=True)
        )
        assert found is not None, "it must be found"
        return found

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Give out records from `offset` on. ValueError: not an int >= 0. IllegalStateError: not
        assigned."""
        position = arguments.position(offset)
        self._check_assigned((partition,))
        with self._at_once("seek"):
            self._engine.seek(partition, position)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Go to the first available offset of these (default: all) partitions. Returns True when
        the positions are known."""
        await self._reset("seek_to_beginning", partitions, ResetStrategy.EARLIEST)
        return True

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Go to the end of these (default: all) partitions. Returns True when the positions are
        known."""
        await self._reset("seek_to_end", partitions, ResetStrategy.LATEST)
        return True

    async def _reset(
        self, name: str, partitions: tuple[TopicPartition, ...], strategy: ResetStrategy
    ) -> None:
        chosen = arguments.assigned_or_all(partitions, self._engine.delivery.partitions)
        deadline = self._deadline(name)
        await self._call(name, lambda: self._engine.reset_and_find(chosen, strategy, deadline))

    async def seek_to_committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, int | None]:
        """Go to the committed offsets of these (default: all) partitions. Returns them; a partition
        without one stays where it is, and has None."""
        chosen = arguments.assigned_or_all(partitions, self._engine.delivery.partitions)
        arguments.check_group(self._settings)
        deadline = self._deadline("committed")
        return await self._call(
            "seek_to_committed", lambda: self._engine.seek_to_committed(chosen, deadline)
        )

    def pause(self, *partitions: TopicPartition) -> None:
        """Give out nothing of these until `resume`. IllegalStateError: not assigned."""
        self._check_assigned(partitions)
        with self._at_once("pause"):
            self._engine.pause(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Give out records of these again. IllegalStateError: not assigned."""
        self._check_assigned(partitions)
        with self._at_once("resume"):
            self._engine.pause(partitions, paused=False)

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        owned = self._engine.delivery.partitions
        return {partition for partition, state in owned.items() if state.paused}

    def highwater(self, partition: TopicPartition) -> int | None:
        """The offset after the last record, as it was last told; None before the first answer."""
        self._check_assigned((partition,))
        return self._engine.delivery.partitions[partition].high_watermark

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """The offset up to which transactions are decided; None before the first answer."""
        self._check_assigned((partition,))
        return self._engine.delivery.partitions[partition].last_stable_offset

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """When a broker last told `highwater` and `last_stable_offset`, in ms since the epoch; None
        before the first answer. It does not tell them again while they stay as they are (KIP-227).
        """
        self._check_assigned((partition,))
        told_at = self._engine.delivery.partitions[partition].log_ends_at
        if told_at == -math.inf:
            return None
        dispatcher = self._dispatcher
        return round((dispatcher.wall() - dispatcher.clock() + told_at) * 1000)

    # -- commits

    async def commit(self, offsets: Mapping[TopicPartition, Committable] | None = None) -> None:
        """Commit these offsets (default: all consumed positions) and wait for it. A task that waits
        for records does not hold it up.

        A cancelled commit is stored or not, as the group coordinator has it: see `committed`.

        Raises:
            IllegalStateError: no `group_id`.
            CommitFailedError: the group has given the partitions to somebody else.
            RebalanceInProgressError: the group rebalances; go on reading, then commit again.
            KafkaTimeoutError: not done within `request_timeout_ms`.
        """
        self._check_beside_process("commit")
        given = None if offsets is None else _with_metadata(offsets)
        in_process = self._processor is not None
        named = arguments.offsets_to_commit(given, self._settings, in_process=in_process)
        deadline = self._deadline("commit")
        await self._call("commit", lambda: self._engine.commit(named, deadline))

    async def committed(self, partition: TopicPartition) -> int | None:
        """The group's committed offset, or None. Raises KafkaTimeoutError after
        `default_api_timeout_ms`."""
        arguments.check_group(self._settings)
        wanted = arguments.checked_partitions([partition])
        deadline = self._deadline("committed")
        found = await self._call(
            "committed", lambda: self._engine.questions.committed(wanted, deadline)
        )
        at = found[partition]
        return None if at is None else at.offset

    # -- the cluster

    async def topics(self) -> set[str]:
        """The names of all topics this user may describe. Always asks a broker."""
        deadline = self._deadline("topics")
        return await self._call("topics", lambda: self._engine.questions.names_of_topics(deadline))

    async def look_up_topics(self, topics: Iterable[str] | None = None) -> Mapping[str, TopicInfo]:
        """Topic ids, partitions and leaders of these topics, or of all: see
        `aktor.KafkaConsumer.look_up_topics`. Not in aiokafka."""
        named = arguments.checked_topics(topics)
        deadline = self._deadline("topics")
        return await self._call(
            "look_up_topics", lambda: self._engine.questions.topics(named, deadline)
        )

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partition ids of a topic that is read, from the metadata at hand; None: unknown."""
        topic = arguments.topic_name(topic)
        return self._core.port.cluster.partitions_for_topic(topic)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first available offset of each partition (assigned or not)."""
        return await self._edges("beginning_offsets", partitions, ResetStrategy.EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record (the last stable one, with read_committed)."""
        return await self._edges("end_offsets", partitions, ResetStrategy.LATEST)

    async def _edges(
        self, name: str, partitions: Iterable[TopicPartition], strategy: ResetStrategy
    ) -> dict[TopicPartition, int]:
        wanted = arguments.checked_partitions(partitions)
        deadline = self._deadline(name)
        return await self._call(
            name, lambda: self._engine.questions.edges(wanted, strategy, deadline)
        )

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after each timestamp (ms), None where there is none."""
        wanted = arguments.checked_timestamps(timestamps)
        deadline = self._deadline("offsets_for_times")
        return await self._call(
            "offsets_for_times", lambda: self._engine.questions.offsets(wanted, deadline)
        )

    # -- below the methods

    def _deadline(self, method: str) -> float:
        return self._core.clock() + arguments.timeout(method, self._settings)

    def _checked(self, partitions: tuple[TopicPartition, ...]) -> frozenset[TopicPartition] | None:
        if not partitions:
            return None
        self._check_assigned(partitions)
        return frozenset(partitions)

    def _check_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        arguments.check_assigned(partitions, self._engine.delivery.partitions)

    def known_topics(self) -> Mapping[str, TopicInfo]:
        """Topic ids, partitions and leaders as in the last Metadata: see
        `aktor.KafkaConsumer.known_topics`. Not in aiokafka."""
        return MappingProxyType(self._core.port.cluster.topics)

    def _actors(self) -> tuple[ActorStatus, ...]:
        return () if self._loop is None else super()._actors()  # no thread runs before `start`

    def __reduce__(self) -> Any:
        raise TypeError("a KafkaConsumer cannot be copied or pickled: make one where it is used")

    def __repr__(self) -> str:
        if "_settings" not in vars(self):
            return f"<{type(self).__name__} without a KafkaConsumer: __init__ was not called>"
        topics = ", ".join(sorted(self._engine.subscription.topics))
        return (
            f"<aio.KafkaConsumer {self._settings.client_id} group={self._settings.group_id}"
            f" [{topics}]>"
        )


def _hears(listener: Any) -> bool:
    """Whether it has a listener's methods: its class may be aiokafka's."""
    names = ("on_partitions_revoked", "on_partitions_assigned")
    return all(callable(getattr(listener, name, None)) for name in names)


def _with_metadata(offsets: Mapping[TopicPartition, Committable]) -> dict[TopicPartition, Any]:
    """As `OffsetAndMetadata`, whatever of aiokafka's forms they have."""
    if not isinstance(offsets, Mapping):
        raise TypeError("offsets must be a dict of TopicPartition: offset")
    found: dict[TopicPartition, Any] = {}
    for partition, value in offsets.items():
        if (
            isinstance(value, tuple)
            and not isinstance(value, OffsetAndMetadata)
            and len(value) == 2
        ):
            value = OffsetAndMetadata(*value, None)
        elif isinstance(value, int) and not isinstance(value, bool):
            value = OffsetAndMetadata(value, "", None)
        found[partition] = value
    return found


def _when_dropped(consumer: Any, act: Callable[..., object], *args: Any) -> Any:
    """What is done if the consumer is dropped without `stop`: it leaves no sockets behind, nor a
    thread if it was started."""
    dropped = weakref.finalize(consumer, act, *args)
    dropped.atexit = False
    return dropped


#: aiokafka's name of the class.
AIOKafkaConsumer = KafkaConsumer


class _ByGetone(Generic[K, V]):
    """An iteration by another `getone` than ours."""

    def __init__(self, consumer: KafkaConsumer[K, V]) -> None:
        self._consumer = consumer

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        try:
            return await self._consumer.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None


#: As they are when nobody has replaced them.
_GETONE: Final = KafkaConsumer.getone
_ANEXT: Final = KafkaConsumer.__anext__
