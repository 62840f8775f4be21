"""Rules of the fetch manager: what follows an error of a partition, or a Fetch without answer."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import (
    CorruptRecordError,
    KafkaConnectionError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)
from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import NEVER, REFUSED_PAUSE
from aktor.errors import CorruptBatchError
from aktor.events.metadata import (
    RefreshMetadata,
)
from aktor.managers.fetch.manager import CROWDED_WAIT
from tests.unit.managers.fetch.builders import (
    KIB,
    FetchHarness,
    a_batch,
    chunks,
    of,
    offsets,
    refreshes,
    shown_late,
    tp,
)

# -- errors of a partition


def test_an_offset_out_of_range_is_told_in_its_turn_and_ends_the_fetching() -> None:
    """Scenario 80."""
    harness = FetchHarness.reading({0: 1})
    harness.answer(harness.the_request(), of(0, a_batch(0, 10)))

    said = harness.answer(harness.the_request(), of(0, error_code=OffsetOutOfRangeError.errno))

    (chunk,) = chunks(said)
    assert (chunk.offset, chunk.size) == (10, 0)
    assert chunk.error == OffsetOutOfRangeError({tp(0): 10})
    assert harness.tick(5.0) == []
    harness.seek(0, 3, epoch=2)
    assert offsets(harness.the_request()) == {0: 3}


def test_a_forbidden_topic_is_told_once_and_tried_once_a_second() -> None:
    harness = FetchHarness.reading({0: 1})
    forbidden = of(0, error_code=TopicAuthorizationFailedError.errno)

    (chunk,) = chunks(harness.answer(harness.the_request(), forbidden))
    assert chunk.error == TopicAuthorizationFailedError({"orders"})
    assert harness.tick(REFUSED_PAUSE - 0.01) == []
    assert chunks(harness.answer(harness.the_request(0.02), forbidden)) == []

    allowed = harness.answer(harness.the_request(REFUSED_PAUSE), of(0, a_batch(0, 10)))
    assert [one.error for one in chunks(allowed)] == [None]
    (again,) = chunks(harness.answer(harness.the_request(), forbidden))
    assert again.error == TopicAuthorizationFailedError({"orders"})


def test_what_the_broker_finds_corrupt_is_told_with_its_offset() -> None:
    harness = FetchHarness.reading({0: 1})

    said = harness.answer(harness.the_request(), of(0, error_code=CorruptRecordError.errno))

    (chunk,) = chunks(said)
    assert isinstance(chunk.error, CorruptBatchError)
    assert (chunk.error.topic, chunk.error.partition, chunk.error.offset) == ("orders", 0, 0)


def test_what_we_find_corrupt_is_left_to_the_reader_and_not_fetched_again() -> None:
    """Scenario 98: testParseCorruptedRecord."""
    harness = FetchHarness.reading({0: 1})
    data = a_batch(0, 10) + bytes(100)

    data_chunk, error_chunk = chunks(harness.answer(harness.the_request(), of(0, data)))

    assert bytes(data_chunk.data) == data
    assert isinstance(error_chunk.error, CorruptBatchError)
    assert harness.tick(5.0) == []
    harness.seek(0, 11, epoch=2)
    assert offsets(harness.the_request()) == {0: 11}


@pytest.mark.parametrize("foreign", [1, TopicPartition("ghosts", 0)])
def test_a_broker_that_answers_for_other_partitions_is_not_asked_in_a_hurry(foreign: Any) -> None:
    """It would say the same thousands of times a second."""
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1, retry_backoff_max=1.0)

    waits = []
    for _ in range(6):
        harness.answer(harness.the_request(), of(foreign, a_batch(0, 10)))
        assert harness.tick() == []
        waits.append(round(harness.wake_at - harness.now, 3))
        harness.now = harness.wake_at

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert len([one for one in harness.said if isinstance(one, RefreshMetadata)]) == 6
    assert len(chunks(harness.answer(harness.the_request(), of(0, a_batch(0, 10))))) == 1


def test_behind_a_batch_that_was_corrupt_nothing_is_fetched_until_it_was_read() -> None:
    """If it stays corrupt, what was fetched behind it would be dropped with each attempt."""
    harness = FetchHarness.reading({0: 1})
    harness.seek(0, 0, epoch=2, ahead=False)

    harness.answer(harness.the_request(), of(0, a_batch(0, 10)))
    assert harness.tick(5.0) == []
    assert harness.wake_at == NEVER
    harness.consume({0: 5})  # not all of it
    assert harness.tick() == []

    harness.consume({0: 10})
    harness.answer(harness.the_request(), of(0, a_batch(10, 10)))
    assert offsets(harness.the_request()) == {0: 20}


def test_others_are_fetched_while_a_batch_that_was_corrupt_is_not_read() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1})
    harness.seek(0, 0, epoch=2, ahead=False)
    harness.answer(harness.the_request(), of(0, a_batch(0, 10)), of(1, a_batch(0, 10)))

    request = harness.the_request()

    assert offsets(request) == {1: 10}
    assert request.body.max_wait_ms > 1000 * CROWDED_WAIT


def test_batches_that_lead_nowhere_end_in_an_error_instead_of_a_loop() -> None:
    harness = FetchHarness.reading({0: 1})
    harness.seek(0, 50, epoch=2)

    *_, last = chunks(harness.answer(harness.the_request(), of(0, a_batch(10, 10))))

    assert isinstance(last.error, CorruptBatchError)
    assert last.error.offset == 50
    assert harness.tick(5.0) == []


@pytest.mark.parametrize("code", [UnknownError.errno, 89, 999])
def test_any_other_error_that_may_pass_is_retried_with_growing_backoff(code: int) -> None:
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1, retry_backoff_max=1.0)

    waits = []
    for _ in range(6):
        assert chunks(harness.answer(harness.the_request(), of(0, error_code=code))) == []
        harness.tick()
        waits.append(round(harness.wake_at - harness.now, 3))
        harness.now = harness.wake_at

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert len(harness.events("fetch.failed")) == 6


def test_an_error_that_will_not_pass_is_told() -> None:
    harness = FetchHarness.reading({0: 1})
    code = UnsupportedCompressionTypeError.errno

    (chunk,) = chunks(harness.answer(harness.the_request(), of(0, error_code=code)))

    assert isinstance(chunk.error, UnsupportedCompressionTypeError)
    assert "orders-0 at offset 0 was refused by broker 1 at" in str(chunk.error)


# -- errors of a request


def test_a_failed_request_is_repeated_in_full_after_the_backoff() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1}, retry_backoff=0.1)
    harness.answer(harness.the_request(), of(0, a_batch(0, 10)), of(1))

    said = harness.fail(harness.the_request(), KafkaConnectionError("disconnected"))

    assert len(refreshes(said)) == 1
    assert harness.tick(0.09) == []
    request = harness.the_request(0.02)
    assert (request.body.session_id, request.body.session_epoch) == (77, 0)
    assert offsets(request) == {0: 10, 1: 0}
    assert harness.events("fetch.failed")[0]["node"] == 1


def test_an_answer_ends_the_backoff_of_a_node() -> None:
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1)
    for _ in range(3):
        harness.fail(harness.the_request(2.0), KafkaConnectionError("disconnected"))
    harness.answer(harness.the_request(2.0), of(0, a_batch(0, 10)))

    harness.fail(harness.the_request(), KafkaConnectionError("disconnected"))

    assert len(harness.tick(0.11)) == 1


def test_a_node_that_fails_does_not_stop_the_others() -> None:
    harness = FetchHarness.reading({0: 1, 1: 2})
    first, second = harness.tick()

    harness.fail(first, KafkaConnectionError("refused"))
    harness.answer(second, of(second.body.topics[0].partitions[0].partition, a_batch(0, 10)))

    assert [one.to for one in harness.tick()] == [second.to]


def test_a_silent_broker_is_given_up_soon_and_then_gets_more_time_for_less() -> None:
    harness = FetchHarness.reading(
        {0: 1}, fetch_max_wait=0.5, request_timeout=30.0, fetch_max_bytes=800
    )

    patience, sizes = [], []
    for _ in range(5):
        request = harness.the_request(2.0)
        patience.append(request.deadline - harness.now)
        sizes.append(request.body.max_bytes)
        harness.fail(request, KafkaTimeoutError("no answer"))

    assert patience == pytest.approx([5.5, 11.0, 22.0, 30.0, 30.0])
    assert sizes == [800, 400, 200, 100, 50]


def brought_by_a_line(harness: FetchHarness, rate: float, seconds: float) -> float:
    """Bytes a second that come from a broker whose logs are endless, over a line of so many."""
    until, brought = harness.now + seconds, 0
    while harness.now < until:
        requests = harness.tick()
        if not requests:
            harness.now = harness.wake_at
            continue
        (request,) = requests
        size = request.body.max_bytes
        if size / rate > harness.settings.request_timeout:
            harness.fail(request, KafkaTimeoutError("no answer"), after=30.0)
            continue
        asked = offsets(request)
        data = [of(one, a_batch(at, 1, size=size // len(asked))) for one, at in asked.items()]
        said = harness.answer(request, *data, after=size / rate)
        freed = sum(chunk.size for chunk in chunks(said))
        harness.consume({one: at + 1 for one, at in asked.items()}, freed=freed)
        brought += size
    return brought / seconds


@pytest.mark.parametrize("rate", [10e3, 100e3, 300e3, 1e6])
def test_a_slow_line_brings_what_it_can(rate: float) -> None:
    harness = FetchHarness.reading(dict.fromkeys(range(20), 1))
    brought_by_a_line(harness, rate, 120.0)  # it is found out how slow the line is

    assert brought_by_a_line(harness, rate, 300.0) > 0.95 * rate


def test_a_line_that_was_slow_is_used_in_full_when_it_is_quick_again() -> None:
    harness = FetchHarness.reading(dict.fromkeys(range(20), 1), max_buffered_bytes=50 * KIB**2)
    brought_by_a_line(harness, 100e3, 120.0)

    brought_by_a_line(harness, 100e6, 1.0)

    assert harness.the_request().body.max_bytes == 20 * KIB**2


def test_while_an_answer_is_late_metadata_is_asked_whether_the_leader_is_another() -> None:
    """A frozen broker: Kafka may name another one long before our patience ends."""
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5)
    harness.the_request()
    harness.said.clear()

    harness.tick(1.4)
    assert refreshes(harness.said) == []
    harness.tick(0.2)
    harness.tick(0.5)
    assert len(refreshes(harness.said)) == 1
    assert "node 1" in refreshes(harness.said)[0].because
    harness.tick(0.7)
    assert len(refreshes(harness.said)) == 2

    harness.cluster({0: 2})
    assert harness.the_request().to == 2


def test_the_answer_to_a_broker_that_failed_before_is_late_sooner() -> None:
    """It froze, and Kafka named no other when it was given up: the patience with it is long now."""
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5)
    harness.fail(harness.the_request(), KafkaTimeoutError("no answer"), after=5.5)
    harness.the_request(1.0)
    harness.said.clear()

    harness.tick(harness.wake_at - harness.now)

    assert harness.wake_at - harness.now < 1.3
    assert len(refreshes(harness.said)) == 1


def test_a_broker_that_has_failed_to_answer_owes_the_answer_until_one_comes() -> None:
    """A connection that ends, and the next attempt, do not mean that there is nothing new."""
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5)
    harness.fail(harness.the_request(), KafkaConnectionError("it hung up"), after=0.4)
    failed_at = harness.now

    assert shown_late(harness) == {1: failed_at}
    harness.fail(harness.the_request(1.0), KafkaTimeoutError("no answer"), after=3.0)
    assert shown_late(harness) == {1: failed_at}
    harness.answer(harness.the_request(5.0), of(0))
    assert shown_late(harness) == {}


def test_a_broker_that_leads_nothing_any_more_owes_no_answer() -> None:
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5)
    harness.fail(harness.the_request(), KafkaConnectionError("it hung up"), after=0.4)

    harness.cluster({0: 2})

    assert shown_late(harness) == {}


def test_an_answer_in_time_asks_no_metadata() -> None:
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=0.5)
    for _ in range(10):
        harness.answer(harness.the_request(), of(0), after=0.5)
    assert refreshes(harness.said) == []


def test_a_request_timeout_below_the_longest_wait_shortens_the_wait() -> None:
    harness = FetchHarness.reading({0: 1}, fetch_max_wait=10.0, request_timeout=4.0)

    request = harness.the_request()

    assert request.deadline - harness.now == 4.0
    assert request.body.max_wait_ms == 2000


def test_a_broker_that_speaks_no_version_of_ours_is_told_to_the_application() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1})
    error = UnsupportedVersionError("Fetch")

    said = harness.fail(harness.the_request(), error)
    harness.answer(harness.the_request(REFUSED_PAUSE), of(0), of(1))

    told = {one.partition: str(one.error) for one in chunks(said)}
    assert told.keys() == {tp(0), tp(1)}
    assert all(str(error.args[0]) in text and "too old" in text for text in told.values())
