"""Where each partition stands, kept from tick to tick: only what has changed is looked at again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from aktor.actors.runtime.manager import NEVER, Backoff
from aktor.events.positions import Position
from aktor.managers.fetch.cursor import FetchCursor
from aktor.managers.fetch.plan import FetchPlan
from aktor.managers.fetch.room import FetchRoom
from aktor.managers.fetch.session import Watermarks
from aktor.trace import silent
from tests.unit.managers.fetch.builders import a_cluster, tp

BOUND, PER_PARTITION = 1000, 100

WATERMARKS = Watermarks(high_watermark=9, last_stable_offset=9, log_start_offset=0)


class Table:
    """A plan, and cursors that are changed by hand."""

    def __init__(self, leaders: Mapping[Any, int], **how: Any) -> None:
        self.plan = FetchPlan(FetchRoom(BOUND, PER_PARTITION))
        self.plan.follow(a_cluster(leaders, **how))
        for one in leaders:
            self.add(one)
        self.now = 0.0
        self.look()

    def add(self, one: Any, offset: int | None = 0) -> FetchCursor:
        position = None if offset is None else Position(offset=offset)
        cursor = FetchCursor(tp(one), 1, position, backoff=Backoff(0.1, 1.0), log=silent())
        cursor.find_leader(self.plan.cluster)
        self.plan.replace(cursor)
        return cursor

    def cursor(self, one: Any) -> FetchCursor:
        return self.plan.cursors[tp(one)]

    def look(self, *changed: Any, at: float | None = None) -> list[tuple[int, int]]:
        """Something happened to these: refresh; (node, partition) of those that were looked at and
        are ready."""
        self.now = self.now if at is None else at
        self.plan.look_again(tp(one) for one in changed)
        return [(node, cursor.tp.partition) for node, cursor in self.plan.refresh(self.now)]

    @property
    def ready(self) -> dict[int, list[int]]:
        """Node -> partitions in the order in which they are asked for."""
        plan = self.plan
        return {node: [one.partition for one in plan.ready(node)] for node in plan.ready_nodes()}


def test_every_partition_with_a_position_and_a_leader_is_ready_at_its_node() -> None:
    table = Table({0: 1, 1: 2, 2: 1})

    assert table.ready == {1: [0, 2], 2: [1]}
    assert table.plan.nodes == 2
    assert table.plan.leaderless == {}
    assert table.plan.wake_at == NEVER


def test_only_what_has_changed_is_looked_at_and_in_that_order() -> None:
    table = Table({0: 1, 1: 2, 2: 1})
    assert table.look() == []

    assert table.look(2, 1) == [(1, 2), (2, 1)]
    table.cursor(0).stopped = True
    assert table.look(1) == [(2, 1)]
    assert table.ready[1] == [0, 2]

    assert table.look(0) == []
    assert table.ready[1] == [2]


def test_a_look_at_what_stays_where_it_is_keeps_the_order() -> None:
    table = Table({0: 1, 1: 1, 2: 1})

    table.look(1, 0)

    assert table.ready == {1: [0, 1, 2]}


def test_who_brought_data_comes_after_the_others_of_its_node() -> None:
    table = Table({0: 1, 1: 1, 2: 1})

    table.plan.to_the_end(table.cursor(0))
    assert table.ready == {1: [1, 2, 0]}

    table.cursor(1).stopped = True
    table.look(1)
    table.plan.to_the_end(table.cursor(1))  # it is asked for no more
    table.plan.to_the_end(FetchCursor(tp(9), 1, None, backoff=Backoff(1, 1), log=silent()))
    assert table.ready == {1: [2, 0]}


@pytest.mark.parametrize(
    ("why", "counts"),
    [
        ("paused", True),
        ("waiting", True),
        ("crowded", True),
        ("stopped", False),
        ("unpolled", False),
        ("looked up", False),
        ("leaderless", False),
    ],
)
def test_what_cannot_be_asked_for_now_is_not_and_counts_at_its_node_if_it_will_be_soon(
    why: str, counts: bool
) -> None:
    table = Table({0: 1, 1: 2})
    plan, cursor = table.plan, table.cursor(0)
    match why:
        case "paused":
            plan.pause({tp(0)})
        case "waiting":
            cursor.backoff.pause(1.0)
        case "crowded":
            cursor.buffer(9, BOUND // 2, WATERMARKS)
        case "stopped":
            cursor.stop()
        case "unpolled":
            plan.unpolled.add(tp(0))
        case "looked up":
            cursor.offset = None
        case _:
            cursor.leader = None

    assert table.look(0) == []

    assert table.ready == {2: [1]}
    assert plan.nodes == 1 + counts
    assert plan.crowded(1) == (why == "crowded")
    assert plan.expected == ({1} if why == "looked up" else set())
    assert set(plan.leaderless) == ({tp(0)} if why == "leaderless" else set())
    assert plan.wake_at == (1.0 if why == "waiting" else NEVER)


def test_of_a_partition_without_a_leader_it_is_known_who_led_it_before() -> None:
    table = Table({0: 1, 1: 2})

    for _ in range(2):
        table.cursor(0).leader = None
        table.look(0)

    assert table.plan.hindered[tp(0)].node == 1
    assert tp(1) not in table.plan.hindered


def test_what_is_paused_or_has_no_leader_is_expected_of_nobody() -> None:
    table = Table({0: 1, 1: 2})
    for one in (0, 1):
        table.cursor(one).offset = None
    table.plan.paused.add(tp(0))
    table.cursor(1).leader = None

    table.look(0, 1)

    assert table.plan.expected == set()
    assert table.plan.leaderless == {}


def test_a_partition_is_crowded_from_an_equal_part_of_the_bound_on() -> None:
    table = Table({0: 1, 1: 1})
    table.cursor(0).buffer(9, BOUND // 2 - 1, WATERMARKS)
    table.look(0)
    assert table.ready == {1: [0, 1]}

    table.cursor(0).buffer(10, 1, WATERMARKS)
    table.look(0)
    assert table.ready == {1: [1]}
    assert table.plan.all_crowded.now == {tp(0)}

    table.cursor(0).consumed_up_to(10)
    assert table.look(0) == [(1, 0)]
    assert table.ready == {1: [1, 0]}
    assert not table.plan.crowded(1)
    assert table.plan.all_crowded.now == frozenset()


def test_bytes_that_the_application_can_read_are_counted_at_the_node_they_came_from() -> None:
    table = Table({0: 1, 1: 1, 2: 2})
    for one, size in ((0, 10), (1, 20), (2, 40)):
        table.cursor(one).buffer(9, size, WATERMARKS)
    table.look(0, 1, 2)
    assert (table.plan.readable, table.plan.readable_from(1), table.plan.readable_from(2)) == (
        70,
        30,
        40,
    )

    table.plan.paused.add(tp(1))
    table.look(1)
    assert (table.plan.readable, table.plan.readable_from(1)) == (50, 10)

    table.cursor(2).leader = None
    table.look(2)
    assert (table.plan.readable, table.plan.readable_from(2)) == (50, 0)


def test_a_partition_whose_offset_is_looked_up_has_nothing_buffered() -> None:
    table = Table({0: 1})
    table.add(1, offset=None)
    table.look(0, 1)

    assert (table.plan.readable, table.plan.readable_from(1)) == (0, 0)


def test_a_partition_that_waits_is_looked_at_when_its_time_has_come() -> None:
    table = Table({0: 1, 1: 1})
    table.cursor(0).backoff.pause(1.0)
    table.cursor(1).backoff.pause(2.0)
    table.look(0, 1)
    assert table.plan.wake_at == 1.0

    assert table.look(at=0.9) == []
    assert table.look(at=1.0) == [(1, 0)]
    assert table.plan.wake_at == 2.0
    assert table.look(at=5.0) == [(1, 1)]
    assert table.plan.wake_at == NEVER


def test_a_time_that_holds_no_more_wakes_nobody() -> None:
    table = Table({0: 1, 1: 1})
    table.cursor(0).backoff.pause(1.0)
    table.look(0)

    table.cursor(0).try_again()
    assert table.look(0) == [(1, 0)]
    assert table.plan.wake_at == NEVER

    table.cursor(0).backoff.pause(3.0)
    table.look(0)
    table.cursor(0).backoff.pause(2.0)
    table.look(0)
    assert table.plan.wake_at == 2.0
    assert table.look(at=2.0) == [(1, 0)]
    assert table.plan.wake_at == NEVER


def test_a_preferred_replica_is_read_until_its_time_is_over() -> None:
    table = Table({0: 1})
    table.cursor(0).prefer_replica(2, 300.0)
    assert table.look(0) == [(2, 0)]
    assert table.ready == {2: [0]}
    assert table.plan.nodes == 1
    assert table.plan.wake_at == 300.0

    assert table.look(at=300.0) == [(1, 0)]
    assert table.ready == {1: [0]}
    assert table.plan.wake_at == NEVER


def test_a_replica_that_waits_wakes_at_whichever_comes_first() -> None:
    table = Table({0: 1})
    table.cursor(0).prefer_replica(2, 300.0)
    table.cursor(0).backoff.pause(301.0)
    table.look(0)
    assert table.plan.wake_at == 300.0

    table.cursor(0).backoff.pause(299.0)
    table.look(0)
    assert table.plan.wake_at == 299.0


def test_what_is_assigned_no_more_leaves_no_trace() -> None:
    table = Table({0: 1, 1: 2, 2: 3})
    table.cursor(0).buffer(9, 10, WATERMARKS)
    table.cursor(1).backoff.pause(1.0)
    table.cursor(2).leader = None
    table.look(0, 1, 2)

    table.plan.cursors.clear()
    table.plan.look_at_all()

    assert table.look() == []
    assert table.ready == {}
    assert table.plan.nodes == table.plan.readable == table.plan.readable_from(1) == 0
    assert table.plan.leaderless == {}
    assert table.plan.wake_at == NEVER


def test_a_new_cursor_takes_the_place_of_the_old_one() -> None:
    table = Table({0: 1, 1: 1})

    cursor = table.add(0, offset=7)

    assert table.look() == [(1, 0)]
    assert table.plan.ready(1)[tp(0)] is cursor


def test_what_concerns_all_is_looked_at_once_each_new_ones_too() -> None:
    table = Table({0: 1, 1: 1})
    table.add(2, offset=None)

    table.plan.look_at_all()

    assert sorted(table.look()) == [(1, 0), (1, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_the_plan_is_at_any_time_what_one_made_anew_would_be(seed: int) -> None:
    draw = random.Random(seed)
    partitions = range(6)
    table = Table({one: 1 + one % 3 for one in partitions})
    for _ in range(200):
        _change(table, draw.choice(partitions), draw)
        table.look(at=table.now + draw.choice([0.0, 0.0, 0.5]))

        assert _seen(table.plan) == _seen(_made_anew(table))


def _change(table: Table, one: int, draw: random.Random) -> None:
    plan, cursor = table.plan, table.plan.cursors.get(tp(one))
    if cursor is None:
        table.add(one, offset=draw.choice([None, 0]))
        return
    match draw.randrange(9):
        case 0:
            plan.paused ^= {tp(one)}
        case 1:
            cursor.backoff.pause(table.now + draw.choice([0.5, 1.0, 2.0]))
        case 2:
            cursor.buffer(9, draw.choice([10, BOUND]), WATERMARKS)
        case 3:
            cursor.consumed_all()
        case 4:
            cursor.stopped = not cursor.stopped
        case 5:
            cursor.leader = None
        case 6:
            cursor.find_leader(plan.cluster)
        case 7:
            cursor.prefer_replica(draw.randint(1, 3), table.now + draw.choice([0.5, 2.0]))
        case _:
            del plan.cursors[tp(one)]
            plan.look_at_all()  # each is crowded from another size on now
            return
    plan.look_again([tp(one)])


def _made_anew(table: Table) -> FetchPlan:
    plan = FetchPlan(FetchRoom(BOUND, PER_PARTITION))
    plan.cluster, plan.cursors = table.plan.cluster, dict(table.plan.cursors)
    plan.paused, plan.unpolled = table.plan.paused, table.plan.unpolled
    plan.look_at_all()
    plan.refresh(table.now)
    return plan


def _seen(plan: FetchPlan) -> dict[str, Any]:
    nodes = sorted(plan.ready_nodes())
    return {
        "ready": {node: frozenset(plan.ready(node)) for node in nodes},
        "nodes": plan.nodes,
        "readable from": {node: plan.readable_from(node) for node in nodes},
        "crowded": {node: plan.crowded(node) for node in nodes},
        "expected": plan.expected,
        "leaderless": frozenset(plan.leaderless),
        "readable": plan.readable,
        "wake_at": plan.wake_at,
    }
