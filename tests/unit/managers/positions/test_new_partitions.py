"""With "latest": which partitions without a committed offset are read from their first record."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.answers import Answered
from aktor.events.commits import (
    FindStartingOffsets,
    StartingOffsetsFailed,
    StartingOffsetsFound,
)
from aktor.events.metadata import ClusterChanged, RefreshMetadata
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    ExplainPosition,
    Position,
    PositionsFailed,
    PositionsResolved,
    Reset,
    ResetPositions,
    SeekPartitions,
)
from aktor.managers.positions.manager import PositionManager
from aktor.protocol.commit_note import note_of
from aktor.settings import Settings
from aktor.trace import recording
from aktor.values import replace
from tests.unit.managers.builders import answer, tick
from tests.unit.managers.positions.builders import a_cluster, asked_of, offsets

T = [TopicPartition("t", number) for number in range(4)]
EARLIEST, LATEST = -2, -1


def a_topic_of(partitions: int, *, had: int | None, version: int = 1) -> ClusterChanged:
    """Topic t has so many partitions, and `had` when it was first seen."""
    changed = a_cluster(dict.fromkeys(T[:partitions], (1, 5)), version=version)
    topics = {name: replace(info, had=had) for name, info in changed.cluster.topics.items()}
    return ClusterChanged(cluster=replace(changed.cluster, topics=topics))


class Case:
    """A manager of these partitions, and what its trace tells."""

    def __init__(self, partitions: int = 4, *, had: int | None = 4, **settings: Any) -> None:
        self.trace, self.events = recording()
        self.manager = PositionManager(
            Settings(**{"group_id": "g", "auto_offset_reset": "latest"} | settings),
            trace=self.trace,
        )
        self.manager.handle(a_topic_of(partitions, had=had))

    def assign(self, *numbers: int, epoch: int = 1, **how: Any) -> list[Any]:
        return self.manager.handle(
            AssignmentChanged(
                partitions={T[number]: Assigned(epoch=epoch) for number in numbers},
                **{"by_group": True} | how,
            )
        )

    def assign_left(self, left: Mapping[int, int | None]) -> list[Any]:
        """The group gives back what was left at these offsets, in leader epoch 2."""
        assigned = {
            T[number]: Assigned(
                epoch=1, left=None if at is None else Position(offset=at, leader_epoch=2)
            )
            for number, at in left.items()
        }
        return self.manager.handle(AssignmentChanged(partitions=assigned, by_group=True))

    def committed(self, found: Mapping[int, int | None], *notes: int) -> list[Any]:
        """`notes`: the partitions with a note that the topic had so many."""
        metadata = {number: note_of(notes[0]) for number in notes[1:]}
        return self.manager.handle(
            StartingOffsetsFound(
                offsets={
                    T[number]: None
                    if offset is None
                    else OffsetAndMetadata(offset, metadata.get(number, ""), -1)
                    for number, offset in found.items()
                }
            )
        )

    def asks_for(self) -> dict[int, int]:
        """Of which partitions an end of the log is asked for now, and which one."""
        requests = tick(self.manager, 0.0).requests
        return {tp.partition: at for request in requests for tp, at in asked_of(request).items()}

    def judged(self) -> list[tuple[list[str], bool]]:
        return [
            (one["partitions"], one["new"])
            for one in self.events
            if one["event"] == "partition.judged"
        ]


def looked_up(said: list[Any]) -> set[int]:
    """The partitions whose committed offsets are asked for."""
    return {
        tp.partition
        for message in said
        if isinstance(message, FindStartingOffsets)
        for tp in message.partitions
    }


def test_a_partition_that_the_topic_gained_is_read_from_its_first_record() -> None:
    case = Case(3, had=2)
    case.assign(1, 2)

    said = case.committed({1: 7, 2: None})

    assert looked_up(said) == set()
    assert case.asks_for() == {2: EARLIEST}
    assert case.judged() == [(["t-2"], True)]


def test_a_topic_that_came_into_being_is_read_from_its_first_records() -> None:
    case = Case(2, had=0)
    case.assign(0, 1)

    case.committed({0: None, 1: None})

    assert case.asks_for() == {0: EARLIEST, 1: EARLIEST}


@pytest.mark.parametrize("group", ["g", None])
def test_a_partition_that_is_assigned_before_it_is_described_is_judged_when_it_is(
    group: str | None,
) -> None:
    """The coordinator may know it sooner, and the actor that keeps the metadata may have been
    restarted."""
    case = Case(0, had=None, group_id=group)
    said = case.assign(1, all_of_topics=True, by_group=group is not None)
    if group is not None:
        said = case.committed({1: None})
    assert [type(one) for one in said] == [RefreshMetadata]
    assert case.asks_for() == {}

    case.manager.handle(a_topic_of(2, had=0, version=2))

    assert case.asks_for() == {1: EARLIEST}
    assert case.judged() == [(["t-1"], True)]


@pytest.mark.parametrize(("count", "timestamp"), [(1, EARLIEST), (2, LATEST)])
def test_a_partition_whose_topic_was_not_described_is_judged_by_the_group_then(
    count: int, timestamp: int
) -> None:
    """This member may not have seen it come."""
    case = Case(0, had=None)
    case.assign(1)
    case.committed({1: None})

    said = case.manager.handle(a_topic_of(3, had=3, version=2))
    assert looked_up(said) == {0, 2}
    case.committed({0: 7, 2: 7}, count, 0)

    assert case.asks_for() == {1: timestamp}


def test_what_a_position_waits_for_is_said_while_its_topic_is_not_described() -> None:
    case = Case(0, had=None)
    case.assign(1)
    case.committed({1: None})

    (said,) = case.manager.handle(ExplainPosition(ticket=1, partition=T[1], now=0.0))

    assert said == Answered(
        ticket=1,
        value="whether it is new: no broker has described the topic; it may not exist",
    )


@pytest.mark.parametrize(
    ("others", "timestamp"),
    [
        ({0: 7, 1: 0, 2: 3}, EARLIEST),
        ({0: 7, 1: 0, 2: None}, EARLIEST),
        ({0: None, 1: 0, 2: 3}, LATEST),
        ({0: 7, 1: None, 2: 3}, LATEST),
        ({0: None, 1: None, 2: None}, LATEST),
    ],
)
def test_a_member_that_came_later_judges_by_what_the_group_has_committed(
    others: dict[int, int | None], timestamp: int
) -> None:
    case = Case()
    case.assign(3)

    said = case.committed({3: None})
    assert looked_up(said) == {0, 1, 2}
    assert case.asks_for() == {}
    case.committed(others)

    assert case.asks_for() == {3: timestamp}
    assert case.judged() == [(["t-3"], timestamp == EARLIEST)]


def test_the_offsets_of_other_partitions_may_be_found_one_after_the_other() -> None:
    case = Case()
    case.assign(2, 3)
    case.committed({2: None, 3: None})

    case.committed({0: 7})
    assert case.asks_for() == {}
    case.committed({1: 7})

    assert case.asks_for() == {2: EARLIEST, 3: EARLIEST}


def test_offsets_at_which_nothing_begins_need_not_be_stable_and_others_are_asked_for_once() -> None:
    """A transaction of another member may be about to replace them, again and again (KIP-447)."""
    case = Case()
    assert case.assign(2, 3) == [FindStartingOffsets(partitions=frozenset({T[2], T[3]}))]

    said = case.committed({3: None})

    assert said == [FindStartingOffsets(partitions=frozenset({T[0], T[1]}), stable=False)]
    case.committed({0: 7, 1: 7})
    assert case.asks_for() == {}
    case.committed({2: 5})
    assert case.asks_for() == {3: EARLIEST}


def test_what_is_known_of_a_group_is_looked_up_anew_the_next_time() -> None:
    case = Case()
    case.assign(3)
    case.committed({3: None})
    case.committed({0: None, 1: None, 2: None})

    case.assign(2, 3, epoch=2)
    said = case.committed({2: None, 3: None})

    assert looked_up(said) == {0, 1}


@pytest.mark.parametrize("others", [None, 5])
def test_the_first_partition_of_a_topic_is_not_new_by_what_is_committed_for_others(
    others: int | None,
) -> None:
    case = Case()
    case.assign(0)

    assert looked_up(case.committed({0: None})) == {1, 2, 3}
    case.committed(dict.fromkeys((1, 2, 3), others))

    assert case.asks_for() == {0: LATEST}


#: What is committed for partitions 0 to 3, and which of these commits have a note that the topic
#: had so many partitions; which of the others are new by that.
NOTED = [
    ({0: 7, 2: 3}, (1, 0), {1, 3}),
    ({0: 7, 2: 3}, (1, 2), {1, 3}),
    ({0: 7, 2: 3}, (2, 0, 2), {3}),
    ({0: 7, 2: 3}, (3, 0, 2), {3}),
    ({0: 7, 2: 3}, (4, 0, 2), set()),
    ({3: 0}, (0, 3), {0, 1, 2}),
    ({2: 0, 3: 0}, (1, 3), {1}),
]


@pytest.mark.parametrize("enable_auto_commit", [True, False])
@pytest.mark.parametrize(("committed", "notes", "new"), NOTED)
def test_a_note_in_a_commit_of_the_group_tells_which_partitions_are_new(
    committed: dict[int, int], notes: tuple[int, ...], new: set[int], *, enable_auto_commit: bool
) -> None:
    """Whatever is committed for the others: the owner of a new partition may have died before it
    had committed."""
    case = Case(enable_auto_commit=enable_auto_commit)
    mine = {*range(4)} - committed.keys()
    case.assign(*mine)

    assert looked_up(case.committed(dict.fromkeys(mine))) == committed.keys()
    case.committed(committed, *notes)

    assert case.asks_for() == {number: EARLIEST if number in new else LATEST for number in mine}


def test_a_note_of_a_member_that_came_after_the_partition_says_nothing_against_the_offsets() -> (
    None
):
    """The group may be older than the notes: of another client, or of an older version."""
    case = Case()
    case.assign(3)
    case.committed({3: None})
    case.committed({0: 7, 1: 7, 2: 7}, 4, 0)

    assert case.asks_for() == {3: EARLIEST}


def test_the_least_count_of_all_notes_is_that_of_the_groups_beginning() -> None:
    case = Case()
    case.assign(3)
    case.committed({3: None})
    case.committed({1: None}, 3)
    case.committed({0: 7}, 3, 0)
    case.committed({2: 7}, 2, 2)

    assert case.asks_for() == {3: EARLIEST}


@pytest.mark.parametrize("text", ["partitions=1", "aktor:partitions=", "aktor:partitions=x", "x"])
def test_metadata_of_other_programs_tells_nothing(text: str) -> None:
    case = Case(enable_auto_commit=False)
    case.assign(3)
    case.committed({3: None})
    case.manager.handle(
        StartingOffsetsFound(offsets={T[n]: OffsetAndMetadata(5, text, -1) for n in (0, 1, 2)})
    )

    assert case.asks_for() == {3: LATEST}


@pytest.mark.parametrize(
    ("settings", "how"),
    [
        ({"auto_offset_reset_new_partitions": "latest"}, {}),
        ({}, {"by_group": False}),  # assigned by hand
        ({"auto_offset_reset": "by_duration:PT1H"}, {}),
        ({"auto_offset_reset": "earliest"}, {}),
    ],
)
def test_otherwise_a_new_partition_is_as_any_other(
    settings: dict[str, Any], how: dict[str, Any]
) -> None:
    case = Case(3, had=2, **settings)
    case.assign(2, **how)

    said = case.committed({2: None})

    assert looked_up(said) == set()
    assert case.judged() == []
    assert case.asks_for().keys() == {2}


def test_without_auto_commit_an_offset_that_is_missing_tells_nothing() -> None:
    """An idle partition has none either."""
    case = Case(enable_auto_commit=False)
    case.assign(3)

    assert looked_up(case.committed({3: None})) == {0, 1, 2}
    case.committed({0: 7, 1: 7, 2: 7})

    assert case.asks_for() == {3: LATEST}


def test_without_a_group_the_metadata_tells() -> None:
    case = Case(3, had=2, group_id=None)

    case.assign(1, 2, by_group=False, all_of_topics=True)

    assert case.asks_for() == {1: LATEST, 2: EARLIEST}


def test_a_look_up_that_was_given_up_with_a_partition_is_asked_for_again() -> None:
    """The commit manager forgets look-ups of partitions that are taken away."""
    case = Case()
    case.assign(0, 3)
    case.committed({0: 7, 3: None})
    case.manager.handle(
        AssignmentChanged(partitions={T[0]: Assigned(epoch=1), T[3]: Assigned(epoch=1)})
    )

    said = case.assign(3)

    assert looked_up(said) == {1, 2}
    case.committed({1: 7, 2: 7})
    assert case.asks_for() == {3: EARLIEST}


@pytest.mark.parametrize("ends", ["revoked", "sought", "reset"])
def test_a_partition_that_was_in_question_and_is_not_any_more_is_left_alone(ends: str) -> None:
    case = Case()
    case.assign(2, 3)
    case.committed({2: 5, 3: None})
    if ends == "revoked":
        assert looked_up(case.assign(2)) == set()
    elif ends == "sought":
        to = Assigned(epoch=2, position=Position(offset=9))
        case.manager.handle(SeekPartitions(partitions={T[3]: to}))
    else:
        reset = Reset(epoch=2, from_offset=9)
        case.manager.handle(ResetPositions(partitions={T[3]: reset}, because="out of range"))

    case.committed({0: 7, 1: 7})

    assert case.asks_for() == ({3: LATEST} if ends == "reset" else {})
    assert case.judged() == []


@pytest.mark.parametrize("other", [7, None], ids=["all are committed", "with a gap"])
def test_a_committed_offset_that_comes_for_a_partition_in_question_is_its_position(
    other: int | None,
) -> None:
    """Another member has committed it since the first look-up."""
    case = Case()
    case.assign(3)
    case.committed({3: None})

    said = case.committed({0: 7, 1: 7, 2: other, 3: 9})

    assert [one.partitions.keys() for one in said if isinstance(one, PositionsResolved)] == [{T[3]}]
    assert case.asks_for() == {}
    assert case.judged() == []


def test_a_committed_offset_of_one_in_question_leaves_the_others_in_question() -> None:
    case = Case()
    case.assign(2, 3)
    case.committed({2: None, 3: None})

    case.committed({0: 7, 1: 7, 2: 9})

    assert case.asks_for() == {3: EARLIEST}
    assert case.judged() == [(["t-3"], True)]


def test_a_partition_in_question_that_the_topic_is_described_without_is_not_new() -> None:
    """Brokers before Metadata v10 tell no topic ids: a topic may come back with fewer."""
    case = Case()
    case.assign(3)
    case.committed({3: None})
    case.manager.handle(a_topic_of(3, had=4, version=2))

    case.committed({0: 7, 1: 7, 2: 7})

    assert case.judged() == [(["t-3"], False)]


def test_an_error_of_the_other_offsets_is_an_error_of_the_partition_in_question() -> None:
    case = Case()
    case.assign(3)
    case.committed({3: None})
    refused = GroupAuthorizationFailedError("g")

    said = case.manager.handle(StartingOffsetsFailed(partitions=frozenset(T[:3]), error=refused))

    assert said == [PositionsFailed(epochs={T[3]: 1}, error=refused)]


def test_the_reset_says_why_it_begins_at_the_first_record() -> None:
    case = Case(3, had=2)
    case.assign(2)
    case.committed({2: None})

    answer(case.manager, tick(case.manager, 0.0).request, offsets({T[2]: 0}))

    (reset,) = (one for one in case.events if one["event"] == "position.reset")
    assert (reset["strategy"], reset["level"]) == ("earliest", "info")
    assert reset["because"] == "its topic had 2 partitions when this member began to follow it"


def test_what_the_group_tells_of_a_topic_is_looked_through_once_and_not_for_each_partition() -> (
    None
):
    """It took 5 s for 5,000 partitions: no heartbeat was sent meanwhile."""
    count = 5000
    case = Case()
    info = case.manager._leaders.cluster.topics["t"]
    partitions = dict.fromkeys(range(count), info.partitions[0])
    grown = {"t": replace(info, partitions=partitions, had=count)}
    cluster = replace(case.manager._leaders.cluster, topics=grown, version=2)
    case.manager.handle(ClusterChanged(cluster=cluster))
    mine = [TopicPartition("t", number) for number in range(count)]
    assigned = {tp: Assigned(epoch=1) for tp in mine}
    case.manager.handle(AssignmentChanged(partitions=assigned, by_group=True))
    began = time.process_time()

    case.manager.handle(StartingOffsetsFound(offsets=dict.fromkeys(mine)))

    assert time.process_time() - began < 1.0
    assert len(case.asks_for()) == count


# -- what the group has taken and given back


@pytest.mark.parametrize("policy", ["latest", "by_duration:PT1H"])
@pytest.mark.parametrize("new_ones", ["earliest", "latest"])
def test_what_the_group_gives_back_uncommitted_is_read_on_where_it_was_left(
    policy: str, new_ones: str
) -> None:
    case = Case(3, auto_offset_reset=policy, auto_offset_reset_new_partitions=new_ones)
    case.assign_left({0: None, 1: 5, 2: 7})

    said = case.committed({0: None, 1: None, 2: 9})

    positions = {
        tp: one.position
        for message in said
        if isinstance(message, PositionsResolved)
        for tp, one in message.partitions.items()
    }
    assert positions == {
        T[1]: Position(offset=5, leader_epoch=2),
        T[2]: Position(offset=9, leader_epoch=-1),
    }
    assert case.asks_for().keys() == {0}


@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_another_policy_decides_about_what_the_group_gives_back_uncommitted(policy: str) -> None:
    case = Case(1, auto_offset_reset=policy)
    case.assign_left({0: 5})

    said = case.committed({0: None})

    assert not any(isinstance(message, PositionsResolved) for message in said)
    assert case.asks_for() == ({0: EARLIEST} if policy == "earliest" else {})


def test_what_is_given_back_says_nothing_about_whether_others_are_new() -> None:
    case = Case(3, had=3)
    case.assign_left({0: None, 1: 5, 2: None})

    case.committed({0: None, 1: None, 2: None})

    assert case.asks_for() == {0: LATEST, 2: LATEST}
    assert [(one, new) for those, new in case.judged() for one in those] == [
        ("t-0", False),
        ("t-2", False),
    ]
