"""Storms: groups that read while everything goes wrong keep every promise."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aktor.cli.main import main
from aktor.simulation import CheckFailedError, Simulation
from aktor.simulation.history import History
from aktor.simulation.revision import revision
from aktor.simulation.selftest.protocol import draw_protocol
from aktor.simulation.selftest.storm import USER, run_storm
from tests.gate import all_but_the_first

ROOT = Path(__file__).parents[2]

#: The same storms each time, the last of them only in .ci/run: `make soak` runs any number of
#: others. So few of them are in one test that it ends long before it would be taken for one that
#: hangs, however busy the machine is.
STORMS = int(os.environ.get("AKTOR_STORMS", "12"))
OFTEN = 4
TOGETHER = 4

#: With those of the mix that are classic, the storms that find the bugs of docs/simulation.md.
FIND_BUGS = (1, 3, 5, 11, 81)


@pytest.mark.parametrize("first", all_but_the_first(OFTEN // TOGETHER, range(0, STORMS, TOGETHER)))
def test_every_promise_is_kept_in_storms_of_all_protocols(capfd: Any, first: int) -> None:
    failed = main(["sim", "run", "--first", str(first), "--seeds", str(TOGETHER)])

    said = capfd.readouterr().out
    assert not failed, said
    assert f"{TOGETHER} seeds, 0 failed" in said


@pytest.mark.gate
@pytest.mark.parametrize("seed", FIND_BUGS)
def test_every_promise_is_kept_in_storms_that_find_bugs_that_are_put_back(seed: int) -> None:
    outcome = run_storm(seed, protocol="classic")

    assert outcome.error is None, outcome.error


def test_half_of_the_mix_is_classic_and_the_rest_speaks_the_consumer_protocol_in_all_ways() -> None:
    drawn = [draw_protocol(seed) for seed in range(300)]

    names = Counter(one.name for one in drawn)
    assert names.keys() == {"classic", "consumer", "auto", "migration"}
    assert abs(names["classic"] - 150) < 30
    assert min(names.values()) >= 15
    modern = [one for one in drawn if one.name in ("consumer", "auto")]
    assert {one.remote_assignor for one in modern} == {None, "uniform", "range"}
    assert {one.is_static for one in modern} == {one.has_regex for one in modern} == {False, True}
    assert {one.upgrades for one in drawn if one.name == "migration"} == {False, True}


@pytest.mark.gate
def test_members_of_consumer_groups_meet_what_this_protocol_is_for() -> None:
    met: Counter[str] = Counter()
    for seed in MODERN:
        outcome = run_storm(seed, protocol="consumer")
        assert outcome.error is None, outcome.error
        met += _met(outcome.history)

    assert min(met[one] for one in MET) >= 1, met


#: Seeds of storms in which all of this happens.
MODERN = range(8)
MET = (
    "heartbeat refused: FENCED_MEMBER_EPOCH",
    "heartbeat refused: UNKNOWN_MEMBER_ID",
    "heartbeat refused: NOT_COORDINATOR",
    "heartbeat refused: COORDINATOR_LOAD_IN_PROGRESS",
    "the answer to a heartbeat was lost",
    "another coordinator",
    "another target while reconciling",
    "a coordinator was silent",
    "frozen while it handed back",
    "a member was fenced",
    "a member polled too late",
)


#: What was done to which request.
_LOST = ("ConsumerGroupHeartbeat", "Drop")


def _met(history: History) -> Counter[str]:
    """What its members went through."""
    met: Counter[str] = Counter()
    states: dict[str, str] = {}
    coordinators: dict[str, int] = {}
    for event in history.events:
        member = event["member"]
        match event["event"]:
            case "membership.moved":
                states[member] = str(event["after"])
                met["a member was fenced"] += states[member] == "fenced"
            case "rebalance.target" if states.get(member) == "reconciling":
                met["another target while reconciling"] += 1
            case "request.hindered" if (event["api"], event["how"]) == _LOST:
                met["the answer to a heartbeat was lost"] += 1
            case "heartbeat.failed":
                met[f"heartbeat refused: {str(event['because']).partition(':')[0]}"] += 1
            case "coordinator.found":
                before = coordinators.get(member, event["node"])
                met["another coordinator"] += before != event["node"]
                coordinators[member] = event["node"]
            case "poll.late":
                met["a member polled too late"] += 1
            case "fault.began" if event["kind"] == "coordinator_silent":
                met["a coordinator was silent"] += 1
            case "member.frozen" if event.get("hands_back"):
                met["frozen while it handed back"] += 1
    return met


@pytest.mark.gate
def test_who_may_not_log_in_for_a_while_hears_of_it_and_keeps_every_promise() -> None:
    outcome = run_storm(2)

    assert outcome.error is None, outcome.error
    heard = [one["error"] for one in outcome.history.named("user.hears")]
    assert any("AuthenticationError" in one for one in heard)
    assert not any(secret in outcome.history.text() for secret in USER.values())


def test_a_migrating_group_is_of_both_kinds_and_keeps_every_promise() -> None:
    outcome = run_storm(1, protocol="migration")

    assert outcome.error is None, outcome.error
    asked = {one["api"] for one in outcome.history.named("request.sent")}
    assert {"JoinGroup", "ConsumerGroupHeartbeat"} <= asked


#: In this process no garbage is collected, and the clocks jump with each look at them.
ODD = """
import gc, itertools, time
gc.disable()
jumps = itertools.count()
for name in ("time", "monotonic", "perf_counter"):
    setattr(time, name, lambda real=getattr(time, name): real() + next(jumps) * 7.0)
"""


@pytest.mark.gate
@pytest.mark.parametrize("seed", [2, 6, 14, 69])
def test_a_seed_is_one_history_in_any_process_drawn_from_the_mix_or_run_by_its_protocol(
    seed: int,
) -> None:
    program = (
        "from aktor.simulation.selftest.protocol import MIX, draw_protocol;"
        "from aktor.simulation.selftest.storm import run_storm;"
        "print(run_storm({seed}, protocol={protocol}).history.text())"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", before + program.format(protocol=protocol, seed=seed)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for before, hash_seed, protocol in (
            ("", "1", "MIX"),
            (ODD, "2", f"draw_protocol({seed}).name"),
        )
    )

    assert first == second
    assert len(first) > 25_000


def test_a_failure_says_which_aktor_it_was() -> None:
    with Simulation(seed=1) as sim:
        sim.history.note("buffer.exceeded", bytes=1)

        with pytest.raises(
            CheckFailedError, match=rf"seed 1, aktor {re.escape(revision())}, 0.000 s"
        ):
            sim.check()


#: At their ends: nothing in particular; mail with an error of the consumer's; a commit in flight;
#: consumers that are held by their own listeners.
LEFT_BEHIND = (1, 13_100_001, 13_100_133, 98_000_004)


@pytest.mark.parametrize("seed", all_but_the_first(0, LEFT_BEHIND))
def test_an_ended_simulation_leaves_nothing_behind(seed: int) -> None:
    outcome = run_storm(seed)
    history = weakref.ref(outcome.history)
    del outcome
    gc.collect()  # the consumers, whose finalizers hold what is left
    gc.collect()

    assert history() is None
