"""What may be begun next, and what may be committed, of records that are on their way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.processing.work import Task, Work
from tests.unit.processing.builders import P, a_record

Q = TopicPartition("orders", 1)


def some_work(order: str = "key", *keys: Any) -> Work:
    """Records of one partition, from offset 0 on, with these keys."""
    work = Work(order)
    work.add(P, [a_record(offset, key) for offset, key in enumerate(keys)])
    return work


def begun(work: Work, now: float = 0.0) -> list[int]:
    """The offsets of all that may be begun now."""
    return [task.record.offset for task in all_begun(work, now)]


def all_begun(work: Work, now: float = 0.0) -> list[Task]:
    tasks = []
    while (task := work.begin(now)) is not None:
        tasks.append(task)
    return tasks


def done(work: Work, task: Task) -> None:
    work.returned(task)
    work.finish(task)


def test_records_of_one_key_are_begun_one_after_the_other() -> None:
    work = some_work("key", b"a", b"b", b"a", b"a")

    first, other = all_begun(work)
    assert (first.record.offset, other.record.offset) == (0, 1)
    done(work, first)
    assert begun(work) == [2]


def test_records_without_a_key_keep_no_order() -> None:
    assert begun(some_work("key", None, None, b"a", None)) == [0, 1, 2, 3]


def test_the_same_key_in_two_partitions_is_two_keys() -> None:
    work = some_work("key", b"a")
    work.add(Q, [a_record(0, b"a", partition=Q)])

    assert len(all_begun(work)) == 2


def test_keys_that_cannot_be_hashed_keep_the_order_of_their_partition() -> None:
    work = some_work("key", {"id": 1}, {"id": 2}, [3])

    assert begun(work) == [0]


def test_a_partition_is_one_lane_by_partition_and_none_without_order() -> None:
    assert begun(some_work("partition", None, b"a", b"b")) == [0]
    assert begun(some_work("none", b"a", b"a", b"a")) == [0, 1, 2]


def test_what_may_be_committed_ends_at_the_lowest_unfinished_record() -> None:
    work = some_work("none", None, None, None)
    tasks = all_begun(work)
    done(work, tasks[1])
    done(work, tasks[2])

    first = work.unfinished_from(P)
    assert first is not None
    assert (first.offset, first.leader_epoch) == (0, -1)
    done(work, tasks[0])
    assert work.unfinished_from(P) is None


def test_the_epoch_of_a_commit_is_that_of_the_record_before_it() -> None:
    work = some_work("none", None, None)
    done(work, all_begun(work)[0])

    first = work.unfinished_from(P)
    assert first is not None
    assert (first.offset, first.leader_epoch) == (1, 3)


def test_another_attempt_waits_and_keeps_its_place() -> None:
    work = some_work("key", b"a", b"a")
    (task,) = all_begun(work)
    work.returned(task)
    work.retry(task, 5.0)

    assert begun(work, now=4.9) == []
    assert work.next_retry == 5.0
    assert begun(work, now=5.0) == [0]


def test_of_what_is_stopped_only_what_runs_may_finish() -> None:
    work = some_work("key", b"a", b"a", b"b", None)
    running = work.begin(0.0)
    assert running is not None

    work.stop([P])

    assert begun(work) == []
    assert work.runs_of([P]) == [running]
    done(work, running)
    first = work.unfinished_from(P)
    assert first is not None
    assert first.offset == 1
    work.forget([P])
    assert work.pending == 0


def test_what_a_worker_has_not_begun_is_taken_back() -> None:
    work = some_work("key", b"a")
    (task,) = all_begun(work)
    task.cancel = lambda: True

    work.stop([P])

    assert work.runs_of([P]) == []
    assert not work.running


def test_a_record_that_comes_again_waits_for_its_handler_of_before() -> None:
    """We lost the partition while a handler ran, and are assigned it again."""
    work = some_work("key", b"a")
    (before,) = all_begun(work)
    work.forget([P])

    work.add(P, [a_record(0, b"a"), a_record(1, b"b")])
    assert begun(work) == [1]
    work.returned(before)
    work.finish(before)

    assert begun(work) == [0]
    first = work.unfinished_from(P)
    assert first is not None
    assert first.offset == 0, "what the handler of before has done does not count"


def test_records_behind_those_that_came_before_begin_a_new_life() -> None:
    """The log was truncated, and the position was reset."""
    work = some_work("none", None, None, None)
    old = all_begun(work)

    work.add(P, [a_record(1), a_record(2)])
    for task in old:
        done(work, task)

    first = work.unfinished_from(P)
    assert first is not None
    assert (first.offset, work.pending) == (1, 2)


@pytest.mark.parametrize(("position", "counts"), [(3, True), (2, True), (1, False), (0, False)])
@pytest.mark.parametrize("taken_in", [True, False])
def test_an_unfinished_record_does_not_count_if_the_position_has_gone_back_below_it(
    position: int, counts: bool, taken_in: bool
) -> None:
    """The log was truncated, or its topic created anew: a record of before says nothing of it."""
    work = Work("none")
    work.incoming = {P: [a_record(1), a_record(2)]}
    if taken_in:
        work.take_in()

    found = work.unfinished({P: OffsetAndMetadata(position, "", -1)})

    assert {partition: first.offset for partition, first in found.items()} == (
        {P: 1} if counts else {}
    )


def test_an_unfinished_record_does_not_count_while_its_partition_has_no_position() -> None:
    assert some_work("none", None).unfinished({}) == {}


@given(
    st.sampled_from(["key", "partition", "none"]),
    st.lists(st.sampled_from([None, b"a", b"b", b"c"]), min_size=1, max_size=30),
    st.data(),
)
@settings(deadline=None)
def test_everything_is_finished_once_in_its_order(
    order: str, keys: list[bytes | None], data: st.DataObject
) -> None:
    work = some_work(order, *keys)
    running: list[Task] = []
    ended: list[int] = []
    now = 0.0
    while len(ended) < len(keys):
        running += all_begun(work, now)
        assert running or work.next_retry > now
        now += 1.0
        if not running:
            continue
        task = running.pop(data.draw(st.integers(0, len(running) - 1)))
        work.returned(task)
        if data.draw(st.booleans()):
            work.retry(task, now)
            continue
        work.finish(task)
        ended.append(task.record.offset)
        left = sorted(set(range(len(keys))) - set(ended))
        first = work.unfinished_from(P)
        assert (first.offset if first else None) == (left[0] if left else None)
    assert work.pending == 0
    for key in set(keys) - {None}:
        mine = [offset for offset in ended if keys[offset] == key]
        assert order == "none" or mine == sorted(mine)
    if order == "partition":
        assert ended == sorted(ended)
