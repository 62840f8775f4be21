"""What can go wrong: typed errors that say where it happened and what to do about it.

Everything kafka-python already has a class for keeps that class (a drop-in must raise what the
caller catches); what is here adds coordinates and remedies, as subclasses of those classes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.errors import (
    BrokerResponseError,
    CorruptRecordError,
    IllegalStateError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    OffsetOutOfRangeError,
    RetriableError,
    SaslAuthenticationFailedError,
)

__all__ = [
    "ActorCrashedError",
    "ActorRestartedError",
    "AuthenticationError",
    "BackgroundThreadError",
    "BatchTooLargeError",
    "BootstrapError",
    "BrokersUnreachableError",
    "ConcurrentAccessError",
    "ConfigurationError",
    "ConsumerClosedError",
    "ConsumerForkedError",
    "CorruptBatchError",
    "DataLossError",
    "DeliveryError",
    "FrameError",
    "HandlerError",
    "InvalidRowError",
    "InvalidRegularExpressionError",
    "OutsideLogError",
    "RecordDeserializationError",
    "UserCallbackError",
    "WakeupError",
    "WorkerDiedError",
]


#: Brokers that an error names; a cluster may have hundreds.
_NAMED = 5


class InvalidRegularExpressionError(BrokerResponseError):
    """A broker cannot read a `SubscriptionPattern`: it must be in the syntax of RE2 (KIP-848)."""

    errno = 128
    message = "INVALID_REGULAR_EXPRESSION"
    description = "The regular expression is not valid."


class ConfigurationError(KafkaConfigurationError):
    """A setting is unknown, out of range or contradicts another one."""


class AuthenticationError(SaslAuthenticationFailedError):
    """A broker refused who we say we are (SASL), or we refused the broker (TLS).

    Carries `broker` ("host:port") and `mechanism` ("PLAIN", "SCRAM-SHA-256", "SSL", ...); never a
    credential.
    """

    def __init__(self, *, broker: str, mechanism: str, reason: str) -> None:
        self.broker = broker
        self.mechanism = mechanism
        self.reason = reason
        super().__init__(
            f"authentication with broker {broker} by {mechanism} failed: {reason}."
            " Check the credentials, the mechanism and the certificate settings."
        )

    def __reduce__(self) -> Any:
        return _rebuild, (
            type(self),
            {"broker": self.broker, "mechanism": self.mechanism, "reason": self.reason},
        )


class BootstrapError(KafkaConnectionError):
    """None of the bootstrap servers answered as a Kafka broker.

    `attempts` maps "host:port" to the reason it failed last.
    """

    def __init__(self, *, attempts: dict[str, str]) -> None:
        self.attempts = dict(attempts)
        tried = "; ".join(f"{broker}: {why}" for broker, why in sorted(self.attempts.items()))
        super().__init__(
            f"no Kafka broker could be reached ({tried})."
            " Check bootstrap_servers, the port and security_protocol."
        )

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), {"attempts": self.attempts})


class BrokersUnreachableError(KafkaConnectionError):
    """A bootstrap server answered, and none of the addresses that its brokers advertise does.

    `attempts` maps "host:port" to the reason it failed last, `advertised_by` is the server that
    told the addresses. It passes when a broker can be reached; what was asked for goes on then.
    """

    def __init__(
        self, *, attempts: dict[str, str], advertised_by: str = "", untried: int = 0
    ) -> None:
        self.attempts = dict(attempts)
        self.advertised_by = advertised_by
        self.untried = untried
        named = [f"{broker}: {why}" for broker, why in list(self.attempts.items())[:_NAMED]]
        more = len(self.attempts) - len(named)
        tried = "; ".join(named) + (f"; {more} more" if more else "")
        super().__init__(
            f"none of the cluster's brokers can be reached at its advertised address ({tried}"
            f"{f'; {untried} not tried' if untried else ''}), advertised by"
            f" {advertised_by or 'the bootstrap servers'}. Check that the brokers are up, that"
            " each broker's advertised.listeners can be reached from this client, and that its"
            " name resolves here."
        )

    def __reduce__(self) -> Any:
        return _rebuild, (
            type(self),
            {
                "attempts": self.attempts,
                "advertised_by": self.advertised_by,
                "untried": self.untried,
            },
        )


class FrameError(KafkaConnectionError):
    """A broker sent bytes that are not a Kafka response; the connection was closed."""

    def __init__(self, *, broker: str, reason: str) -> None:
        self.broker = broker
        self.reason = reason
        super().__init__(
            f"broker {broker} sent a malformed answer ({reason}); the connection was closed."
            " Check that the port speaks Kafka and that security_protocol matches the listener."
        )

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), {"broker": self.broker, "reason": self.reason})


class CorruptBatchError(CorruptRecordError):
    """The bytes at this offset are not a sound record batch (checksum or structure).

    They are fetched again, three times at most. Polls read on once sound bytes have come. Until
    then, and if none come, each poll raises this error.
    """

    def __init__(self, *, topic: str, partition: int, offset: int, reason: str) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.reason = reason
        super().__init__(
            f"corrupt record batch in {topic}-{partition} at offset {offset}: {reason}."
            f" The position stays at {offset}: the batch is fetched anew a few times; if polling on"
            " does not help, seek past it."
        )

    def __reduce__(self) -> Any:
        return _rebuild, (
            type(self),
            {
                "topic": self.topic,
                "partition": self.partition,
                "offset": self.offset,
                "reason": self.reason,
            },
        )


class DataLossError(KafkaError):
    """Records that a Spark query had to read do not exist any more, and `failOnDataLoss` is true.

    The text names topic, partition and offsets.
    """


class OutsideLogError(OffsetOutOfRangeError):
    """`to_table` was to read at an offset that the log does not have.

    Carries `topic`, `partition`, `offset`, and the log's first offset and end, `log_start` and
    `log_end`. Below `log_start` records were deleted; beyond `log_end` they are not written, or the
    log was cut off (an unclean election).
    """

    def __init__(
        self, *, topic: str, partition: int, offset: int, log_start: int, log_end: int
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end
        text = (
            f"{topic}-{partition} was to be read from offset {offset}, but its log begins at"
            f" {log_start} and ends at {log_end}"
        )
        if offset < log_start:
            text += ". to_table(skip_deleted=True) goes on where the log begins"
        super().__init__(text)

    def __reduce__(self) -> Any:
        make = partial(
            OutsideLogError,
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            log_start=self.log_start,
            log_end=self.log_end,
        )
        return make, ()


class DeliveryError(KafkaError):
    """Records that a Spark task had to write were not acknowledged.

    Carries `topic`, `partition` (None if none was chosen) and `reason` of the first record that
    failed, and `not_acknowledged`, the number of records that may be missing.
    """

    def __init__(
        self, *, topic: str, partition: int | None, not_acknowledged: int, reason: str
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.not_acknowledged = not_acknowledged
        self.reason = reason
        where = topic if partition is None else f"{topic}-{partition}"
        super().__init__(
            f"records were not acknowledged ({not_acknowledged}), the first of them for {where}:"
            f" {reason}. Spark tries the task again (spark.task.maxFailures), which writes all of"
            " its rows again"
        )

    def __reduce__(self) -> Any:
        return _rebuild, (
            type(self),
            {
                "topic": self.topic,
                "partition": self.partition,
                "not_acknowledged": self.not_acknowledged,
                "reason": self.reason,
            },
        )


class InvalidRowError(KafkaError):
    """A row cannot be written to Kafka. Carries `row`, its position in the task's input from 0 on,
    and `reason`; never what is in the row."""

    def __init__(self, *, row: int, reason: str) -> None:
        self.row = row
        self.reason = reason
        super().__init__(f"row {row} of the task (counted from 0) cannot be written: {reason}")

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), {"row": self.row, "reason": self.reason})


class BatchTooLargeError(KafkaError):
    """A batch would decompress to more than the limit (a decompression bomb, or a small limit)."""

    def __init__(self, *, topic: str, partition: int, offset: int, limit: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.limit = limit
        super().__init__(
            f"the record batch in {topic}-{partition} at offset {offset} decompresses to more than"
            f" {limit} bytes. Raise max_decompressed_batch_bytes if that is expected, or seek past"
            " it."
        )

    def __reduce__(self) -> Any:
        return _rebuild, (
            type(self),
            {
                "topic": self.topic,
                "partition": self.partition,
                "offset": self.offset,
                "limit": self.limit,
            },
        )


class RecordDeserializationError(KafkaError):
    """A deserializer refused a record; the raw bytes are here, the position stays at the record.

    `key`, `value` are the raw bytes (or None), `headers` a list of (str, bytes | None).
    The deserializer's own exception is `__cause__`.
    """

    def __init__(
        self,
        *,
        topic: str,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.headers = headers
        super().__init__(
            f"the record in {topic}-{partition} at offset {offset} could not be deserialized."
            f" The position stays at {offset}; seek to {offset + 1} to skip it."
        )

    def __reduce__(self) -> Any:
        return _rebuild, (
            type(self),
            {
                "topic": self.topic,
                "partition": self.partition,
                "offset": self.offset,
                "key": self.key,
                "value": self.value,
                "headers": self.headers,
            },
        )


class HandlerError(KafkaError):
    """In `process`, a handler failed with a record, and no `on_error` has settled it.

    `topic`, `partition`, `offset` and `attempts` say which record, and how often it was tried.
    `__cause__` is the handler's exception, or that of `on_error` if `on_error` failed, too. Nothing
    from this record on was committed.
    """

    def __init__(
        self, *, topic: str, partition: int, offset: int, attempts: int, what: str = ""
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.attempts = attempts
        self.what = what
        # `what`: it was not for want of an `on_error`.
        advice = "" if what else ", or give process() on_error='skip' or a dead_letter topic"
        super().__init__(
            f"{what or 'the handler failed'} with the record at offset {offset} of"
            f" {topic}-{partition} ({attempts} attempt{'' if attempts == 1 else 's'})."
            f" The group goes on from this record; see the cause{advice}."
        )

    def __reduce__(self) -> Any:
        return _rebuild, (
            type(self),
            {
                "topic": self.topic,
                "partition": self.partition,
                "offset": self.offset,
                "attempts": self.attempts,
                "what": self.what,
            },
        )


class ActorRestartedError(RetriableError):
    """The actor that was working on this call crashed and was restarted; the call may be retried.

    `actor` is its name; the original exception is `__cause__`.
    """

    retriable = True

    def __init__(self, *, actor: str) -> None:
        self.actor = actor
        super().__init__(f"the {actor} actor crashed and was restarted; call again")

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), {"actor": self.actor})


class ActorCrashedError(KafkaError):
    """An actor crashed more often than its restart budget allows; this consumer is finished.

    `actor` is its name; the original exception is `__cause__`.
    """

    def __init__(self, *, actor: str, reason: str) -> None:
        self.actor = actor
        self.reason = reason
        super().__init__(
            f"the {actor} actor crashed too often and was given up ({reason})."
            " Close this consumer and make a new one; please report the traceback."
        )

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), {"actor": self.actor, "reason": self.reason})


class BackgroundThreadError(KafkaError):
    """The consumer's background thread has ended; this consumer is finished.

    `reason` says why, as far as it is known; the exception that has ended it, if there is one, is
    `__cause__`.
    """

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the consumer's background thread has ended ({reason}): this consumer can neither"
            " read nor commit nor leave its group any more. Close this consumer and make a new one."
        )

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), {"reason": self.reason})


class UserCallbackError(KafkaError):
    """A rebalance listener raised, or a commit callback raised StopIteration; the exception is
    `__cause__`.

    Other exceptions of a commit callback are raised as they are.
    """

    def __init__(self, callback: str, *, of: str = "rebalance") -> None:
        self.callback = callback
        self.of = of
        super().__init__(f"User {of} callback throws an error: {callback}")

    def __reduce__(self) -> Any:
        return partial(type(self), of=self.of), (self.callback,)


class ConsumerClosedError(IllegalStateError):
    """The consumer was used after `close`."""

    def __init__(self) -> None:
        super().__init__("this consumer is closed; make a new one")

    def __reduce__(self) -> Any:
        return type(self), ()


class ConsumerForkedError(IllegalStateError):
    """The consumer was made in another process and inherited by `fork()`."""

    def __init__(self, *, made_in: int, used_in: int) -> None:
        self.made_in = made_in
        self.used_in = used_in
        super().__init__(
            f"this consumer was made in process {made_in} and cannot be used in its child"
            f" {used_in}; make the consumer in the process that uses it"
        )

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), {"made_in": self.made_in, "used_in": self.used_in})


class ConcurrentAccessError(IllegalStateError):
    """Two threads used one consumer at a time. Any thread may call `wakeup`, and methods that only
    read."""

    def __init__(self, *, owner: str, other: str) -> None:
        self.owner = owner
        self.other = other
        super().__init__(
            f"KafkaConsumer is not safe for multi-threaded access: thread {owner!r} is inside a"
            f" call and thread {other!r} made another. Only wakeup(), and what only looks (metrics,"
            " status, assignment, ...), may be called from any thread."
        )

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), {"owner": self.owner, "other": self.other})


class WakeupError(KafkaError):
    """`wakeup` was called; the blocked call ended early and nothing was lost."""

    def __init__(self) -> None:
        super().__init__("wakeup() was called")

    def __reduce__(self) -> Any:
        return type(self), ()


class WorkerDiedError(KafkaError):
    """In `process` with workers="processes": the worker process died while it handled this record.

    It was killed, for instance because memory ran out, or the handler has called `os._exit` or
    crashed the interpreter. The record was alone in the pool when that happened, so it was not the
    fault of another one.
    """

    def __init__(self) -> None:
        super().__init__(
            "the worker process died while it handled this record: it was killed (was there enough"
            " memory?), or the handler ended or crashed the interpreter"
        )

    def __reduce__(self) -> Any:
        return type(self), ()


def _rebuild(cls: type[Any], fields: dict[str, Any]) -> Any:
    """Pickle support for errors with keyword-only arguments."""
    return cls(**fields)


#: Another error code of Kafka 4.3 that kafka-python has no class for.
class RebootstrapRequired(BrokerResponseError):
    """The broker asks the client to bootstrap again (KIP-1102)."""

    errno = 129
    message = "REBOOTSTRAP_REQUIRED"
