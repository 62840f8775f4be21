"""Typed errors: what they say, whose subclasses they are, and that they survive pickling."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import kafka.errors
import pytest
from kafka.errors import (
    BrokerResponseError,
    CorruptRecordError,
    IllegalStateError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
)

from aktor import errors
from aktor.errors import (
    ActorCrashedError,
    ActorRestartedError,
    AuthenticationError,
    BackgroundThreadError,
    BatchTooLargeError,
    BootstrapError,
    BrokersUnreachableError,
    ConcurrentAccessError,
    ConfigurationError,
    ConsumerClosedError,
    ConsumerForkedError,
    ConsumerStoppedError,
    CorruptBatchError,
    DataLossError,
    DeliveryError,
    FrameError,
    HandlerError,
    InvalidRegularExpressionError,
    InvalidRowError,
    LogTruncationError,
    OutsideLogError,
    RebootstrapRequired,
    RecordDeserializationError,
    SchemaLookUpError,
    UserCallbackError,
    WakeupError,
    WorkerDiedError,
)

BROKER = "kafka-1:9093"

#: Each error, what a caller of kafka-python catches it as, and what its text must name.
CASES: list[tuple[KafkaError, type[KafkaError], list[str]]] = [
    (
        LogTruncationError(
            topic="orders",
            partition=3,
            position=20,
            epoch=5,
            diverging_offset=10,
            diverging_epoch=4,
            broker="broker 2 at kafka-2:9092",
            committed=15,
        ),
        kafka.errors.LogTruncationError,
        ["orders-3", "20", "epoch 5", "kafka-2", "offset 10", "epoch 4", "15, 5 beyond", "Seek to"],
    ),
    (
        LogTruncationError(
            topic="orders",
            partition=3,
            position=20,
            epoch=5,
            diverging_offset=None,
            diverging_epoch=None,
            broker="broker 2",
        ),
        kafka.errors.LogTruncationError,
        ["orders-3", "20", "epoch 5", "broker 2 has another log; no committed", "Seek to where"],
    ),
    (
        ConfigurationError("fetch_min_bytes must be at least 1"),
        KafkaConfigurationError,
        ["fetch_min_bytes must be at least 1"],
    ),
    (
        AuthenticationError(broker=BROKER, mechanism="PLAIN", reason="bad password"),
        SaslAuthenticationFailedError,
        [BROKER, "PLAIN", "bad password", "Check the credentials"],
    ),
    (
        DataLossError("orders-0 was to be read from offset 3, and begins with 7"),
        KafkaError,
        ["orders-0", "offset 3"],
    ),
    (
        DeliveryError(topic="orders", partition=3, not_acknowledged=7, reason="timed out"),
        KafkaError,
        ["orders-3", "(7)", "timed out", "spark.task.maxFailures"],
    ),
    (
        OutsideLogError(topic="orders", partition=3, offset=42, log_start=52, log_end=60),
        OffsetOutOfRangeError,
        ["orders-3", "offset 42", "begins at 52", "ends at 60", "skip_deleted=True"],
    ),
    (
        InvalidRowError(row=42, reason="it has no topic; set the option topic"),
        KafkaError,
        ["row 42", "set the option topic"],
    ),
    (
        SchemaLookUpError(
            topic="orders",
            partition=3,
            offset=42,
            schema_id=7,
            registry="http://registry:8081",
            reason="Unauthorized",
        ),
        KafkaError,
        ["orders-3", "offset 42", "schema 7", "http://registry:8081: Unauthorized", "options"],
    ),
    (
        BootstrapError(attempts={"b:2": "refused", "a:1": "timed out"}),
        KafkaConnectionError,
        ["a:1: timed out; b:2: refused", "Check bootstrap_servers"],
    ),
    (
        BrokersUnreachableError(
            attempts={"a:1": "timed out", "b:2": "refused"}, advertised_by="boot:9092"
        ),
        KafkaConnectionError,
        ["(a:1: timed out; b:2: refused), advertised by boot:9092", "advertised.listeners"],
    ),
    (
        FrameError(broker=BROKER, reason="negative length"),
        KafkaConnectionError,
        [BROKER, "negative length", "closed", "Check that the port speaks Kafka"],
    ),
    (
        CorruptBatchError(topic="orders", partition=3, offset=42, reason="checksum"),
        CorruptRecordError,
        ["orders-3", "at offset 42", "checksum", "seek past it"],
    ),
    (
        HandlerError(topic="orders", partition=3, offset=42, attempts=2),
        KafkaError,
        ["orders-3", "offset 42", "2 attempts", "on_error='skip'", "dead_letter"],
    ),
    (
        BatchTooLargeError(topic="orders", partition=3, offset=42, limit=1024),
        KafkaError,
        ["orders-3", "offset 42", "1024 bytes", "max_decompressed_batch_bytes", "seek past"],
    ),
    (
        RecordDeserializationError(
            topic="orders",
            partition=3,
            offset=42,
            key=b"k",
            value=None,
            headers=[("h", b"1"), ("n", None)],
        ),
        KafkaError,
        ["orders-3", "at offset 42", "seek to 43 to skip it"],
    ),
    (ActorRestartedError(actor="commits"), KafkaError, ["commits", "restarted", "call again"]),
    (WorkerDiedError(), KafkaError, ["worker process died", "memory"]),
    (
        BackgroundThreadError(reason="SystemExit in its loop"),
        KafkaError,
        ["SystemExit in its loop", "Close this consumer"],
    ),
    (
        ActorCrashedError(actor="fetch", reason="ZeroDivisionError"),
        KafkaError,
        ["fetch", "ZeroDivisionError", "make a new one"],
    ),
    (
        UserCallbackError(callback="on_partitions_revoked"),
        KafkaError,
        ["User rebalance callback throws an error: on_partitions_revoked"],
    ),
    (
        UserCallbackError(callback="it raised StopIteration", of="commit"),
        KafkaError,
        ["User commit callback throws an error: it raised StopIteration"],
    ),
    (ConsumerClosedError(), IllegalStateError, ["closed", "make a new one"]),
    (ConsumerStoppedError(), ConsumerClosedError, ["closed", "make a new one"]),
    (
        ConsumerForkedError(made_in=10, used_in=11),
        IllegalStateError,
        ["process 10", "child 11", "make the consumer in the process that uses it"],
    ),
    (
        ConcurrentAccessError(owner="MainThread", other="worker"),
        IllegalStateError,
        ["'MainThread' is in process()", "'worker' called", "may only call close(), wakeup()"],
    ),
    (WakeupError(), KafkaError, ["wakeup() was called"]),
    (
        InvalidRegularExpressionError("orders["),
        BrokerResponseError,
        ["orders[", "InvalidRegularExpressionError"],
    ),
    (RebootstrapRequired("again"), BrokerResponseError, ["again", "RebootstrapRequired"]),
]

NAMES = [type(error).__name__ for error, _, _ in CASES]


def state_of(error: BaseException) -> dict[str, Any]:
    return dict(vars(error))


@pytest.mark.parametrize(("error", "_base", "words"), CASES, ids=NAMES)
def test_an_error_names_what_happened_where_and_what_to_do(
    error: KafkaError, _base: type, words: list[str]
) -> None:
    for word in words:
        assert word in str(error)


@pytest.mark.parametrize(("error", "base", "_words"), CASES, ids=NAMES)
def test_an_error_is_caught_as_kafka_pythons(
    error: KafkaError, base: type, _words: list[str]
) -> None:
    assert isinstance(error, base)


@pytest.mark.parametrize("error", [error for error, _, _ in CASES], ids=NAMES)
def test_an_error_survives_pickling(error: KafkaError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert type(again) is type(error)
    assert str(again) == str(error)
    assert state_of(again) == state_of(error)


@pytest.mark.few_cases
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("error", [error for error, _, _ in CASES], ids=NAMES)
def test_an_error_can_be_copied(error: KafkaError, copied: Callable[[KafkaError], Any]) -> None:
    again = copied(error)

    assert (type(again), str(again), state_of(again)) == (type(error), str(error), state_of(error))


@pytest.mark.parametrize("error", [error for error, _, _ in CASES if vars(error)], ids=str)
def test_an_error_takes_the_arguments_that_it_shows_and_no_others(error: KafkaError) -> None:
    kind: Any = type(error)
    with pytest.raises(TypeError, match="no argument 'colour'"):
        kind(**vars(error), colour="red")
    first = next(iter(vars(error)))
    with pytest.raises(TypeError, match=f"lacks the argument '{first}'"):
        kind()


def test_every_error_is_covered_here() -> None:
    defined = {
        one
        for one in vars(errors).values()
        if isinstance(one, type)
        and one.__module__ == errors.__name__
        and not one.__name__.startswith("_")
    }

    assert defined == {type(error) for error, _, _ in CASES}


def test_every_error_for_users_is_public() -> None:
    of_the_broker = {RebootstrapRequired}
    public = {getattr(errors, name) for name in errors.__all__}
    public = {error for error in public if error.__module__ == errors.__name__}

    assert public == {type(error) for error, _, _ in CASES} - of_the_broker


def test_coordinates_can_be_read_from_the_error() -> None:
    for error in (one for one, _, _ in CASES if hasattr(one, "offset")):
        assert (error.topic, error.partition, error.offset) == ("orders", 3, 42)


def test_a_record_that_was_refused_carries_its_raw_bytes_and_hides_them_in_its_text() -> None:
    error = RecordDeserializationError(
        topic="orders", partition=0, offset=1, key=b"kk", value=b"secret", headers=[("h", b"1")]
    )

    assert (error.key, error.value, error.headers) == (b"kk", b"secret", [("h", b"1")])
    assert "secret" not in str(error) + repr(error)


def test_only_what_may_pass_when_tried_again_is_retriable() -> None:
    retriable = {type(error) for error, _, _ in CASES if error.retriable}

    assert retriable == {ActorRestartedError, BootstrapError, BrokersUnreachableError, FrameError}


def test_the_reasons_of_a_failed_bootstrap_are_a_copy() -> None:
    attempts = {"a:1": "refused"}
    error = BootstrapError(attempts=attempts)

    attempts.clear()

    assert error.attempts == {"a:1": "refused"}


def test_of_a_hundred_brokers_that_cannot_be_reached_a_few_are_named() -> None:
    attempts = {f"b{node}:9092": "refused" for node in range(100)}

    error = BrokersUnreachableError(attempts=attempts, untried=7)

    assert "b4:9092: refused; 95 more; 7 not tried)" in str(error)
    assert len(error.attempts) == 100


@pytest.mark.parametrize(
    ("kind", "code"), [(InvalidRegularExpressionError, 128), (RebootstrapRequired, 129)]
)
def test_the_newer_codes_of_kafka_are_their_own(kind: type[BrokerResponseError], code: int) -> None:
    assert kind.errno == code


def test_a_handler_error_that_no_on_error_would_have_spared_does_not_advise_one() -> None:
    error = HandlerError(
        topic="orders",
        partition=3,
        offset=42,
        attempts=1,
        what="on_error failed, after the handler,",
    )

    assert "on_error failed" in str(error)
    assert "give process()" not in str(error)
