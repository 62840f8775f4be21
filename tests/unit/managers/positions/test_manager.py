"""The position manager: where each assigned partition starts, and offsets by time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest
from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownLeaderEpochError,
    UnsupportedVersionError,
)
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.structs import TopicPartition

from aktor.events.answers import Answered
from aktor.events.commits import (
    ExplainStartingOffset,
    FindStartingOffsets,
    StartingOffsetsFailed,
)
from aktor.events.metadata import LeaderEpochsUnknown, RefreshMetadata
from aktor.events.network import Request
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    ExplainPosition,
    Position,
    PositionsFailed,
    Reset,
    ResetPositions,
    ResetStrategy,
    SeekPartitions,
)
from aktor.managers.positions.manager import PositionManager
from aktor.managers.positions.partition import TRANSITIONS, State, Trigger
from aktor.settings import Settings
from aktor.trace import recording
from tests.unit.managers.builders import (
    NOT_LEADER,
    OFFSET_NOT_AVAILABLE,
    T0,
    T1,
    T2,
    TOPIC_AUTHORIZATION_FAILED,
    Turn,
    answer,
    fail,
    tick,
)
from tests.unit.managers.positions.builders import (
    a_cluster,
    a_manager,
    a_manager_resetting,
    asked_of,
    assign,
    at,
    commits_say,
    failure_in,
    offsets,
    resolved_in,
)

EARLIEST, LATEST = ResetStrategy.EARLIEST, ResetStrategy.LATEST


# -- committed offsets


def test_new_partitions_without_a_position_are_asked_for_in_one_message() -> None:
    manager = a_manager()

    said = assign(manager, T0, T1)

    assert said == [FindStartingOffsets(partitions=frozenset({T0, T1}))]


def test_a_committed_offset_is_the_position_with_its_leader_epoch() -> None:
    manager = a_manager()
    assign(manager, T0, epoch=4)

    said = commits_say(manager, {T0: 42})

    assert resolved_in(said) == {T0: at(42, leader_epoch=3, epoch=4)}
    assert tick(manager, 0.0) == Turn((), math.inf, [])


def test_a_partition_that_comes_with_its_position_is_neither_asked_for_nor_told() -> None:
    manager = a_manager()

    said = manager.handle(AssignmentChanged(partitions={T0: at(7), T1: Assigned(epoch=1)}))

    assert said == [FindStartingOffsets(partitions=frozenset({T1}))]


def test_only_what_is_new_is_asked_for_when_the_assignment_grows() -> None:
    manager = a_manager()
    assign(manager, T0)

    said = assign(manager, T0, T1)

    assert said == [FindStartingOffsets(partitions=frozenset({T1}))]


def test_a_partition_in_a_new_epoch_is_new() -> None:
    manager = a_manager()
    assign(manager, T0, epoch=1)
    commits_say(manager, {T0: 42})

    said = assign(manager, T0, epoch=2)

    assert said == [FindStartingOffsets(partitions=frozenset({T0}))]


def test_committed_offsets_count_only_for_partitions_that_still_wait_for_them() -> None:
    """Scenario 85, ...DoesNotApplyOffsetsIfPartitionNotInitializingAnymore; also 86."""
    manager = a_manager()
    assign(manager, T0, T1)
    assign(manager, T0)
    manager.handle(SeekPartitions(partitions={T0: at(7, epoch=2)}))

    assert commits_say(manager, {T0: 42, T1: 43}) == []


def test_a_partition_is_not_reset_before_its_committed_offset_is_known() -> None:
    """Scenario 85 (KAFKA-17674): T1 was added while T0's committed offset was looked up."""
    manager = a_manager(auto_offset_reset="latest")
    assign(manager, T0)
    assign(manager, T0, T1)

    commits_say(manager, {T0: None})

    assert asked_of(tick(manager, 0.0).request) == {T0: -1}
    assert resolved_in(commits_say(manager, {T1: 9})) == {T1: at(9, leader_epoch=3)}


def test_committed_offsets_that_cannot_be_known_fail_the_partitions_that_wait() -> None:
    manager = a_manager()
    assign(manager, T0, T1, epoch=3)
    commits_say(manager, {T1: 9})
    error = KafkaConnectionError("no right to the group")

    said = manager.handle(StartingOffsetsFailed(partitions=frozenset({T0, T1}), error=error))

    assert said == [PositionsFailed(epochs={T0: 3}, error=error)]


def test_without_a_group_the_policy_applies_at_once() -> None:
    manager = a_manager(group_id=None, auto_offset_reset="earliest")

    assert assign(manager, T0) == []

    assert asked_of(tick(manager, 0.0).request) == {T0: -2}


# -- the policy


@pytest.mark.parametrize(
    ("policy", "timestamp", "leader_epoch"), [("earliest", -2, -1), ("latest", -1, 5)]
)
def test_without_a_committed_offset_the_policy_says_where_to_go(
    policy: str, timestamp: int, leader_epoch: int
) -> None:
    """Scenario 82. The answer to "earliest" has the epoch of the record behind the position."""
    manager = a_manager_resetting(T0, auto_offset_reset=policy)

    request = tick(manager, 0.0).request
    said = answer(manager, request, offsets({T0: 17}))

    assert request.to == 1
    assert asked_of(request) == {T0: timestamp}
    assert resolved_in(said) == {T0: at(17, leader_epoch=leader_epoch)}


def test_by_duration_the_first_record_of_the_last_so_many_seconds_is_looked_for() -> None:
    """KIP-1106."""
    manager = a_manager_resetting(T0, auto_offset_reset="by_duration:PT1H")

    request = tick(manager, 0.0, wall=10_000.5).request
    said = answer(manager, request, offsets({T0: 17}))

    assert asked_of(request) == {T0: 6_400_500}
    assert resolved_in(said) == {T0: at(17, leader_epoch=-1)}


def test_by_duration_the_log_ends_where_no_record_is_so_young_and_none_is_lost_meanwhile() -> None:
    manager = a_manager_resetting(T0, auto_offset_reset="by_duration:PT1H")

    said = answer(manager, tick(manager, 0.0, wall=10_000.0).request, offsets({T0: -1}))
    assert said == []
    end = tick(manager, 0.1, wall=10_000.1).request
    said = answer(manager, end, offsets({T0: 20}), now=0.1)
    assert said == []
    again = tick(manager, 0.2, wall=10_000.2).request
    assert (asked_of(end), asked_of(again)) == ({T0: -1}, {T0: 6_400_200})
    assert resolved_in(answer(manager, again, offsets({T0: -1}))) == {T0: at(20)}


def test_by_duration_a_record_that_came_after_the_end_was_asked_for_is_found() -> None:
    manager = a_manager_resetting(T0, auto_offset_reset="by_duration:PT1H")
    for found in (-1, 20):
        answer(manager, tick(manager, 0.0, wall=10_000.0).request, offsets({T0: found}))

    said = answer(manager, tick(manager, 0.1, wall=10_000.1).request, offsets({T0: 19}))

    assert resolved_in(said) == {T0: at(19, leader_epoch=-1)}


def test_by_duration_an_error_is_followed_by_the_same_question_after_the_backoff() -> None:
    manager = a_manager_resetting(T0, auto_offset_reset="by_duration:PT1H", retry_backoff=1.0)

    for found in (-1, 20, None):
        request = tick(manager, 5.0, wall=10_000.0).request
        if found is not None:
            answer(manager, request, offsets({T0: found}), now=5.0)
    fail(manager, request, ConnectionError("gone"), now=5.0)

    assert tick(manager, 5.5, wall=10_000.0).requests == ()
    again = tick(manager, 6.5, wall=10_000.0).request
    assert asked_of(again) == {T0: 6_400_000}
    assert resolved_in(answer(manager, again, offsets({T0: -1}), now=6.5)) == {T0: at(20)}


@pytest.mark.parametrize(
    ("policy", "out_of_range", "asked"),
    [
        ("latest", "earliest", -2),
        ("earliest", None, -2),
        ("none", "latest", -1),
        ("latest", "by_duration:PT1M", 940_000),
    ],
)
def test_an_offset_out_of_range_may_have_a_policy_of_its_own(
    policy: str, out_of_range: str | None, asked: int
) -> None:
    manager = a_manager(auto_offset_reset=policy, auto_offset_reset_out_of_range=out_of_range)
    manager.handle(AssignmentChanged(partitions={T0: at(99)}))
    reset = Reset(epoch=2, from_offset=99)

    manager.handle(ResetPositions(partitions={T0: reset}, because="out of range"))

    assert asked_of(tick(manager, 0.0, wall=1_000.0).request) == {T0: asked}


def test_an_offset_out_of_range_may_be_an_error_where_a_start_is_none() -> None:
    manager = a_manager(auto_offset_reset="earliest", auto_offset_reset_out_of_range="none")
    manager.handle(AssignmentChanged(partitions={T0: at(99)}))
    reset = Reset(epoch=2, from_offset=99)

    said = manager.handle(ResetPositions(partitions={T0: reset}, because="out of range"))

    assert isinstance(failure_in(said).error, OffsetOutOfRangeError)
    assert "auto_offset_reset_out_of_range" in str(failure_in(said).error)


def test_a_reset_from_an_offset_out_of_range_is_a_warning_and_a_start_is_none() -> None:
    trace, events = recording()
    manager = a_manager(auto_offset_reset="earliest", trace=trace)
    assign(manager, T0, T1)
    commits_say(manager, {T0: None, T1: 5})
    reset = Reset(epoch=2, from_offset=99)
    manager.handle(ResetPositions(partitions={T1: reset}, because="out of range"))

    answer(manager, tick(manager, 0.0).request, offsets({T0: 0, T1: 7}))

    resets = [one for one in events if one["event"] == "position.reset"]
    assert {next(iter(one["partitions"])): one["level"] for one in resets} == {
        "t-0": "info",
        "t-1": "warning",
    }


def test_a_leader_that_refuses_the_offset_which_it_has_named_is_asked_after_longer_and_longer() -> (
    None
):
    """It says where its log begins, and that this offset is out of range: asked at once it would
    say so for ever, with each round trip. What was read in between is another matter."""
    manager = a_manager(auto_offset_reset="earliest")
    manager.handle(AssignmentChanged(partitions={T0: at(99)}))
    now, waits, position = 0.0, [], 99
    for epoch, named in enumerate((7, 7, 7, 7, 8, 9, 9), start=2):
        reset = Reset(epoch=epoch, from_offset=position)
        manager.handle(ResetPositions(partitions={T0: reset}, because="out of range"))
        turn = tick(manager, now)
        if not turn.requests:
            waits.append((position, round(turn.wake_at - now, 3)))
            now = turn.wake_at
            turn = tick(manager, now)
        said = answer(manager, turn.request, offsets({T0: named}), now=now)
        position = named
        assert resolved_in(said)[T0].position == Position(offset=named, leader_epoch=-1)

    assert waits == [(7, 0.1), (7, 0.2), (7, 0.4)]


def test_an_offset_that_no_log_can_have_is_asked_for_again_after_the_backoff() -> None:
    manager = a_manager_resetting(T0)

    said = answer(manager, tick(manager, 0.0).request, offsets({T0: -9}), now=0.0)

    assert not resolved_in(said)
    assert tick(manager, 0.0).wake_at == pytest.approx(0.1)


def test_with_policy_none_a_partition_without_a_committed_offset_fails() -> None:
    """Scenarios 2 and 80: the error names the partitions."""
    manager = a_manager(auto_offset_reset="none")
    assign(manager, T0, T1, epoch=2)

    said = commits_say(manager, {T0: None, T1: 5})

    assert resolved_in(said) == {T1: at(5, leader_epoch=3, epoch=2)}
    assert failure_in(said).epochs == {T0: 2}
    assert isinstance(failure_in(said).error, NoOffsetForPartitionError)
    assert failure_in(said).error.args[0] == {T0}
    assert "auto_offset_reset" in str(failure_in(said).error)
    assert tick(manager, 0.0).requests == ()


def test_with_policy_none_an_offset_out_of_range_fails_with_the_offset() -> None:
    """Scenario 80."""
    manager = a_manager(auto_offset_reset="none")
    manager.handle(AssignmentChanged(partitions={T0: at(99), T1: at(5)}))

    said = manager.handle(
        ResetPositions(
            partitions={T0: Reset(epoch=2, from_offset=99), T1: Reset(epoch=2)},
            because="out of range",
        )
    )

    outside, missing = (one for one in said if isinstance(one, PositionsFailed))
    assert isinstance(outside.error, OffsetOutOfRangeError)
    assert outside.error.args[0] == {T0: 99}
    assert "at offset 99: the log has no such offset; seek" in str(outside.error)
    assert outside.epochs == {T0: 2}
    assert isinstance(missing.error, NoOffsetForPartitionError)
    assert missing.epochs == {T1: 2}


def test_a_failed_partition_can_be_sought_or_reset() -> None:
    manager = a_manager(auto_offset_reset="none")
    assign(manager, T0, T1)
    commits_say(manager, {T0: None, T1: None})

    manager.handle(SeekPartitions(partitions={T0: at(7, epoch=2)}))
    reset = Reset(epoch=2, strategy=EARLIEST)
    manager.handle(ResetPositions(partitions={T1: reset}, because="seek_to_beginning"))

    assert asked_of(tick(manager, 0.0).request) == {T1: -2}


def test_a_new_partition_of_a_known_topic_starts_at_its_beginning_with_policy_earliest() -> None:
    """Scenario 87: the partition is assigned before its leader is known."""
    manager = a_manager(knows=a_cluster({T0: (1, 5)}), auto_offset_reset="earliest")
    assign(manager, T0, T1)
    commits_say(manager, {T0: 4, T1: None})
    assert tick(manager, 0.0).requests == ()

    manager.handle(a_cluster({T0: (1, 5), T1: (2, 0)}, version=2))
    request = tick(manager, 0.01).request
    said = answer(manager, request, offsets({T1: 0}, leader_epoch=0))

    assert request.to == 2
    assert resolved_in(said) == {T1: at(0, leader_epoch=-1)}


# -- resets


def test_a_reset_goes_where_the_application_says_in_the_new_epoch() -> None:
    manager = a_manager(auto_offset_reset="none")
    manager.handle(AssignmentChanged(partitions={T0: at(99)}))
    reset = Reset(epoch=2, strategy=LATEST, from_offset=99)

    manager.handle(ResetPositions(partitions={T0: reset}, because="seek_to_end"))
    said = answer(manager, tick(manager, 0.0).request, offsets({T0: 120}))

    assert resolved_in(said) == {T0: at(120, epoch=2)}


def test_a_reset_without_a_strategy_follows_the_policy() -> None:
    """Scenario 81."""
    manager = a_manager(auto_offset_reset="earliest")
    manager.handle(AssignmentChanged(partitions={T0: at(99)}))

    manager.handle(
        ResetPositions(partitions={T0: Reset(epoch=2, from_offset=99)}, because="out of range")
    )

    assert asked_of(tick(manager, 0.0).request) == {T0: -2}


def test_every_leader_is_asked_once_for_all_its_partitions() -> None:
    cluster = a_cluster({T0: (1, 5), T1: (2, 6), T2: (1, 7)})
    manager = a_manager_resetting(T0, T1, T2, knows=cluster)

    first, second = tick(manager, 0.0).requests

    assert (first.to, set(asked_of(first))) == (1, {T0, T2})
    assert (second.to, set(asked_of(second))) == (2, {T1})
    epochs = [one.current_leader_epoch for one in first.body.topics[0].partitions]
    assert epochs == [5, 7]


def test_a_request_in_flight_is_not_repeated_and_wakes_nobody() -> None:
    manager = a_manager_resetting(T0)
    tick(manager, 0.0)

    assert tick(manager, 1.0) == Turn((), math.inf, [])


def a_broker_with_list_offsets(version: int) -> Any:
    """kafka-python's choice of versions for a broker that speaks ListOffsets up to this one."""
    return BrokerVersionData(api_versions={ListOffsetsRequest.API_KEY: (0, version)})


def test_the_metadata_manager_hears_of_epochs_that_a_leader_of_a_position_does_not_know() -> None:
    manager = a_manager_resetting(T0, T1)
    refused = offsets(errors={T0: UnknownLeaderEpochError.errno, T1: NOT_LEADER})

    said = answer(manager, tick(manager, 0.0).request, refused, now=3.0)

    assert LeaderEpochsUnknown(epochs={T0: 5}, now=3.0) in said


@pytest.mark.parametrize(
    ("level", "sent", "oldest"), [("read_uncommitted", 0, 1), ("read_committed", 1, 2)]
)
def test_the_isolation_level_is_sent_and_not_lost_on_an_old_broker(
    level: str, sent: int, oldest: int
) -> None:
    """With read_committed the end is the last stable offset, which v0 and v1 cannot tell."""
    manager = a_manager_resetting(T0, isolation_level=level)

    body = tick(manager, 0.0).request.body

    assert body.isolation_level == sent
    assert a_broker_with_list_offsets(oldest).api_version(body) == oldest
    with pytest.raises(UnsupportedVersionError):
        a_broker_with_list_offsets(oldest - 1).api_version(body)


def test_a_leader_may_be_silent_for_some_seconds_and_then_for_longer() -> None:
    manager = a_manager_resetting(T0, request_timeout=12.0)
    now, allowed = 0.0, []

    for _ in range(3):
        request = tick(manager, now).request
        allowed += [request.deadline - now, request.body.timeout_ms / 1000]
        fail(manager, request, KafkaTimeoutError("silence"), now=request.deadline)
        now = tick(manager, request.deadline).wake_at

    assert allowed == pytest.approx([5.0, 5.0, 10.0, 10.0, 12.0, 12.0], abs=0.001)


@pytest.mark.parametrize("code", [NOT_LEADER, 9, 56, OFFSET_NOT_AVAILABLE, 5, 74, 76, 3, 999])
def test_a_retriable_error_refreshes_the_metadata_and_is_retried_after_the_backoff(
    code: int,
) -> None:
    """Scenario 84 (KAFKA-18469); T1 is not held up by T0."""
    manager = a_manager_resetting(T0, T1)
    request = tick(manager, 0.0).request

    said = answer(manager, request, offsets({T1: 4}, errors={T0: code}), now=1.0)

    assert resolved_in(said) == {T1: at(4)}
    assert any(isinstance(one, RefreshMetadata) for one in said)
    assert tick(manager, 1.05).requests == ()
    assert tick(manager, 1.05).wake_at == pytest.approx(1.1)
    assert asked_of(tick(manager, 1.1).request) == {T0: -1}


def test_a_new_leader_is_asked_at_once() -> None:
    manager = a_manager_resetting(T0)
    request = tick(manager, 0.0).request
    answer(manager, request, offsets(errors={T0: NOT_LEADER}), now=1.0)

    manager.handle(a_cluster({T0: (2, 6)}, version=2))

    assert tick(manager, 1.01).request.to == 2


def test_news_of_other_partitions_do_not_shorten_the_backoff() -> None:
    manager = a_manager_resetting(T0)
    request = tick(manager, 0.0).request
    answer(manager, request, offsets(errors={T0: NOT_LEADER}), now=1.0)

    manager.handle(a_cluster({T0: (1, 5), T1: (2, 6)}, version=2))

    assert tick(manager, 1.01).requests == ()


def test_a_leader_that_does_not_answer_leads_to_a_refresh_and_a_retry() -> None:
    manager = a_manager_resetting(T0)

    said = fail(manager, tick(manager, 0.0).request, KafkaConnectionError("gone"), now=2.0)

    (refresh,) = said
    assert isinstance(refresh, RefreshMetadata)
    assert "gone" in refresh.because
    assert tick(manager, 2.0).wake_at == pytest.approx(2.1)


def test_a_partition_that_the_answer_leaves_out_is_asked_for_again() -> None:
    manager = a_manager_resetting(T0, T1)

    said = answer(manager, tick(manager, 0.0).request, offsets({T0: 1, T2: 9}), now=0.0)

    (refresh,) = (one for one in said if isinstance(one, RefreshMetadata))
    assert "UnknownTopicOrPartitionError" in refresh.because
    assert asked_of(tick(manager, 0.1).request) == {T1: -1}


def test_an_answer_without_an_offset_is_no_position() -> None:
    manager = a_manager_resetting(T0)

    said = answer(manager, tick(manager, 0.0).request, offsets({T0: None}))

    assert resolved_in(said) == {}
    assert tick(manager, 0.1).requests


def test_a_partition_without_a_leader_asks_for_a_refresh_again_and_again_until_it_has_one() -> None:
    manager = a_manager_resetting(T0, knows=a_cluster({}))
    now, waits = 0.0, []

    for _ in range(6):
        turn = tick(manager, now)
        assert turn.requests == ()
        assert turn.said == [RefreshMetadata(because="no leader is known of t-0")]
        waits.append(turn.wake_at - now)
        now = turn.wake_at
    manager.handle(a_cluster(version=2))

    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    assert tick(manager, now).request.to == 1


def test_an_unauthorised_topic_fails_its_partitions_and_no_others() -> None:
    u0 = TopicPartition("u", 0)
    manager = a_manager_resetting(T0, u0, knows=a_cluster({T0: (1, 5), u0: (1, 5)}))
    response = offsets({u0: 3}, errors={T0: TOPIC_AUTHORIZATION_FAILED})

    said = answer(manager, tick(manager, 0.0).request, response)

    assert resolved_in(said) == {u0: at(3)}
    assert failure_in(said).epochs == {T0: 1}
    assert isinstance(failure_in(said).error, TopicAuthorizationFailedError)
    assert failure_in(said).error.args == ({"t"},)
    assert tick(manager, 5.0) == Turn((), math.inf, [])


def test_a_broker_too_old_for_the_isolation_level_fails_the_reset() -> None:
    manager = a_manager_resetting(T0, isolation_level="read_committed")
    error = UnsupportedVersionError("ListOffsets v2")

    (failed,) = fail(manager, tick(manager, 0.0).request, error)

    assert isinstance(failed, PositionsFailed)
    assert failed.epochs == {T0: 1}
    assert isinstance(failed.error, UnsupportedVersionError)
    assert "ListOffsets for t-0: ListOffsets v2" in str(failed.error)


def test_the_oldest_answer_is_understood() -> None:
    manager = a_manager_resetting(T0)

    said = answer(manager, tick(manager, 0.0).request, offsets({T0: 8}, version=1))

    assert resolved_in(said) == {T0: at(8, leader_epoch=-1)}


# -- what overtakes a reset in flight


def test_a_seek_wins_over_a_reset_in_flight() -> None:
    """Scenario 83, testSeekWithInFlightReset."""
    manager = a_manager_resetting(T0)
    request = tick(manager, 0.0).request

    said = manager.handle(SeekPartitions(partitions={T0: at(7, epoch=2)}))
    late = answer(manager, request, offsets({T0: 17}))

    assert said == []
    assert late == []
    assert tick(manager, 1.0) == Turn((), math.inf, [])


def test_another_reset_wins_over_a_reset_in_flight() -> None:
    """Scenario 83, testChangeResetWithInFlightReset, testEarlierOffsetResetArrivesLate."""
    manager = a_manager_resetting(T0, auto_offset_reset="latest")
    old = tick(manager, 0.0).request

    reset = Reset(epoch=2, strategy=EARLIEST)
    manager.handle(ResetPositions(partitions={T0: reset}, because="seek_to_beginning"))
    new = tick(manager, 0.0).request
    late = answer(manager, old, offsets({T0: 99}))
    said = answer(manager, new, offsets({T0: 0}))

    assert late == []
    assert resolved_in(said) == {T0: at(0, leader_epoch=-1, epoch=2)}


def test_a_failure_of_an_overtaken_reset_does_not_hold_up_the_new_one() -> None:
    manager = a_manager_resetting(T0)
    old = tick(manager, 0.0).request
    manager.handle(ResetPositions(partitions={T0: Reset(epoch=2)}, because="again"))

    assert fail(manager, old, KafkaConnectionError("gone"), now=0.0) == []

    assert tick(manager, 0.0).requests


@pytest.mark.parametrize("again", [(), ((T0, 2),)], ids=["revoked", "revoked and assigned again"])
def test_an_assignment_wins_over_a_reset_in_flight(again: tuple[Any, ...]) -> None:
    """Scenario 83, testAssignmentChangeWithInFlightReset."""
    manager = a_manager_resetting(T0)
    request = tick(manager, 0.0).request
    assign(manager)
    for tp, epoch in again:
        assign(manager, tp, epoch=epoch)

    assert answer(manager, request, offsets({T0: 17})) == []
    assert tick(manager, 1.0) == Turn((), math.inf, [])


def test_a_reset_told_twice_is_done_once() -> None:
    manager = a_manager_resetting(T0)
    again = ResetPositions(partitions={T0: Reset(epoch=1)}, because="again")
    first = tick(manager, 0.0).request
    manager.handle(again)
    second = tick(manager, 0.0).request

    assert resolved_in(answer(manager, first, offsets({T0: 17}))) == {T0: at(17)}
    assert answer(manager, second, offsets({T0: 17})) == []


def asks(manager: PositionManager) -> Request:
    """What is sent now, an hour and 6400 seconds after the epoch."""
    return tick(manager, 0.0, wall=10_000.0).request


def test_by_duration_an_answer_counts_only_for_the_stage_that_it_is_about() -> None:
    """The reset is told again, in the same epoch, while an answer is on its way."""
    manager = a_manager_resetting(T0, auto_offset_reset="by_duration:PT1H")
    again = ResetPositions(partitions={T0: Reset(epoch=1)}, because="again")

    answer(manager, asks(manager), offsets({T0: None}))
    end = asks(manager)
    manager.handle(again)
    record = asks(manager)
    assert answer(manager, end, offsets({T0: 20})) == []  # the end is not the first record
    assert resolved_in(answer(manager, record, offsets({T0: 17}))) == {T0: at(17, leader_epoch=-1)}


def test_by_duration_a_record_is_not_missed_if_an_earlier_answer_had_none() -> None:
    manager = a_manager_resetting(T0, auto_offset_reset="by_duration:PT1H")
    again = ResetPositions(partitions={T0: Reset(epoch=1)}, because="again")

    first = asks(manager)
    manager.handle(again)
    second = asks(manager)
    answer(manager, first, offsets({T0: None}))
    end = asks(manager)
    assert answer(manager, end, offsets({T0: 20})) == []
    record = asks(manager)
    assert answer(manager, second, offsets({T0: None})) == []  # it was asked before the end was
    assert resolved_in(answer(manager, record, offsets({T0: 17}))) == {T0: at(17, leader_epoch=-1)}


def test_by_duration_a_record_is_not_taken_for_the_end() -> None:
    manager = a_manager_resetting(T0, auto_offset_reset="by_duration:PT1H")
    again = ResetPositions(partitions={T0: Reset(epoch=1)}, because="again")

    first = asks(manager)
    manager.handle(again)
    second = asks(manager)
    answer(manager, first, offsets({T0: None}))
    end = asks(manager)
    assert answer(manager, second, offsets({T0: 17})) == []
    assert answer(manager, end, offsets({T0: 20})) == []
    assert asked_of(asks(manager)) == {T0: 6_400_000}  # the record is looked for again


def test_a_new_reset_does_not_wait_for_the_backoff_of_the_old_one() -> None:
    manager = a_manager_resetting(T0)
    fail(manager, tick(manager, 0.0).request, KafkaConnectionError("gone"), now=0.0)

    manager.handle(ResetPositions(partitions={T0: Reset(epoch=2)}, because="again"))

    assert tick(manager, 0.01).requests


def test_a_reset_or_seek_of_a_partition_that_is_gone_is_dropped_and_traced() -> None:
    trace, events = recording()
    manager = PositionManager(Settings(group_id="g"), trace=trace)

    manager.handle(SeekPartitions(partitions={T0: at(7)}))
    manager.handle(ResetPositions(partitions={T0: Reset(epoch=2)}, because="a test"))

    assert [one["event"] for one in events] == ["position.dropped", "position.dropped"]
    assert tick(manager, 0.0).requests == ()


# -- the machine and the trace


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("trigger", [Trigger.SOUGHT, Trigger.RESET_WANTED])
def test_the_application_may_seek_and_reset_at_any_moment(state: State, trigger: Trigger) -> None:
    assert trigger in TRANSITIONS[state]


def test_every_state_but_the_resolved_is_left_by_itself_or_told_to_the_application() -> None:
    own = {
        state: {trigger for trigger in TRANSITIONS[state] if trigger not in _BY_APPLICATION}
        for state in State
    }

    assert own[State.RESOLVED] == {Trigger.LEADER_ELECTED, Trigger.DIVERGED}
    assert own[State.VALIDATING] == {Trigger.VALID, Trigger.DIVERGED}
    assert own[State.TRUNCATED] == own[State.FAILED] == set()
    assert own[State.AWAIT_RESET] == {Trigger.END_FOUND, Trigger.REFUSED}
    assert own[State.INITIALIZING] == {
        Trigger.COMMITTED_FOUND,
        Trigger.NOTHING_COMMITTED,
        Trigger.LEFT_HERE,
        Trigger.REFUSED,
    }


_BY_APPLICATION = {Trigger.SOUGHT, Trigger.RESET_WANTED}


# -- what a position waits for


def explained(manager: PositionManager, tp: TopicPartition = T0, now: float = 3.0) -> object:
    """What is said to the question what this partition's position waits for."""
    (said,) = manager.handle(ExplainPosition(ticket=7, partition=tp, now=now))
    return said.value if isinstance(said, Answered) else said


def test_a_position_that_waits_for_its_committed_offset_is_explained_by_the_commit_manager() -> (
    None
):
    manager = a_manager()
    assign(manager, T0)

    assert explained(manager) == ExplainStartingOffset(ticket=7, partition=T0, now=3.0)


def test_a_position_that_waits_for_the_end_of_the_log_is_explained_by_what_the_leader_said() -> (
    None
):
    manager = a_manager_resetting(T0, auto_offset_reset="latest")
    assert explained(manager) == "where its log ends: broker 1 at b1:9092 was not asked in time"

    request = tick(manager, 1.0).request
    said = explained(manager, now=3.5)
    assert said == "where its log ends: broker 1 at b1:9092 has not answered for 2.5 s"

    answer(manager, request, offsets(errors={T0: NOT_LEADER}), now=4.0)
    assert "where its log ends: broker 1 at b1:9092: " in str(explained(manager))


def test_a_position_that_is_known_or_not_assigned_waits_for_nothing() -> None:
    manager = a_manager()
    assign(manager, T0)
    commits_say(manager, {T0: 5})

    assert explained(manager, T0) == "it was not looked up in time"
    assert explained(manager, T1) == "it was not looked up in time"


def events_named(events: Iterable[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [one for one in events if one["event"] == name]


def test_every_reset_is_traced_with_the_old_and_the_new_offset() -> None:
    trace, events = recording()
    manager = PositionManager(Settings(group_id="g"), trace=trace)
    manager.handle(a_cluster())
    manager.handle(AssignmentChanged(partitions={T0: at(99), T1: at(98)}))

    resets = {
        T0: Reset(epoch=2, strategy=EARLIEST, from_offset=99),
        T1: Reset(epoch=2, strategy=EARLIEST, from_offset=98),
    }
    manager.handle(ResetPositions(partitions=resets, because="out of range"))
    answer(manager, tick(manager, 0.0).request, offsets({T0: 10, T1: 11}))

    (reset,) = events_named(events, "position.reset")
    assert reset["partitions"] == {"t-0": 10, "t-1": 11}
    assert reset["from_offsets"] == {"t-0": 99, "t-1": 98}
    assert reset["strategy"] == "earliest"
    assert reset["because"] == "out of range"
    (resolved,) = events_named(events, "position.resolved")
    assert resolved["because"] == "reset"
