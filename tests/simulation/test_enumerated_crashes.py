"""An actor of a member of a group falls over, at every point at which one can: the group goes on.

Each test is a crash drill (`aktor.simulation.selftest.drill`). What must hold after it, and is
checked in there: all partitions flow again and the member's commit succeeds; it closes and leaves
nothing open; its listener has heard of all that it owned; the others take over; everything is read;
every promise of `aktor.simulation.checks` was kept. A sample of the drills; AKTOR_DRILLS=all: all.
The drills are left to .ci/run: a consumer alone has its own (`tests/scenarios/test_crashes.py`).
"""

from __future__ import annotations

import functools
import math
import os
import re
from pathlib import Path

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from aktor.cli.main import main
from aktor.errors import ActorCrashedError
from aktor.events.lifecycle import Tick
from aktor.simulation import Simulation
from aktor.simulation.selftest import crash_table
from aktor.simulation.selftest.crash_table import COLUMNS, PROTOCOLS, Column, in_document, replaced
from aktor.simulation.selftest.drill import (
    BROKERS,
    CLOSE_MS,
    RECOVERED_WITHIN,
    Drill,
    Outcome,
    Phase,
)
from aktor.simulation.selftest.drill import drill as played
from aktor.simulation.world.crashes import ACTORS, Crash, Crashes, Point
from tests.gate import all_but_the_first
from tests.scenarios.world import seeds

DOCUMENT = Path(__file__).parents[2] / "docs" / "simulation.md"

#: What the supervisor mends (`Child.restarts` in docs/architecture.md, "Supervision").
BUDGET = 5
WITHIN = 60.0


#: What these do depends on the protocol; the other actors do the same in both.
OF_GROUPS = ("membership", "commits", "coordinator")
SHARED = [point for point in PROTOCOLS["classic"][0] if point.actor not in OF_GROUPS]


#: Each actor with one protocol, by turns; those whose work depends on it with both.
BY_TURNS = [
    (actor, protocol)
    for number, actor in enumerate(ACTORS)
    for turn, protocol in enumerate(PROTOCOLS)
    if actor in OF_GROUPS or (number + turn) % len(PROTOCOLS) == 0
]


def sampled(protocol: str) -> list[tuple[Point, Column]]:
    """Each point once, in one column or another; what is the same in both protocols in one of them.
    Of those that would be hit twice, one of each actor: what an actor does then hardly depends on
    the message. AKTOR_DRILLS=all: in every column of both."""
    every = os.environ.get("AKTOR_DRILLS") == "all"
    chosen = [
        (point, one)
        for number, point in enumerate(PROTOCOLS[protocol][0])
        for turn, one in enumerate(COLUMNS)
        if protocol in drilled_in(point, every=every)
        and (every or (number + turn) % len(COLUMNS) == 0)
    ]
    twice = {point.actor: point for point, one in reversed(chosen) if one.times > 1}
    return [
        (point, one)
        for point, one in chosen
        if every or one.times == 1 or twice[point.actor] == point
    ]


def drilled_in(point: Point, *, every: bool) -> list[str]:
    """Those protocols that reach this point, or one of them: of points in a row, so many as there
    are columns, and then as many in the other protocol."""
    reach = [one for one, (points, not_) in PROTOCOLS.items() if point in {*points} - not_.keys()]
    if every or point not in SHARED or not reach:
        return reach
    return [reach[SHARED.index(point) // len(COLUMNS) % len(reach)]]


def drills(*phases: Phase) -> list[object]:
    """Those in which the actor falls over while the member does this."""
    return [
        pytest.param(protocol, point, one, id=f"{protocol}, {point}, {one.title}")
        for protocol in PROTOCOLS
        for point, one in sampled(protocol)
        if one.phase in phases
    ]


#: What is said of a point that no script reaches.
UNREACHED = {
    "classic": {
        "commits on TruncationFound",
        "metadata on NameTopics",
        "network on ReportBootstrap",
        "positions on PositionsDiverged",
    },
    "consumer": {
        "commits on TruncationFound",
        "network on ReportBootstrap",
        "positions on PositionsDiverged",
    },
}


@functools.cache
def drill(protocol: str, point: Point, column: Column, seed: int) -> Outcome:
    """Other seeds also crash late, or in a group that is cooperative, or goes by another assignor
    of the brokers: as many as AKTOR_SEEDS says."""
    settings: dict[str, object] = {"group_protocol": protocol}
    if seed & 2 and protocol == "classic":
        settings["partition_assignment_strategy"] = (CooperativeStickyAssignor,)
    elif seed & 2:
        settings["group_remote_assignor"] = "range"
    return played(
        point,
        column.times,
        phase=column.phase,
        seed=seed,
        late=bool(seed & 1),
        **settings,
    )


@pytest.mark.gate
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_the_script_reaches_every_point_but_those_that_are_listed(protocol: str) -> None:
    points, unreached = PROTOCOLS[protocol]
    with Simulation(seed=0, settings=BROKERS) as sim:
        quiet = Drill(sim, {"group_protocol": protocol}, rounds=1)
        quiet.run()

    seen = set().union(*quiet.seen.values())
    others_fell = {point for point in points if point.message.__name__ == "ActorsRestarted"}
    assert set(points) - seen - others_fell == unreached.keys() - others_fell
    assert {str(point) for point in unreached} == UNREACHED[protocol]


@pytest.mark.gate
@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize(("protocol", "point", "column"), drills(Phase.READING))
def test_all_is_well_again_within_five_seconds_after_a_crash_of(
    protocol: str, point: Point, column: Column, seed: int
) -> None:
    outcome = drill(protocol, point, column, seed)

    assert outcome.happened == column.times, "nothing was tested"
    assert outcome.escalation is None
    assert outcome.recovery <= RECOVERED_WITHIN
    assert outcome.closing <= CLOSE_MS / 1000
    assert outcome.taking_over <= RECOVERED_WITHIN


@pytest.mark.gate
@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize(("protocol", "point", "column"), drills(Phase.JOINING, Phase.CLOSING))
def test_the_group_goes_on_if_a_member_has_a_crash(
    protocol: str, point: Point, column: Column, seed: int
) -> None:
    outcome = drill(protocol, point, column, seed)

    assert outcome.good, outcome


@pytest.mark.parametrize(("actor", "protocol"), all_but_the_first(3, BY_TURNS))
def test_as_many_crashes_as_the_budget_allows_are_mended(actor: str, protocol: str) -> None:
    outcome = played(Point(actor, Tick), BUDGET, group_protocol=protocol)

    assert outcome.happened == BUDGET
    assert outcome.escalation is None
    assert outcome.good


@pytest.mark.parametrize(("actor", "protocol"), all_but_the_first(3, BY_TURNS))
def test_one_crash_more_ends_the_consumer_by_name_and_others_take_over(
    actor: str, protocol: str
) -> None:
    outcome = played(Point(actor, Tick), 1000, group_protocol=protocol)
    error = outcome.escalation

    assert outcome.happened == BUDGET + 1
    assert isinstance(error, ActorCrashedError)
    assert error.actor == actor
    assert isinstance(error.__cause__, Crash)
    assert outcome.recovery <= 0.1, "the application hears of it at once"
    assert outcome.closing == 0.0
    assert outcome.taking_over <= RECOVERED_WITHIN


@pytest.mark.parametrize("actor", all_but_the_first(2, ACTORS[::2]))
def test_crashes_that_are_long_past_do_not_count(actor: str) -> None:
    with Simulation(seed=0) as sim:
        orders = sim.topic("orders", partitions=2)
        alice, _ = sim.consumers(group="g", topics=[orders], count=2)
        crashes: list[Crashes] = []
        for _ in range(2 * BUDGET):
            crashes.append(alice.crash(actor, on=Tick))
            # Who has nothing to do is not asked.
            sim.brokers.move_coordinator("g")
            sim.brokers.move_leader(orders, 0)
            sim.run(for_=WITHIN / BUDGET + 0.5)
        orders.write(20)
        sim.progress(at_most=10.0).check()

        assert all(one.happened == 1 for one in crashes)
        assert list(sim.history.named("actor.escalated")) == []


@pytest.mark.gate
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_documents_tables_have_the_present_points_and_outcomes(protocol: str) -> None:
    """Made by `aktor sim crashes --write docs/simulation.md`."""
    points, unreached = PROTOCOLS[protocol]
    shown = in_document(DOCUMENT.read_text(), protocol)

    assert [(row[0], row[1]) for row in shown] == [
        (point.actor, point.message.__name__) for point in points
    ]
    rows = dict(zip(points, shown, strict=True))
    assert all(rows[point][2] == f"not reached: {why}" for point, why in unreached.items())
    for point, one in sampled(protocol):
        kind, seconds = in_words(str(drill(protocol, point, one, 0)))
        shown_kind, shown_seconds = in_words(rows[point][2 + COLUMNS.index(one)])
        assert shown_kind == kind, f"{point}, {one.title}"
        assert math.isclose(shown_seconds, seconds, abs_tol=1.0), f"{point}, {one.title}"


def in_words(cell: str) -> tuple[str, float]:
    """ "recovered after 0.25 s" as ("recovered", 0.25)."""
    found = re.fullmatch(r"(\w+) after ([\d.]+) s", cell)
    if found is None:
        return "not reached" if cell == "–" else cell, 0.0
    return found[1], float(found[2])


@pytest.mark.gate
def test_the_command_prints_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two points, and only that of this actor: each point has its drills above."""
    few = {}
    for protocol, (points, unreached) in PROTOCOLS.items():
        other = next(point for point in points if point.actor == "fetch")
        few[protocol] = (Point("coordinator", Tick), other), unreached
    monkeypatch.setattr(crash_table, "PROTOCOLS", few)

    assert main(["sim", "crashes", "--actor", "coordinator"]) == 0

    told = capsys.readouterr().out
    assert told.count("| coordinator | Tick | recovered after") == len(PROTOCOLS)
    assert "| fetch |" not in told


def test_a_table_replaces_what_is_between_its_markers() -> None:
    document = (
        "# Doc\n<!-- crashes: classic -->\nold\n<!-- /crashes: classic -->\n"
        "<!-- crashes: consumer -->\nkept\n<!-- /crashes: consumer -->\nthe end\n"
    )

    assert replaced(document, "classic", "new") == document.replace("old", "new")


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["--actor", "nobody"], "there is no actor 'nobody'"),
        (["--actor", "fetch", "--write", "{file}"], "leave out --actor"),
        (["--write", "{file}"], "there is no <!-- crashes: classic -->"),
        (["--write", "{file}.not-there"], "cannot read"),
    ],
)
def test_the_command_refuses_at_once_what_it_cannot_do(
    arguments: list[str], refusal: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "document.md"
    file.write_text("no markers")

    assert main(["sim", "crashes", *(one.format(file=file) for one in arguments)]) == 2

    assert refusal in capsys.readouterr().err
    assert file.read_text() == "no markers"
