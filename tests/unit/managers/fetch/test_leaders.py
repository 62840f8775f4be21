"""Rules of the fetch manager: whom it asks, while leaders move, and if a replica is near by."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaConnectionError,
    KafkaStorageError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    ReplicaNotAvailableError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import TopicPartition

from aktor.events.metadata import (
    LeaderEpochsUnknown,
    LeadersMoved,
    PartitionInfo,
)
from aktor.events.network import Request
from aktor.events.positions import Assigned, Position, SeekPartitions
from aktor.events.present import FetchNow
from tests.unit.managers.fetch.builders import (
    FetchHarness,
    a_batch,
    chunks,
    forgotten,
    of,
    offsets,
    refreshes,
    shown_late,
    tp,
)

# -- leaders


STALE = [
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaStorageError,
    LeaderNotAvailableError,
    NotLeaderForPartitionError,
    OffsetNotAvailableError,
    ReplicaNotAvailableError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
]


@pytest.mark.parametrize("error", STALE[:-1])
def test_an_error_of_stale_metadata_asks_for_it_and_waits_for_the_backoff(error: Any) -> None:
    harness = FetchHarness.reading({0: 1, 1: 1}, retry_backoff=0.1)

    said = harness.answer(
        harness.the_request(), of(0, error_code=error.errno), of(1, a_batch(0, 10))
    )

    assert len(refreshes(said)) == 1
    assert [chunk.partition for chunk in chunks(said)] == [tp(1)]
    request = harness.the_request(0.09)
    assert (offsets(request), forgotten(request)) == ({1: 10}, {0})
    harness.answer(request, of(1, a_batch(10, 10)))
    assert offsets(harness.the_request(0.02)) == {0: 0, 1: 20}


def test_a_leader_that_has_not_heard_of_its_election_yet_is_asked_again() -> None:
    """Who followed the old leader's hint may be earlier (KIP-951). As in Java's FetchCollector."""
    harness = FetchHarness.reading({0: (1, 6)}, retry_backoff=0.1)

    said = harness.answer(harness.the_request(), of(0, error_code=UnknownLeaderEpochError.errno))

    assert refreshes(said) == []
    assert harness.tick(0.09) == []
    assert harness.the_request(0.02).to == 1


def test_a_partition_that_a_broker_does_not_know_rests_until_the_metadata_is_fresh() -> None:
    """Its topic may be created anew: an old offset must not be read of that one."""
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1)

    said = harness.answer(
        harness.the_request(), of(0, error_code=UnknownTopicOrPartitionError.errno)
    )

    assert len(refreshes(said)) == 1
    assert harness.tick(0.49) == []
    harness.the_request(0.02)  # the session has it still


@pytest.mark.parametrize("error", [*STALE, UnknownLeaderEpochError])
def test_a_changed_leader_ends_the_backoff(error: Any) -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    harness.answer(harness.the_request(), of(0, error_code=error.errno))
    assert harness.tick() == []

    harness.cluster({0: (2, 6)})

    request = harness.the_request()
    assert (request.to, offsets(request)) == (2, {0: 0})
    assert request.body.topics[0].partitions[0].current_leader_epoch == 6


@pytest.mark.parametrize("error", [NotLeaderForPartitionError, FencedLeaderEpochError])
def test_the_new_leader_that_an_answer_names_is_asked_at_once(error: Any) -> None:
    """Scenario 104 (KIP-951)."""
    harness = FetchHarness.reading({0: (1, 5)})

    said = harness.answer(
        harness.the_request(), of(0, error_code=error.errno, current_leader=(3, 8))
    )

    moved = {tp(0): PartitionInfo(leader=3, leader_epoch=8)}
    assert said == [LeadersMoved(leaders=moved, topic_ids={"orders": None})]
    request = harness.the_request()
    assert request.to == 3
    assert request.body.topics[0].partitions[0].current_leader_epoch == 8


@pytest.mark.parametrize(
    ("read_in", "told"),
    [(-1, {tp(0): 5}), (4, {tp(0): 5}), (5, None)],
    ids=["nothing was read", "read from an earlier leader", "read in this epoch"],
)
def test_the_metadata_manager_hears_of_epochs_that_a_leader_does_not_know(
    read_in: int, told: dict[Any, int] | None
) -> None:
    """A record of that epoch proves that it exists."""
    harness = FetchHarness.reading({0: (1, 5)})
    to = Assigned(epoch=2, position=Position(offset=9, leader_epoch=read_in))
    harness.tell(SeekPartitions(partitions={tp(0): to}))

    said = harness.answer(harness.the_request(), of(0, error_code=UnknownLeaderEpochError.errno))

    epochs = [one.epochs for one in said if isinstance(one, LeaderEpochsUnknown)]
    assert epochs == ([] if told is None else [told])


def test_a_named_leader_that_is_unknown_or_not_newer_waits_for_metadata() -> None:
    harness = FetchHarness.reading({0: (1, 5), 1: (1, 5)})
    moved = NotLeaderForPartitionError.errno

    said = harness.answer(
        harness.the_request(),
        of(0, error_code=moved, current_leader=(9, 8)),
        of(1, error_code=moved, current_leader=(3, 5)),
    )

    (leaders,) = (one.leaders for one in said if isinstance(one, LeadersMoved))
    assert set(leaders) == {("orders", 0)}
    assert len(refreshes(said)) == 1
    assert harness.tick() == []


def test_what_metadata_says_later_replaces_the_named_leader() -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    moved = NotLeaderForPartitionError.errno
    harness.answer(harness.the_request(), of(0, error_code=moved, current_leader=(3, 8)))

    harness.cluster({0: (2, 0)})  # the topic was made anew: its epochs begin again

    assert harness.the_request().to == 2


def test_a_partition_moves_to_its_new_leader_while_the_old_one_is_still_asked() -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    old = harness.the_request()
    harness.cluster({0: (2, 6)})

    new = harness.the_request()
    first = harness.answer(old, of(0, a_batch(0, 10)))
    second = harness.answer(new, of(0, a_batch(0, 10)))

    assert (old.to, new.to) == (1, 2)
    assert [len(chunks(said)) for said in (first, second)] == [1, 0]
    assert offsets(harness.the_request()) == {0: 10}


def test_an_error_of_the_old_leader_does_not_hold_back_the_new_one() -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    old = harness.the_request()
    harness.cluster({0: (2, 6)})

    said = harness.answer(old, of(0, error_code=OffsetOutOfRangeError.errno))

    assert said == []
    assert harness.the_request().to == 2


def test_a_missing_leader_is_asked_for_with_backoff_and_fetched_from_when_known() -> None:
    """Scenario 94, MissingLeader."""
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1)
    harness.cluster({})
    harness.said.clear()

    assert harness.tick() == []
    harness.tick(0.05)
    assert len(refreshes(harness.said)) == 1
    assert harness.wake_at == pytest.approx(harness.now + 0.05)
    harness.tick(0.06)
    assert len(refreshes(harness.said)) == 2
    assert "orders-0" in refreshes(harness.said)[0].because

    harness.cluster({0: 3})
    assert harness.the_request().to == 3
    harness.cluster({})
    harness.said.clear()
    harness.tick()
    harness.tick(0.11)
    assert len(refreshes(harness.said)) == 2  # the backoff began anew


# -- replicas near us


def around_a_replica() -> tuple[FetchHarness, Request]:
    """The leader 1 has sent us to the replica 2; that is asked now."""
    harness = FetchHarness.reading({0: (1, 5)}, client_rack="east", metadata_max_age=300.0)
    harness.answer(harness.the_request(), of(0, preferred_read_replica=2))
    return harness, harness.the_request()


def test_the_preferred_replica_is_read_until_its_time_is_over() -> None:
    harness, request = around_a_replica()

    harness.answer(request, of(0, a_batch(0, 10)))
    second = harness.the_request()
    harness.answer(second, after=300.1)
    third = harness.the_request()

    assert [request.to, second.to, third.to] == [2, 2, 1]
    assert second.body.topics[0].partitions[0].current_leader_epoch == 5
    assert offsets(third) == {0: 10}


def test_out_of_range_at_a_replica_is_asked_of_the_leader() -> None:
    harness, request = around_a_replica()

    said = harness.answer(request, of(0, error_code=OffsetOutOfRangeError.errno))

    assert chunks(said) == []
    assert harness.the_request(0.2).to == 1


def test_a_replica_that_is_read_owes_an_answer_and_is_shown_until_it_is_left() -> None:
    """Else its partition would be said to be fetched while nothing comes."""
    harness, request = around_a_replica()
    asked_at = harness.now

    harness.tick(3.0)
    harness.cluster({0: (1, 5)})

    assert shown_late(harness) == {2: asked_at}
    assert shown_replicas(harness) == {tp(0): 2}
    harness.fail(request, KafkaConnectionError("disconnected"), after=0.1)
    harness.tick(0.1)
    assert shown_replicas(harness) == {}


def test_how_a_fetch_failed_is_shown_until_one_is_answered() -> None:
    """Its age is no age of a request: it may never have been sent."""
    harness, request = around_a_replica()
    harness.fail(request, KafkaConnectionError("disconnected"), after=0.1)
    assert shown_failed(harness) == {2: (harness.now, "KafkaConnectionError: disconnected")}
    again = harness.the_request()
    harness.fail(again, KafkaConnectionError("refused"), after=3.0)
    assert shown_failed(harness)[1] == (harness.now, "KafkaConnectionError: refused")
    harness.answer(harness.the_request(5.0), of(0, a_batch(0, 10)), after=0.1)

    assert 1 not in shown_failed(harness)


def shown_failed(harness: FetchHarness) -> dict[int, tuple[float, str]]:
    """How the last Fetches failed, by what `status()` is made of."""
    harness.manager.note_present(harness.now)
    shown = harness.manager.present
    assert isinstance(shown, FetchNow)
    return dict(shown.failed)


def shown_replicas(harness: FetchHarness) -> dict[TopicPartition, int]:
    """Which brokers are read instead of leaders, by what `status()` is made of."""
    harness.manager.note_present(harness.now)
    shown = harness.manager.present
    assert isinstance(shown, FetchNow)
    return dict(shown.replicas)


def test_a_replica_that_does_not_answer_is_left() -> None:
    harness, request = around_a_replica()

    harness.fail(request, KafkaConnectionError("disconnected"), after=0.1)

    assert harness.the_request().to == 1


def test_a_replica_that_is_gone_is_left() -> None:
    harness, request = around_a_replica()
    harness.answer(request, of(0, a_batch(0, 10)), after=0.1)

    harness.cluster({0: (1, 5)}, brokers=(1, 3))

    assert harness.the_request().to == 1


def test_an_unknown_preferred_replica_is_no_reason_to_spin() -> None:
    harness = FetchHarness.reading({0: 1}, retry_backoff=0.1)

    said = harness.answer(harness.the_request(), of(0, preferred_read_replica=9))

    assert len(refreshes(said)) == 1
    assert harness.tick(0.05) == []
    assert harness.the_request(0.06).to == 1
