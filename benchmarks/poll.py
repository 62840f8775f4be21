"""A poll that finds its records here: it decodes them, and asks nobody anything."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import aktor
from aktor.consumer.core import rows
from aktor.records import RecordReader
from benchmarks import child
from benchmarks.clients import open_client
from benchmarks.site import Site
from benchmarks.tables import Table, ratio, spread

ROUNDS: Final = 5
RECORDS: Final = 150_000
POLLS: Final = 100
RECORDS_A_POLL: Final = 500
SECONDS_TO_FILL: Final = 2.0


def tables(site: Site) -> list[Table]:
    """Time, waits and wake-ups of polls that find 500 records in the buffer."""
    topic = site.new_topic(1)
    site.fill(topic, (b"%0100d" % number for number in range(RECORDS)))
    place: dict[str, Any] = {"bootstrap": site.bootstrap, "topic": topic}
    rounds = range(1 if site.quick else ROUNDS)
    ours, theirs = [], []
    for _ in rounds:
        ours.append(child.run(poll_aktor, **place))
        theirs.append(child.run(poll_kafka_python, **place))

    def of(one: str) -> list[float]:
        return [figures[one] for figures in ours]

    return [
        Table(
            title=(
                f"poll: {POLLS} polls of {RECORDS_A_POLL} buffered 100-byte records, "
                f"median (least-most) of {len(rounds)} rounds"
            ),
            columns=["per poll", "aktor", "kafka-python", "target"],
            rows=[
                ["µs", spread(of("poll_us"), 0), spread(theirs, 0), ""],
                ["of it decoding, µs", spread(of("decode_us"), 0), "", ""],
                ["the rest of the poll, µs", spread(of("rest_us"), 1), "", ""],
                ["ratio of the time", f"{ratio(of('poll_us'), theirs):.2f}", "1", ""],
                ["times the background was woken", spread(of("wakes"), 2), "", _none(of("wakes"))],
                ["times it waited for anything", spread(of("waits"), 2), "", _none(of("waits"))],
            ],
            notes=[
                "Woken: calls of the dispatcher's `sleeper.wake`; waited: rings or timeouts of the "
                "bell on the application thread.",
            ],
        )
    ]


def _none(counts: list[float]) -> str:
    return f"0: {'met' if median(counts) == 0 else 'NOT met'}"


def poll_aktor(bootstrap: list[str], topic: str) -> dict[str, float]:
    """Per poll: the time, the decoder's part of it, wake-ups of the background, waits."""
    decoding = _Stopwatch(RecordReader.take)
    # A subclass, since a compiled class cannot be patched.
    rows.RecordReader = type("Timed", (RecordReader,), {"take": decoding})  # type: ignore[misc]
    client = open_client("aktor", bootstrap, topic)
    _fill_the_buffer(client)
    wakes, waits = _count_wakes_and_waits(client.consumer)
    decoding.seconds = 0.0
    elapsed = _time_polls(client)
    figures = {
        "poll_us": elapsed / POLLS * 1e6,
        "decode_us": decoding.seconds / POLLS * 1e6,
        "rest_us": (elapsed - decoding.seconds) / POLLS * 1e6,
        "wakes": wakes.calls / POLLS,
        "waits": waits.calls / POLLS,
    }
    client.close()
    return figures


def poll_kafka_python(bootstrap: list[str], topic: str) -> float:
    """Microseconds per poll."""
    client = open_client("kafka-python", bootstrap, topic)
    _fill_the_buffer(client)
    elapsed = _time_polls(client)
    client.close()
    return elapsed / POLLS * 1e6


class _Stopwatch:
    """Stands in for a method and adds up what its calls take."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.calls = 0
        self.seconds = 0.0

    def __get__(self, instance: Any, owner: Any) -> Callable[..., Any]:
        return lambda *arguments: self(instance, *arguments)

    def __call__(self, *arguments: Any) -> Any:
        start = time.perf_counter()
        result = self._method(*arguments)
        self.seconds += time.perf_counter() - start
        self.calls += 1
        return result


def _count_wakes_and_waits(consumer: aktor.KafkaConsumer) -> tuple[_Stopwatch, _Stopwatch]:
    sleeper: Any = consumer._system.dispatcher.sleeper
    driver: Any = consumer._driver
    sleeper.wake = wakes = _Stopwatch(sleeper.wake)
    driver._bell = _Bell(driver._bell)
    return wakes, driver._bell.wait


class _Bell:
    """The bell, with its waits counted."""

    def __init__(self, bell: Any) -> None:
        self.ring = bell.ring
        self.wait = _Stopwatch(bell.wait)


def _fill_the_buffer(client: Any) -> None:
    deadline = time.monotonic() + 30
    while not client.poll(1.0, RECORDS_A_POLL):
        assert time.monotonic() < deadline, "no records came"
    time.sleep(SECONDS_TO_FILL)


def _time_polls(client: Any) -> float:
    """The polls alone: to free the records of the last one is the application's affair."""
    elapsed = 0.0
    for _ in range(POLLS):
        start = time.perf_counter()
        batches = client.poll(1.0, RECORDS_A_POLL)
        elapsed += time.perf_counter() - start
        assert batches, "the buffer was empty"
        del batches
    return elapsed
