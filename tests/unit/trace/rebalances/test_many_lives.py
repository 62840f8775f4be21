"""A group in which consumers come and go for days (a crash loop): what is kept of it does not grow
with them, but for one row of totals for each name, and each costs the same."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

import aktor.trace.rebalances
from aktor.trace.rebalances import GroupTraces, clocks, group
from aktor.trace.rebalances.lines import Event
from aktor.trace.rebalances.rows import MemberTotal, Row
from tests.executed import lines
from tests.unit.trace.rebalances.told import BEGAN, Member, takes

ANALYSIS = str(Path(aktor.trace.rebalances.__file__).parent)

#: Seconds from one life to the next.
EVERY = 20.0

#: Lives, and those whose cost is measured.
MANY = 300
FEW = 100

#: Bytes that a name may take in a pickle, with its totals and the id of its member.
NAME = 200

#: By what rows differ if a name is given anew: the name, and what a storm counts of the most
#: frequent one.
OF_NAMES = r" \(trace [0-9]+\)|initiated=[0-9]+"


def closed(member: Member, at: float, number: int) -> None:
    """It is started, works and is closed; and so on."""
    member.rebalances(at, at + 1, number, because="first join", members=1, owns=["t-0"])
    member.is_given(at + 2, "t-0", number, number)
    member.leaves(at + 3, ["t-0"])


def killed(member: Member, at: float, number: int) -> None:
    """Its partition is given to the next one."""
    member.rebalances(at, at + 1, number, because="first join", members=1, owns=["t-0"])
    member.is_given(at + 2, "t-0", number, number)


def killed_without_partitions(member: Member, at: float, number: int) -> None:
    """Under KIP-848 no trace tells that it is gone."""
    takes(member, at, number, "first join", joins=True)


def killed_while_it_joins(member: Member, at: float, number: int) -> None:
    member.tells(at, "rebalance.triggered", because="first join", generation=-1)
    member.tells(at, "membership.moved", before="unjoined", after="joining")


def lost(member: Member, at: float, number: int) -> None:
    """Its coordinator goes with it, and a commit fails before it is killed."""
    member.rebalances(at, at + 1, number, because="first join", members=1, owns=["t-0"])
    member.tells(at + 2, "coordinator.lost", node=1, because="connection refused")
    member.tells(at + 2, "commit.failed", because="connection refused")
    member.tells(at + 3, "member.lost", because="fenced: UnknownMemberIdError")
    member.tells(at + 3, "membership.moved", before="stable", after="unjoined")


def refused(member: Member, at: float, number: int) -> None:
    """It never comes into its group."""
    member.tells(at, "connection.failed", because="AuthenticationError: wrong password")


def paused(member: Member, at: float, number: int) -> None:
    """The application had assigned and paused the partition when it was killed."""
    member.tells(at, "partitions.assigned", partitions={"t-0": 1}, by_group=False)
    member.tells(at + 1, "partitions.paused", partitions=["t-0"])
    member.tells(at + 2, "commit.failed", because="the disk is full")


def leaves_without_a_rebalance(member: Member, at: float, number: int) -> None:
    """Nothing comes of what it tells its group."""
    member.tells(at, "subscription.told", because="the subscription changed")
    member.tells(at + 1, "member.left", because="the application unsubscribed")


LOOPS = (
    closed,
    killed,
    killed_without_partitions,
    killed_while_it_joins,
    lost,
    refused,
    paused,
    leaves_without_a_rebalance,
)


def lives(loop: Callable[[Member, float, int], None], numbers: Iterable[int]) -> list[Event]:
    """What these tell: all have one client id on one host."""
    events: list[Event] = []
    for number in numbers:
        mine: list[Event] = []
        loop(Member(mine, "app", "vm"), BEGAN + EVERY * number, number)
        origin = {"trace": f"{number:08}", "source": f"{number:08}", "member": f"app-{number}"}
        events += [event | origin for event in mine]
    return sorted(events, key=lambda event: event["t"])


def tell(traces: GroupTraces, events: list[Event]) -> list[Row]:
    rows: list[Row] = []
    for event in events:
        traces.take(event)
        rows += traces.rows()
    return rows


def rows_of_all(events: list[Event]) -> list[Row]:
    traces = GroupTraces("g")
    return tell(traces, events) + traces.end()


def without_names(rows: list[Row]) -> tuple[list[str], Counter[str]]:
    """The rows as if all had the same name, and the totals of all."""
    totals: Counter[str] = Counter()
    for row in rows:
        if type(row) is MemberTotal:
            totals += Counter(lives=row.lives, rebalances=row.rebalances, lost=row.lost)
    others = [re.sub(OF_NAMES, "", repr(row)) for row in rows if type(row) is not MemberTotal]
    return sorted(others), totals


@pytest.fixture
def few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that some hundred lives are many."""
    monkeypatch.setattr(group, "GONE_KEPT", 20)
    monkeypatch.setattr(group, "IDLE_KEPT", 60)


@pytest.mark.usefixtures("few_are_kept")
@pytest.mark.parametrize("loop", LOOPS)
def test_neither_memory_nor_work_grows_with_all_lives_that_ever_were(
    loop: Callable[[Member, float, int], None],
) -> None:
    traces, sizes, costs = GroupTraces("g"), [], []
    for first in (1, 1 + MANY):
        tell(traces, lives(loop, range(first, first + MANY - FEW)))
        few = lives(loop, range(first + MANY - FEW, first + MANY))
        costs.append(lines(partial(tell, traces, few), of=ANALYSIS))
        sizes.append(len(pickle.dumps(traces)))

    assert sizes[1] <= 1.1 * sizes[0] + NAME * MANY
    assert costs[1] <= 1.1 * costs[0]


@pytest.mark.parametrize("loop", [closed, killed, lost])
def test_nothing_is_lost_of_who_is_forgotten(
    loop: Callable[[Member, float, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But its name: who comes later has it again."""
    events = lives(loop, range(1, MANY + 1))
    expected = without_names(rows_of_all(events))
    monkeypatch.setattr(group, "GONE_KEPT", 20)

    assert without_names(rows_of_all(events)) == expected


def test_of_a_clock_that_is_forgotten_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "ANSWERS", 2)
    known = clocks.Clocks()
    known.reached(5, 10.0, "1", ("alice", "a"), joins=False)
    known.reached(4, 20.0, "2", ("bob", "b"), joins=True)  # so its clock seems to be ahead
    known.reached(6, 21.0, "3", ("carol", "c"), joins=False)

    known.ends("1", 30.0)

    assert known.ahead == {}
