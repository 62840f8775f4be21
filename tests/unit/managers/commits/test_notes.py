"""The notes in commits: how many partitions a topic had when a member began to follow it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kafka.errors import OffsetMetadataTooLargeError
from kafka.structs import OffsetAndMetadata

from aktor.events.answers import Answered
from aktor.events.commits import CommitOffsets, FindStartingOffsets, StartingOffsetsFound
from aktor.events.metadata import Cluster, ClusterChanged, TopicInfo
from aktor.events.network import Request
from aktor.events.positions import Divergence, Position, TruncationFound
from aktor.managers.commits.manager import CommitManager
from aktor.protocol.commit_note import count_in, note_of
from tests.unit.managers.commits.builders import (
    METADATA_TOO_LARGE,
    T0,
    T1,
    U0,
    answer,
    asked_to_fetch,
    before_revocation,
    commit,
    commit_async,
    committed,
    committing,
    error_of,
    fetch,
    fetched,
    find,
    polled,
    tick,
)


def topics(topic_id: int | None = 1, **had: int | None) -> ClusterChanged:
    """These topics had so many partitions when they were first seen."""
    number = None if topic_id is None else UUID(int=topic_id)
    known = {
        name: TopicInfo(topic_id=number, partitions={}, had=count) for name, count in had.items()
    }
    return ClusterChanged(cluster=Cluster(topics=known))


def latest(*partitions: Any, **settings: Any) -> CommitManager:
    """A commit manager whose group begins at the end of its logs."""
    return committing(*partitions, **{"auto_offset_reset": "latest"} | settings)


def metadata_of(request: Request) -> dict[str, str]:
    """The metadata of an OffsetCommit."""
    return {
        f"{topic.name}-{one.partition_index}": one.committed_metadata
        for topic in request.body.topics
        for one in topic.partitions
    }


def found_by(manager: CommitManager, values: Any) -> list[Any]:
    """The committed offsets of these are looked up for the position manager."""
    manager.handle(find(*values))
    request = tick(manager, 0.0).request
    return answer(manager, request, fetched(values))


def noted(offset: int, count: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, note_of(count), -1)


@pytest.mark.parametrize("kind", ["automatic", "asked", "not waited for", "before a revocation"])
def test_each_commit_notes_how_many_partitions_its_topic_had(kind: str) -> None:
    automatic = kind == "automatic"
    manager = latest(T0, U0, enable_auto_commit=automatic, auto_commit_interval=1.0)
    manager.handle(topics(t=3, u=1))
    values = {T0: 5, U0: 1}
    if automatic:
        manager.handle(polled(0.0, values))
        tick(manager, 0.0)
    else:
        asked = {
            "asked": commit(values),
            "not waited for": commit_async(values),
            "before a revocation": before_revocation(values),
        }
        manager.handle(asked[kind])

    request = tick(manager, 1.0).request

    assert metadata_of(request) == {"t-0": note_of(3), "u-0": note_of(1)}


def test_metadata_of_the_application_is_stored_as_it_is() -> None:
    manager = latest(T0, T1)
    manager.handle(topics(t=3))
    values = {T0: OffsetAndMetadata(5, "mine", -1), T1: OffsetAndMetadata(5, "", -1)}
    manager.handle(CommitOffsets(ticket=1, offsets=values, deadline=60.0, retry=True))

    request = tick(manager, 0.0).request

    assert metadata_of(request) == {"t-0": "mine", "t-1": note_of(3)}


@pytest.mark.parametrize(
    "settings",
    [
        {"auto_offset_reset": "earliest"},
        {"auto_offset_reset": "none"},
        {"auto_offset_reset": "by_duration:PT1H"},
        {"auto_offset_reset_new_partitions": "latest"},
        {"generation": None},  # assigned by hand
    ],
)
def test_where_new_partitions_are_as_others_nothing_is_noted(settings: dict[str, Any]) -> None:
    manager = latest(T0, **settings)
    manager.handle(topics(t=3))
    found_by(manager, {T0: noted(1, 2)})
    manager.handle(commit({T0: 5}))

    assert metadata_of(tick(manager, 0.0).request) == {"t-0": ""}


def test_of_a_topic_that_is_not_followed_nothing_is_noted() -> None:
    manager = latest(T0)
    manager.handle(topics(t=None))
    manager.handle(commit({T0: 5}))

    assert metadata_of(tick(manager, 0.0).request) == {"t-0": ""}


@pytest.mark.parametrize("first", ["the metadata", "the commit"])
def test_the_least_count_that_is_known_is_noted(first: str) -> None:
    """The note that a commit replaces may be the only one that tells it."""
    manager = latest(T0, T1)
    if first == "the metadata":
        manager.handle(topics(t=3))
    found_by(manager, {T0: noted(4, 2), T1: noted(4, 7)})
    if first != "the metadata":
        manager.handle(topics(t=3))
    manager.handle(topics(t=4))  # the metadata manager was restarted
    manager.handle(commit({T0: 5, T1: 5}))

    assert metadata_of(tick(manager, 0.0).request) == {"t-0": note_of(2), "t-1": note_of(2)}


@pytest.mark.parametrize(("again", "count"), [(1, 2), (2, 3), (None, 2)])
def test_a_topic_that_was_created_anew_has_nothing_of_the_old_one(
    again: int | None, count: int
) -> None:
    manager = latest(T0)
    manager.handle(topics(t=2))
    manager.handle(topics(again, t=3))
    manager.handle(commit({T0: 5}))

    assert metadata_of(tick(manager, 0.0).request) == {"t-0": note_of(count)}


def test_a_note_is_told_to_the_position_manager_and_never_to_the_application() -> None:
    manager = latest(T0)
    manager.handle(topics(t=1))
    plain = OffsetAndMetadata(4, "", -1)

    assert found_by(manager, {T0: noted(4, 2)}) == [StartingOffsetsFound(offsets={T0: noted(4, 2)})]

    manager.handle(fetch(T0))
    said = answer(manager, tick(manager, 0.0).request, fetched({T0: noted(4, 2)}))
    assert said == [Answered(ticket=1, value={T0: plain})]

    lost = Divergence(epoch=1, position=Position(offset=9), end=None, node=1)
    (told,) = manager.handle(TruncationFound(partitions={T0: lost}))
    assert told.committed == {T0: plain}  # type: ignore[attr-defined]


def test_an_idle_partition_is_not_committed_again_for_its_note() -> None:
    manager = latest(T0, enable_auto_commit=True, auto_commit_interval=1.0)
    manager.handle(topics(t=3))
    found_by(manager, {T0: OffsetAndMetadata(5, "", -1)})
    manager.handle(polled(0.0, {T0: 5}))
    tick(manager, 0.0)

    assert tick(manager, 1.0).requests == ()


def test_a_commit_that_is_repeated_notes_what_is_known_by_then() -> None:
    manager = latest(T0)
    manager.handle(topics(t=3))
    manager.handle(commit({T0: 5}))
    request = tick(manager, 0.0).request
    answer(manager, request, committed(request, 14))
    found_by(manager, {T1: noted(4, 1)})

    (again,) = tick(manager, 30.0).requests

    assert metadata_of(again) == {"t-0": note_of(1)}


def test_what_nothing_begins_at_is_looked_up_though_a_transaction_is_about_to_replace_it() -> None:
    """And never together with what something begins at, or what the application asks for."""
    manager = latest(T0)
    unstable = FindStartingOffsets(partitions=frozenset({T1}), stable=False)
    for asked in (unstable, find(T0), fetch(T1), unstable):
        manager.handle(asked)

    requests = tick(manager, 0.0).requests

    assert [(asked_to_fetch(one), one.body.require_stable) for one in requests] == [
        ({T1}, False),
        ({T0}, True),
        ({T1}, True),
    ]


@pytest.mark.parametrize("asked", [commit, commit_async])
def test_a_commit_whose_note_is_too_long_for_the_broker_is_sent_again_without_it(
    asked: Any,
) -> None:
    """`offset.metadata.max.bytes`"""
    manager = latest(T0)
    manager.handle(topics(t=3))
    manager.handle(asked({T0: 5}))
    request = tick(manager, 0.0).request
    assert answer(manager, request, committed(request, METADATA_TOO_LARGE)) == []

    (again,) = tick(manager, 30.0).requests

    assert metadata_of(again) == {"t-0": ""}
    assert answer(manager, again, committed(again)) == [Answered(ticket=1)]
    manager.handle(topics(t=3, u=1))
    manager.handle(asked({T0: 6}))
    request = tick(manager, 40.0).request
    assert metadata_of(request) == {"t-0": ""}
    error = error_of(answer(manager, request, committed(request, METADATA_TOO_LARGE)))
    assert isinstance(error, OffsetMetadataTooLargeError), "it is told, for it was not the note"


def test_metadata_of_the_application_that_is_too_long_is_an_error() -> None:
    manager = latest(T0)
    manager.handle(topics(t=3))
    values = {T0: OffsetAndMetadata(5, "mine", -1)}
    manager.handle(CommitOffsets(ticket=1, offsets=values, deadline=60.0, retry=True))
    request = tick(manager, 0.0).request

    error = error_of(answer(manager, request, committed(request, METADATA_TOO_LARGE)))

    assert isinstance(error, OffsetMetadataTooLargeError)


@pytest.mark.parametrize(
    ("metadata", "count"),
    [
        (note_of(0), 0),
        (note_of(123456), 123456),
        ("", None),
        ("aktor:partitions=-1", None),
        ("aktor:partitions=1 ", None),
        ("aktor:partitions=1\n", None),
        ("aktor:partitions=٣", None),
        ("aktor:partitions=" + "9" * 5000, None),
    ],
)
def test_only_what_is_a_note_is_read_as_one(metadata: str, count: int | None) -> None:
    assert count_in(metadata) == count
