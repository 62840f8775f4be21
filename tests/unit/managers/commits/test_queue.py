"""When a commit in the queue may be sent; the rest is tested with the commit manager."""

from __future__ import annotations

import math

import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime.exchange import Exchange
from aktor.managers.commits.queue import Commit, CommitQueue, Kind
from aktor.settings import Settings

T0 = TopicPartition("t", 0)


def a_commit(kind: Kind = Kind.ASKED, *, deadline: float = 10.0) -> Commit:
    """A commit that was first looked at at 5.0; its backoff is 1 s."""
    settings = Settings(retry_backoff=1.0, retry_backoff_max=1.0)
    offsets = {T0: OffsetAndMetadata(1, "", -1)}
    commit = Commit(kind=kind, exchange=Exchange(settings), offsets=offsets, deadline=deadline)
    commit.begin_waiting(5.0)
    return commit


def sent(commit: Commit) -> Commit:
    commit.sent(6.0)
    return commit


def failed(commit: Commit, at: float) -> Commit:
    sent(commit).exchange.failed(at, 0.5)
    return commit


def test_a_commit_is_due_at_once_then_after_the_backoff_and_not_while_it_is_in_flight() -> None:
    assert a_commit().due(5.0) == -math.inf
    assert sent(a_commit()).due(6.0) == math.inf
    assert failed(a_commit(), 6.0).due(6.0) == 7.0


@pytest.mark.parametrize("now", [10.0, 11.0])
def test_a_commit_is_not_due_any_more_when_its_deadline_has_come(now: float) -> None:
    assert a_commit().due(now) == math.inf
    assert failed(a_commit(), 6.0).due(now) == math.inf


def test_a_commit_whose_deadline_has_come_before_it_is_looked_at_is_tried_once() -> None:
    assert a_commit(deadline=5.0).due(5.0) == -math.inf
    assert failed(a_commit(deadline=5.0), 5.0).due(5.0) == math.inf


def test_the_queue_is_due_with_its_first_commit_and_with_revocations_that_do_not_wait() -> None:
    queue = CommitQueue()
    queue.add(failed(a_commit(), 6.0))
    queue.add(a_commit())
    behind = queue.due(6.0)
    queue.add(failed(a_commit(Kind.REVOCATION), 6.5))

    assert behind == 7.0
    assert queue.due(6.5) == 7.5, "the first commit waits for the revocation of its partition"
