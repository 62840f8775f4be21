"""Where events go, what they look like there, and what never gets out."""

from __future__ import annotations

import enum
import io
import json
import logging
import threading
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from aktor.consumer.configuration.secrets import Secret
from aktor.errors import AuthenticationError
from aktor.trace import open_trace, recording, silent

A = TopicPartition("orders", 0)


class Untouchable:
    """Fails the test if anybody looks at it."""

    def __str__(self) -> str:
        pytest.fail("rendered although nobody listens")

    __repr__ = __str__


def as_traced(value: Any) -> Any:
    """What becomes of a value on its way to a listener."""
    trace, events = recording()
    trace.info("thing.happened", value=value)
    return events[0]["value"]


@pytest.fixture(autouse=True)
def _no_trace_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AKTOR_TRACE", raising=False)


# -- silence


@pytest.mark.parametrize("level", ["debug", "info"])
def test_nothing_is_rendered_or_recorded_while_nobody_listens(
    level: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="aktor")
    for trace in (silent(), open_trace()):
        getattr(trace, level)("thing.happened", value=Untouchable())

    assert caplog.records == []


def test_a_silent_trace_says_nothing_even_if_logging_is_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="aktor")

    silent().error("thing.failed", value=Untouchable())

    assert caplog.records == []


# -- listeners


def test_a_listener_gets_each_event_with_its_level_time_and_values() -> None:
    trace = open_trace(client="app")
    events: list[dict[str, Any]] = []

    with trace.listen(events.append):
        trace.info("commit.sent", offsets=3)

    (event,) = events
    assert event.pop("t") > 1_700_000_000
    assert isinstance(event.pop("mono"), float)
    assert event.pop("seq") == 1
    assert event == {"event": "commit.sent", "level": "info", "client": "app", "offsets": 3}


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_a_listener_gets_every_level(level: str) -> None:
    trace, events = recording()

    getattr(trace, level)("thing.happened")

    assert [(one["event"], one["level"]) for one in events] == [("thing.happened", level)]


def test_a_listener_hears_only_while_its_block_runs() -> None:
    trace = open_trace()
    events: list[dict[str, Any]] = []
    trace.info("thing.before")

    with trace.listen(events.append):
        trace.info("thing.during")
    trace.info("thing.after")

    assert [one["event"] for one in events] == ["thing.during"]


def test_a_listener_stops_hearing_when_its_block_raises() -> None:
    trace = open_trace()
    events: list[dict[str, Any]] = []

    with pytest.raises(ZeroDivisionError), trace.listen(events.append):
        raise ZeroDivisionError
    trace.info("thing.after")

    assert events == []


def test_listeners_may_overlap() -> None:
    trace = open_trace()
    outer: list[dict[str, Any]] = []
    inner: list[dict[str, Any]] = []

    with trace.listen(outer.append):
        with trace.listen(inner.append):
            trace.info("thing.one")
        trace.info("thing.two")

    assert [one["event"] for one in outer] == ["thing.one", "thing.two"]
    assert [one["event"] for one in inner] == ["thing.one"]


def test_a_listener_of_one_consumer_does_not_hear_another() -> None:
    mine, other = open_trace(), open_trace()
    events: list[dict[str, Any]] = []

    with mine.listen(events.append):
        other.info("thing.happened")

    assert events == []


def test_bound_keys_are_on_every_event_and_only_of_that_trace() -> None:
    trace, events = recording()

    bound = trace.bind(actor="fetch", incarnation=2)
    bound.info("thing.one")
    trace.info("thing.two")

    assert (events[0]["actor"], events[0]["incarnation"]) == ("fetch", 2)
    assert "actor" not in events[1]


def test_a_listener_hears_what_is_traced_under_bound_keys() -> None:
    trace = open_trace()
    bound = trace.bind(actor="fetch")
    events: list[dict[str, Any]] = []

    with trace.listen(events.append):
        bound.info("thing.happened")

    assert [one["actor"] for one in events] == ["fetch"]


# -- the standard logger


def test_events_go_to_the_standard_logger_as_text_and_as_data(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="aktor")

    open_trace(client="app").warning("commit.retrying", partition=A, because=ValueError("no"))

    (record,) = caplog.records
    assert (record.name, record.levelno) == ("aktor", logging.WARNING)
    assert record.getMessage() == (
        "commit.retrying client=app partition=orders-0 because=ValueError: no"
    )
    assert record.aktor["partition"] == "orders-0"  # type: ignore[attr-defined]
    assert record.aktor["event"] == "commit.retrying"  # type: ignore[attr-defined]


def test_the_level_of_the_standard_logger_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="aktor")
    trace = open_trace()

    trace.info("thing.said")
    trace.warning("thing.failed")

    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_the_level_is_kept_also_while_somebody_listens_to_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="aktor")
    trace = open_trace()
    events: list[dict[str, Any]] = []

    with trace.listen(events.append):
        trace.debug("thing.said")

    assert (len(events), caplog.records) == (1, [])


def test_who_configured_no_logging_sees_nothing_on_stderr(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    open_trace().error("thing.failed")

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("breaks", ["\n", "\r", "\r\n"])
def test_a_value_cannot_forge_a_line_of_the_log(
    breaks: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="aktor")

    open_trace().info("topic.found", topic=f"orders{breaks}ERROR forged")

    text = caplog.records[0].getMessage()
    assert text.splitlines() == [text]
    assert "orders" in text
    assert "forged" in text


# -- at INFO the logger is for people

FOR_PEOPLE = [
    "broker.returned",
    "brokers.reached",
    "consumer.closed",
    "consumer.started",
    "rebalance.completed",
]


def test_the_logger_has_at_info_what_people_want_to_read_and_the_rest_at_debug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    others = ["connection.opened", "commit.sent", "membership.moved"]
    for level, heard in ((logging.INFO, FOR_PEOPLE), (logging.DEBUG, FOR_PEOPLE + others)):
        caplog.clear()
        caplog.set_level(level, logger="aktor")
        trace = open_trace()
        for event in FOR_PEOPLE + others:
            trace.info(event)

        assert [record.getMessage() for record in caplog.records] == heard
        assert {record.aktor["level"] for record in caplog.records} == {"info"}  # type: ignore[attr-defined]


def test_what_people_do_not_read_is_not_rendered_for_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="aktor")

    open_trace().info("commit.sent", value=Untouchable())

    assert caplog.records == []


# -- secrets


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "sasl_plain_password",
        "SSL_PASSWORD",
        "client_secret",
        "token",
        "sasl_oauth_token_provider",
        "credentials",
        "auth_bytes",
    ],
)
def test_what_a_key_calls_secret_never_gets_out(key: str) -> None:
    trace, events = recording()

    trace.info("thing.happened", **{key: "hunter2"})
    trace.bind(**{key: "hunter2"}).info("thing.happened")

    assert [one[key] for one in events] == ["***", "***"]


@pytest.mark.parametrize(
    "value",
    [
        {"config": {"sasl_plain_password": "hunter2", "user": "me"}},
        [{"ssl_password": "hunter2"}],
        ({"nested": {"token": b"hunter2"}},),
    ],
    ids=["mapping", "list", "deep"],
)
def test_what_a_key_inside_of_a_value_calls_secret_never_gets_out(value: Any) -> None:
    assert "hunter2" not in json.dumps(as_traced(value))
    assert "***" in json.dumps(as_traced(value))


@pytest.mark.parametrize(
    "value",
    [Secret("hunter2"), [Secret("hunter2")], {"why": Secret("hunter2")}, {Secret("hunter2"): 1}],
    ids=["alone", "in a list", "in a mapping", "as a key"],
)
def test_a_secret_never_gets_out_whatever_its_key(value: Any) -> None:
    assert "hunter2" not in json.dumps(as_traced(value))
    assert "***" in json.dumps(as_traced(value))


def test_a_secret_never_gets_out_through_the_standard_logger(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="aktor")

    open_trace().info("thing.happened", password="hunter2", why=Secret("hunter2"))

    (record,) = caplog.records
    assert "hunter2" not in record.getMessage() + repr(vars(record))
    assert "password=*** why=***" in record.getMessage()


def test_record_bytes_are_counted_and_not_shown() -> None:
    assert as_traced(b"a record") == "<8 bytes>"
    assert as_traced(memoryview(b"a record")) == "<8 bytes>"


# -- values


class Colour(enum.Enum):
    RED = "red"


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "traced"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        ("text", "text"),
        (A, "orders-0"),
        ({A: {"at": 3}}, {"orders-0": {"at": 3}}),
        (frozenset({"b", "a"}), ["a", "b"]),
        ({2, 10}, [10, 2]),
        (("a", A), ["a", "orders-0"]),
        (Colour.RED, "red"),
        (Point(1, A), {"x": 1, "y": "orders-0"}),
        (ValueError("no"), "ValueError: no"),
        (KeyError(), "KeyError: "),
        (object, "<class 'object'>"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_value_is_traced_as_json_has_it(value: Any, traced: Any) -> None:
    assert as_traced(value) == traced
    json.dumps(as_traced(value))


def test_an_error_that_says_its_own_name_says_it_once() -> None:
    from kafka.errors import KafkaTimeoutError

    assert as_traced(KafkaTimeoutError("too late")) == "KafkaTimeoutError: too late"


def every_class_of_kafka_errors() -> list[type[Exception]]:
    kinds = [KafkaError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return [kind for kind in kinds if kind.__module__ == "kafka.errors"]


@pytest.mark.few_cases
@pytest.mark.parametrize("kind", every_class_of_kafka_errors(), ids=lambda kind: kind.__name__)
def test_an_error_of_kafka_is_traced_with_its_name_once_and_without_its_number(
    kind: type[Exception],
) -> None:
    text = as_traced(kind("no"))

    assert (text.startswith(f"{kind.__name__}: "), text.count(kind.__name__)) == (True, 1)


def test_an_error_of_ours_is_traced_with_its_name_once() -> None:
    refused = AuthenticationError(broker="kafka-1:9092", mechanism="PLAIN", reason="no")

    assert as_traced(refused).startswith("AuthenticationError: authentication with broker kafka-1")
    assert as_traced(refused).count("Error") == 1


def test_the_number_in_the_text_of_another_error_stays() -> None:
    assert as_traced(ValueError("[Error 5] no")) == "ValueError: [Error 5] no"


def test_a_long_list_is_cut_and_says_by_how_much() -> None:
    assert as_traced(list(range(50))) == list(range(50))
    assert as_traced(list(range(53))) == [*range(50), "... 3 more"]


def test_a_long_set_is_sorted_before_it_is_cut() -> None:
    traced = as_traced({f"topic-{number:03}" for number in range(60)})

    assert traced == [*(f"topic-{number:03}" for number in range(50)), "... 10 more"]


# -- what handlers, filters and values raise


class Raising(logging.Handler):
    """A handler whose `emit` raises, as one does whose service is down."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def emit(self, record: logging.LogRecord) -> None:
        raise self.error

    def filter(self, record: logging.LogRecord) -> bool:
        return True


class RaisingFilter(Raising):
    """The same, in its filter."""

    def filter(self, record: logging.LogRecord) -> bool:
        raise self.error


@contextmanager
def logging_to(handler: logging.Handler) -> Iterator[None]:
    logger = logging.getLogger("aktor")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def raised_in_a_thread(trace: Any) -> list[BaseException]:
    """What a call of the trace raises on another thread than the main one."""
    raised: list[BaseException] = []

    def say() -> None:
        try:
            trace.error("thing.failed")
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=say)
    thread.start()
    thread.join(20)
    return raised


@pytest.mark.parametrize("kind", [Raising, RaisingFilter])
@pytest.mark.parametrize("error", [ConnectionError("no log server"), SystemExit(1)])
def test_what_a_log_handler_raises_reaches_no_background_thread_and_is_printed(
    kind: type[Raising], error: BaseException, capfd: pytest.CaptureFixture[str]
) -> None:
    with logging_to(kind(error)):
        assert raised_in_a_thread(open_trace()) == []

    assert type(error).__name__ in capfd.readouterr().err


def test_an_interrupt_that_comes_in_a_log_handler_on_the_main_thread_is_raised() -> None:
    with logging_to(Raising(KeyboardInterrupt())), pytest.raises(KeyboardInterrupt):
        open_trace().error("thing.failed")


@pytest.mark.parametrize("stderr_is", ["off", "gone", "closed"])
def test_an_error_of_a_log_handler_is_printed_as_logging_prints_errors(
    stderr_is: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if stderr_is == "off":
        monkeypatch.setattr(logging, "raiseExceptions", False)
    else:
        closed = io.StringIO()
        closed.close()
        monkeypatch.setattr("sys.stderr", None if stderr_is == "gone" else closed)

    with logging_to(Raising(ConnectionError("no log server"))):
        open_trace().error("thing.failed")

    assert capfd.readouterr().err == ""


def test_listeners_get_an_event_that_a_log_handler_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    trace, events = open_trace(), list[dict[str, Any]]()

    with logging_to(Raising(ConnectionError())), trace.listen(events.append):
        trace.error("thing.failed")

    assert len(events) == 1


class Wordless(Exception):
    """An exception of the user's whose text cannot be had."""

    def __str__(self) -> str:
        raise KeyError("no text")


@pytest.mark.parametrize("where", ["value", "list", "set", "mapping", "key"])
def test_a_value_without_a_text_is_traced_without_it(where: str) -> None:
    error = Wordless()
    value = {
        "value": error,
        "list": [error],
        "set": {error, 1},
        "mapping": {"a": error},
        "key": {error: 1},
    }[where]

    assert "Wordless, without a text: KeyError" in json.dumps(as_traced(value))
