"""Events in the application's own structlog, and in the formatters of its log."""

from __future__ import annotations

import contextvars
import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog
from kafka.structs import TopicPartition

from aktor.trace import open_trace

A = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("AKTOR_TRACE", raising=False)
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture(name="seen")
def _seen() -> list[dict[str, Any]]:
    """What comes to the end of the processors of an application that has configured structlog."""
    seen: list[dict[str, Any]] = []

    def keep(_logger: Any, _method: str, event: Any) -> Any:
        seen.append(dict(event))
        raise structlog.DropEvent

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            keep,
        ],
        logger_factory=structlog.ReturnLoggerFactory(),
    )
    return seen


@contextmanager
def handled_by(formatter: logging.Formatter, level: int) -> Iterator[io.StringIO]:
    """What a handler of the root logger writes with this formatter."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    before = logging.root.level
    logging.root.addHandler(handler)
    logging.root.setLevel(level)
    try:
        yield written
    finally:
        logging.root.removeHandler(handler)
        logging.root.setLevel(before)


# -- structlog is configured


def test_an_application_that_has_configured_structlog_gets_events_with_keys_as_keys(
    seen: list[dict[str, Any]],
) -> None:
    open_trace(consumer="app").warning("commit.failed", partitions=[A], because=ValueError("no"))

    (event,) = seen
    assert isinstance(event.pop("t"), float)
    assert isinstance(event.pop("mono"), float)
    assert event == {
        "event": "commit.failed",
        "level": "warning",
        "logger": "aktor",
        "consumer": "app",
        "partitions": ["orders-0"],
        "because": "ValueError: no",
        "seq": 1,
    }


def test_an_event_goes_through_structlog_and_not_to_the_standard_logger_as_well(
    seen: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="aktor")

    open_trace().error("dispatcher.failed", because="a test")

    assert len(seen) == 1
    assert caplog.records == []


def test_events_of_every_thread_have_the_context_variables_of_the_maker_of_the_consumer(
    seen: list[dict[str, Any]],
) -> None:
    structlog.contextvars.bind_contextvars(job="nightly")
    trace = open_trace()
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(job="another")

    trace.warning("poll.late")
    other = threading.Thread(target=lambda: trace.warning("poll.late"))
    other.start()
    other.join(20)

    assert [event["job"] for event in seen] == ["nightly", "nightly"]


def test_a_processor_finds_any_context_variable_of_the_maker_and_changes_none() -> None:
    request = contextvars.ContextVar("request", default="none")
    found: list[str] = []

    def look(_logger: Any, _method: str, event: Any) -> Any:
        found.append(request.get())
        request.set("changed")
        raise structlog.DropEvent

    structlog.configure(processors=[look])
    request.set("of the maker")
    trace = open_trace()
    request.set("later")
    trace.warning("poll.late")
    trace.warning("poll.late")

    assert found == ["of the maker", "of the maker"]
    assert request.get() == "later"


def test_structlog_has_at_info_what_people_want_to_read(seen: list[dict[str, Any]]) -> None:
    trace = open_trace()
    for event in ("consumer.started", "connection.opened", "rebalance.completed", "commit.sent"):
        trace.info(event)
    trace.debug("request.sent")

    assert [event["event"] for event in seen] == ["consumer.started", "rebalance.completed"]


@pytest.mark.parametrize("logger", ["aktor", None])
def test_structlog_has_everything_if_the_logger_is_set_to_debug(
    logger: str | None, seen: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger=logger)
    trace = open_trace()
    trace.info("connection.opened")
    trace.debug("request.sent")

    assert [event["level"] for event in seen] == ["debug", "debug"]


def test_the_level_of_the_applications_own_structlog_is_kept() -> None:
    wrapper = structlog.make_filtering_bound_logger(logging.WARNING)
    written = io.StringIO()
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()],
        wrapper_class=wrapper,
        logger_factory=structlog.PrintLoggerFactory(written),
    )
    trace = open_trace()
    trace.info("consumer.started")
    trace.warning("poll.late")

    (line,) = written.getvalue().splitlines()
    assert json.loads(line)["event"] == "poll.late"


def test_structlog_may_be_configured_after_the_consumer_was_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trace = open_trace()
    trace.warning("poll.late")
    written = io.StringIO()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(written))
    trace.warning("member.lost")

    assert [record.aktor["event"] for record in caplog.records] == ["poll.late"]  # type: ignore[attr-defined]
    assert "member.lost" in written.getvalue()
    assert "poll.late" not in written.getvalue()


def test_a_filter_of_the_standard_logger_finds_the_context_variables_of_the_maker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    request = contextvars.ContextVar("request", default="none")
    found: list[str] = []

    def look(_record: Any) -> bool:
        found.append(request.get())
        return True

    request.set("of the maker")
    trace = open_trace()
    request.set("later")
    caplog.handler.addFilter(look)
    try:
        trace.warning("poll.late")
        other = threading.Thread(target=lambda: trace.warning("poll.late"))
        other.start()
        other.join(20)
    finally:
        caplog.handler.removeFilter(look)

    assert found == ["of the maker", "of the maker"]


def test_an_application_that_has_imported_structlog_only_is_told_by_the_standard_logger(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    open_trace().warning("poll.late")

    assert len(caplog.records) == 1
    assert capfd.readouterr().out == ""


def test_what_a_processor_raises_reaches_no_actor_and_is_printed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def refuse(_logger: Any, _method: str, event: Any) -> Any:
        raise ConnectionError("no log server")

    structlog.configure(processors=[refuse])
    open_trace().warning("poll.late")

    assert "no log server" in capfd.readouterr().err


def test_the_configuration_of_the_application_is_not_changed(seen: list[dict[str, Any]]) -> None:
    before = structlog.get_config()
    open_trace().error("dispatcher.failed")
    assert structlog.get_config() == before


def test_nothing_imports_structlog_while_nobody_has() -> None:
    program = """
import logging, sys
from aktor.trace import open_trace
logging.basicConfig(level=logging.DEBUG)
open_trace().warning("poll.late")
print("structlog" in sys.modules, "contextvars" in sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert ran.stdout.split()[0] == "False"
    assert "poll.late" in ran.stderr


# -- formatters


def test_a_processor_formatter_of_a_configured_structlog_gets_the_keys() -> None:
    """As in structlog's own documentation: its loggers and all others through one formatter."""
    shared = [structlog.contextvars.merge_contextvars, structlog.stdlib.add_log_level]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    structlog.contextvars.bind_contextvars(job="nightly")
    with handled_by(formatter, logging.INFO) as written:
        open_trace(consumer="app").warning("poll.late", owned=3, partitions=[A])
        open_trace().debug("request.sent")

    (line,) = map(json.loads, written.getvalue().splitlines())
    assert (line["event"], line["level"], line["logger"]) == ("poll.late", "warning", "aktor")
    assert (line["job"], line["consumer"], line["owned"]) == ("nightly", "app", 3)
    assert line["partitions"] == ["orders-0"]


def test_a_processor_formatter_alone_gets_the_keys_by_its_extra_adder() -> None:
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.ExtraAdder()],
        processor=structlog.processors.JSONRenderer(default=str),
    )
    with handled_by(formatter, logging.INFO) as written:
        open_trace(consumer="app").warning("poll.late", owned=3)

    line = json.loads(written.getvalue())
    assert (line["level"], line["consumer"], line["owned"]) == ("warning", "app", 3)
    assert line["aktor"]["event"] == "poll.late"
    assert line["event"] == "poll.late consumer=app owned=3"


def test_secrets_stay_here_whatever_way_an_event_goes(seen: list[dict[str, Any]]) -> None:
    open_trace(password="hunter2").warning("setting.unwise", value={"ssl_password": "hunter2"})

    assert "hunter2" not in repr(seen)
    assert seen[0]["password"] == "***"
