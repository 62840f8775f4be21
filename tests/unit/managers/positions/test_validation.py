"""Whether leaders have what was read (KIP-320)."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import (
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    UnsupportedVersionError,
)
from kafka.structs import TopicPartition

from aktor.events.metadata import RefreshMetadata
from aktor.events.positions import (
    AssignmentChanged,
    Divergence,
    Position,
    PositionsDiverged,
    PositionsValidated,
    Reset,
    ResetPositions,
    ResetStrategy,
    SeekPartitions,
    TruncationFound,
    Validated,
    ValidatePositions,
)
from aktor.managers.positions.manager import PositionManager
from aktor.trace import recording
from tests.unit.managers.builders import (
    NOT_LEADER,
    T0,
    T1,
    T2,
    TOPIC_AUTHORIZATION_FAILED,
    answer,
    fail,
    tick,
)
from tests.unit.managers.positions.builders import a_cluster, a_manager, at, epochs


def a_manager_validating(
    *positions: tuple[TopicPartition, int, int], knows: Any = None, **settings: Any
) -> PositionManager:
    """Leaders (by default broker 1 in epoch 5) are to be asked about these: (partition, offset, its
    leader epoch)."""
    manager = a_manager(knows=knows, **settings)
    assigned = {tp: at(offset, leader_epoch=epoch) for tp, offset, epoch in positions}
    manager.handle(AssignmentChanged(partitions=assigned))
    manager.handle(ValidatePositions(partitions=assigned))
    return manager


def validated_in(said: list[object]) -> dict[TopicPartition, Validated]:
    """All positions that were found to be valid."""
    return {
        tp: one
        for message in said
        if isinstance(message, PositionsValidated)
        for tp, one in message.partitions.items()
    }


def truncation_in(said: list[object]) -> TruncationFound | None:
    """The truncation that was told, if one was."""
    found = [one for one in said if isinstance(one, TruncationFound)]
    assert len(found) <= 1
    return found[0] if found else None


def test_a_leader_is_asked_where_the_epoch_of_the_position_ends() -> None:
    manager = a_manager_validating((T0, 20, 3), (T1, 7, 4))

    request = tick(manager, 0.0).request

    assert request.to == 1
    assert request.body.replica_id == -1  # a consumer: not allowed to see past the high watermark
    assert {
        (topic.topic, one.partition): (one.current_leader_epoch, one.leader_epoch)
        for topic in request.body.topics
        for one in topic.partitions
    } == {("t", 0): (5, 3), ("t", 1): (5, 4)}


@pytest.mark.parametrize("end", [20, 25])
def test_a_position_is_valid_if_its_epoch_ends_at_it_or_later(end: int) -> None:
    manager = a_manager_validating((T0, 20, 3))
    request = tick(manager, 0.0).request

    said = answer(manager, request, epochs({T0: (3, end)}))

    assert validated_in(said) == {T0: Validated(epoch=1, leader_epoch=5)}
    assert truncation_in(said) is None
    assert tick(manager, 9.0).requests == ()


@pytest.mark.parametrize("end", [(3, 10), (2, 25), (2, 20), (2, 10)])
def test_a_log_that_leaves_ours_is_told_with_where_it_does(end: tuple[int, int]) -> None:
    """The epoch ends before the position, or the leader has never heard of it."""
    manager = a_manager_validating((T0, 20, 3))
    request = tick(manager, 0.0).request

    said = answer(manager, request, epochs({T0: end}))

    found = truncation_in(said)
    assert found is not None
    assert found.partitions == {
        T0: Divergence(
            epoch=1,
            position=Position(offset=20, leader_epoch=3),
            end=Position(offset=end[1], leader_epoch=end[0]),
            node=1,
        )
    }
    assert validated_in(said) == {}
    assert tick(manager, 9.0).requests == ()


@pytest.mark.parametrize("end", [(-1, -1), (-1, 20), (3, -1)])
def test_a_leader_that_knows_no_such_epoch_leaves_open_where_the_logs_differ(
    end: tuple[int, int],
) -> None:
    manager = a_manager_validating((T0, 20, 3))
    request = tick(manager, 0.0).request

    found = truncation_in(answer(manager, request, epochs({T0: end})))

    assert found is not None
    assert found.partitions[T0].end is None


def test_what_one_partition_is_told_says_nothing_about_the_others() -> None:
    manager = a_manager_validating((T0, 20, 3), (T1, 20, 3), (T2, 20, 3))
    request = tick(manager, 0.0).request

    said = answer(manager, request, epochs({T0: (3, 10), T1: (3, 20)}, errors={T2: NOT_LEADER}))

    found = truncation_in(said)
    assert found is not None
    assert found.partitions.keys() == {T0}
    assert validated_in(said).keys() == {T1}
    (again,) = tick(manager, 1.0).requests
    assert [one.partition for topic in again.body.topics for one in topic.partitions] == [2]
    assert any(isinstance(one, RefreshMetadata) for one in said)


def test_a_partition_without_a_leader_is_asked_about_when_it_has_one() -> None:
    manager = a_manager_validating((T0, 20, 3), knows=a_cluster({T0: (-1, 5)}))

    turn = tick(manager, 0.0)
    assert turn.requests == ()
    assert any(isinstance(one, RefreshMetadata) for one in turn.said)

    manager.handle(a_cluster({T0: (2, 6)}, version=2))
    assert tick(manager, 0.0).request.to == 2


def test_a_leader_that_does_not_answer_is_asked_again_with_backoff() -> None:
    manager = a_manager_validating((T0, 20, 3))
    request = tick(manager, 0.0).request

    fail(manager, request, KafkaConnectionError("gone"), now=1.0)

    assert tick(manager, 1.0).requests == ()
    (again,) = tick(manager, 1.2).requests
    assert validated_in(answer(manager, again, epochs({T0: (3, 20)}))).keys() == {T0}


@pytest.mark.parametrize("move", ["seek", "reset", "assign", "leader"])
def test_an_answer_counts_only_for_the_position_that_was_asked_about(move: str) -> None:
    trace, events = recording()
    manager = a_manager_validating((T0, 20, 3), trace=trace)
    request = tick(manager, 0.0).request
    match move:
        case "seek":
            manager.handle(SeekPartitions(partitions={T0: at(5, epoch=2)}))
        case "reset":
            reset = Reset(epoch=2, strategy=ResetStrategy.EARLIEST)
            manager.handle(ResetPositions(partitions={T0: reset}, because="test"))
        case "assign":
            manager.handle(AssignmentChanged(partitions={T0: at(5, epoch=2)}))
        case _:
            manager.handle(a_cluster({T0: (2, 6)}, version=2))

    said = answer(manager, request, epochs({T0: (3, 10)}))

    assert (truncation_in(said) is not None) is (move == "leader")  # it asked about this position
    assert validated_in(said) == {}
    assert ("position.dropped" in {one["event"] for one in events}) is (move != "leader")


def test_a_question_of_an_older_epoch_is_not_asked() -> None:
    """The application has sought while the fetch manager asked."""
    manager = a_manager()
    manager.handle(AssignmentChanged(partitions={T0: at(20, epoch=2)}))

    manager.handle(ValidatePositions(partitions={T0: at(10, epoch=1)}))

    assert tick(manager, 0.0).requests == ()


def test_a_diverging_fetch_is_told_as_it_is_and_nobody_is_asked() -> None:
    manager = a_manager(auto_offset_reset="earliest")
    manager.handle(AssignmentChanged(partitions={T0: at(20, leader_epoch=3)}))
    found = Divergence(
        epoch=1,
        position=Position(offset=20, leader_epoch=3),
        end=Position(offset=10, leader_epoch=3),
        node=2,
    )

    said = manager.handle(PositionsDiverged(partitions={T0: found}))

    assert truncation_in(said) == TruncationFound(partitions={T0: found})
    assert truncation_in(manager.handle(PositionsDiverged(partitions={T0: found}))) is None
    assert tick(manager, 0.0).requests == ()


def test_after_a_truncation_a_seek_leads_to_a_new_position_that_can_be_asked_about() -> None:
    manager = a_manager_validating((T0, 20, 3))
    answer(manager, tick(manager, 0.0).request, epochs({T0: (3, 10)}))

    manager.handle(SeekPartitions(partitions={T0: at(10, leader_epoch=3, epoch=2)}))
    manager.handle(ValidatePositions(partitions={T0: at(10, leader_epoch=3, epoch=2)}))

    said = answer(manager, tick(manager, 0.0).request, epochs({T0: (3, 10)}))
    assert validated_in(said) == {T0: Validated(epoch=2, leader_epoch=5)}


@pytest.mark.parametrize("error", [UnsupportedVersionError, IncompatibleBrokerVersion])
def test_brokers_too_old_to_be_asked_are_fetched_from_as_they_were(error: Any) -> None:
    """Before v3 only brokers may ask (KIP-320)."""
    manager = a_manager_validating((T0, 20, 3))
    request = tick(manager, 0.0).request

    assert validated_in(fail(manager, request, error("too old"))).keys() == {T0}


def test_a_leader_that_may_not_be_asked_is_fetched_from_which_tells_the_refusal() -> None:
    manager = a_manager_validating((T0, 20, 3))
    request = tick(manager, 0.0).request

    said = answer(manager, request, epochs({}, errors={T0: TOPIC_AUTHORIZATION_FAILED}))

    assert validated_in(said).keys() == {T0}
