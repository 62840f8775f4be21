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

#: The same storms each time; `make soak` runs any number of others.
STORMS = int(os.environ.get("AKTOR_STORMS", "8"))

#: Those that the tests of the command `aktor sim` run. Here the first one is of `make test`, and
#: test_simulation.py has the others.
OF_THE_COMMAND = (0, 4, 5, 7)

#: Of each protocol one comes first: `make test` has these and the command's first one.
FIRST = (1, 3, 8)

#: These run in another process, too; and this one has a member that may not log in for a while.
TWICE = (2, 11)
REFUSED = 2

#: With those of the mix that are classic, the storms that find the bugs of docs/simulation.md.
FIND_BUGS = (1, 3, 5, 11, 81)

#: At their ends: a commit in flight; mail with an error of the consumer's; consumers that are held
#: by their own listeners.
ENDS = (13_100_001, 13_100_133, 98_000_004)

REST = [one for one in range(STORMS) if one not in (*OF_THE_COMMAND, *FIRST, *TWICE)]


def test_the_command_says_that_every_promise_was_kept(capfd: Any) -> None:
    assert main(["sim", "run", "--first", "0", "--seeds", "1"]) == 0

    assert "1 seeds, 0 failed" in capfd.readouterr().out


@pytest.mark.parametrize("seed", all_but_the_first(len(FIRST), [*FIRST, *REST, *ENDS]))
def test_every_promise_is_kept_in_storms_of_all_protocols_and_nothing_is_left_behind(
    seed: int,
) -> None:
    outcome = run_storm(seed)

    assert outcome.error is None, outcome.error
    if outcome.protocol == "migration":
        asked = {one["api"] for one in outcome.history.named("request.sent")}
        assert {"JoinGroup", "ConsumerGroupHeartbeat"} <= asked, "members of one kind only"
    history = weakref.ref(outcome.history)
    del outcome
    gc.collect()  # the consumers, whose finalizers hold what is left
    gc.collect()
    assert history() is None


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


#: Seeds of storms in which all of this happens. Without one of them something is missing.
MODERN = (17, 30)
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


#: In this process no garbage is collected, and the clocks jump with each look at them.
ODD = """
import gc, itertools, time
gc.disable()
jumps = itertools.count()
for name in ("time", "monotonic", "perf_counter"):
    setattr(time, name, lambda real=getattr(time, name): real() + next(jumps) * 7.0)
"""


@pytest.mark.gate
@pytest.mark.parametrize("seed", TWICE)
def test_a_seed_is_one_history_in_any_process_drawn_from_the_mix_or_run_by_its_protocol(
    seed: int,
) -> None:
    program = (
        "from aktor.simulation.selftest.protocol import draw_protocol;"
        "from aktor.simulation.selftest.storm import run_storm;"
        f"print(run_storm({seed}, protocol=draw_protocol({seed}).name).history.text(), end='')"
    )

    outcome = run_storm(seed)
    other = subprocess.run(
        [sys.executable, "-c", ODD + program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "2"},
        capture_output=True,
        check=True,
        text=True,
    ).stdout

    assert outcome.error is None, outcome.error
    same = outcome.history.text() == other  # to say where two long texts differ takes minutes
    assert same
    assert len(other) > 25_000
    if seed == REFUSED:
        heard = [one["error"] for one in outcome.history.named("user.hears")]
        assert any("AuthenticationError" in one for one in heard)
        assert not any(secret in other for secret in USER.values())


def test_a_failure_says_which_aktor_it_was() -> None:
    with Simulation(seed=1) as sim:
        sim.history.note("buffer.exceeded", bytes=1)

        with pytest.raises(
            CheckFailedError, match=rf"seed 1, aktor {re.escape(revision())}, 0.000 s"
        ):
            sim.check()
