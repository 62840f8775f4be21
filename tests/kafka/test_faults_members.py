"""Members die, freeze, dawdle, come and go: every record is delivered, and one owner has it.

A real coordinator decides who is gone: each fault is met in one protocol, or in the two whose
coordinators do different things. In all of them it is met by the storms of `tests/simulation`.
"""

from __future__ import annotations

import random
import time

import pytest

from aktor import TopicPartition
from tests.kafka.embedded import Cluster
from tests.kafka.fault_support import SESSION_S, SHORT_SESSION_S, Manner, Verdict, World
from tests.kafka.support import PROMPT_S, quick

pytestmark = pytest.mark.once("brokers are well here; members and their sessions take the time")

MEMBERS = ("a", "b", "c")

#: How long a member may take, and how long one does: shorter than until the session would be over
#: as well of one that does nothing but fall silent.
MAY_TAKE_S = 3.0
DAWDLE_S = 8.0


def settled_and_loaded(world: World, *, a_is_a_process: bool = False, **settings_of_a: int) -> None:
    """Three members share the partitions, and records flow. The session of a process is short,
    unless it is told."""
    if a_is_a_process and world.manner != "consumer":
        settings_of_a.setdefault("session_timeout_ms", round(SHORT_SESSION_S * 1000))
    world.join("a", process=a_is_a_process, **settings_of_a)
    world.join("b", "c")
    world.settled(*MEMBERS)
    world.load()


def longest_waits(verdict: Verdict, partitions: set[int]) -> tuple[float, float]:
    """The longest wait of these partitions, and of the others."""
    inside = [wait for one, wait in verdict.waits.items() if one in partitions]
    outside = [wait for one, wait in verdict.waits.items() if one not in partitions]
    return max(inside), max(outside)


def handed_over_within(manner: Manner) -> float:
    """How long partitions may be nobody's, though one rebalance may meet the next.

    On a busy machine each takes seconds. But who is waited for in vain is so for a session, or half
    of it: no timer of the classic protocol ends sooner. (The sessions of the other one are short.)
    """
    return SESSION_S / 2 if manner == "eager" else 2 * PROMPT_S


def taken_over(world: World, partitions: set[int], since: float) -> dict[int, float]:
    """When each of these partitions was first given to somebody."""
    taken: dict[int, float] = {}
    for report in world.ensemble.said("assigned", since=since):
        for one in partitions.intersection(report["partitions"]):
            taken[one] = min(report["at"], taken.get(one, report["at"]))
    return taken


@pytest.mark.parametrize("manner", ["consumer"])
def test_a_killed_members_partitions_wait_for_its_session_and_those_of_others_do_not(
    kafka3: Cluster, topic: str, group: str, manner: Manner
) -> None:
    with World(kafka3, topic, group, manner=manner) as world:
        settled_and_loaded(world, a_is_a_process=True)
        orphans = world.shares()["a"]
        world.watch_coordinator()

        world.kill("a")
        world.settled("b", "c")
        verdict = world.finish()

        assert verdict.faults == []
        of_orphans, of_others = longest_waits(verdict, orphans)
        # While the coordinator stands still, as on a busy machine, it ends no session.
        assert of_orphans < SHORT_SESSION_S + PROMPT_S + world.nobody_for()
        assert of_others < PROMPT_S


@pytest.mark.parametrize(
    ("manner", "ahead"),
    [("eager", False), ("consumer", True)],
    ids=["that commits", "with records fetched ahead"],
)
def test_a_member_that_was_frozen_past_its_session_hands_out_nothing_that_is_not_its_own(
    kafka3: Cluster, topic: str, group: str, manner: Manner, ahead: bool
) -> None:
    with World(kafka3, topic, group, manner=manner) as world:
        if ahead:  # it can't keep up, and never asks the group for anything
            settings = {"max_poll_records": 2, "enable_auto_commit": True}
        else:
            settings = {}
        settled_and_loaded(world, a_is_a_process=True, **settings)
        owned = world.shares()["a"]

        world.members["a"].stop()
        world.settled("b", "c", ignoring="a")
        time.sleep(1)
        continued_at = time.monotonic()
        world.members["a"].go_on()
        world.settled(*MEMBERS)
        verdict = world.finish()

        # Among the faults it looks for: a record read from a partition that somebody else owned.
        assert verdict.faults == []
        told = [
            (report["said"], report.get("how"))
            for member, report in world.ensemble.reports
            if member == "a"
            and report["at"] > continued_at
            and report["said"] in ("released", "assigned", "read")
        ]
        assert told[:2] == [("released", "lost"), ("assigned", None)]
        assert {
            one for r in world.ensemble.said("released", by="a") for one in r["partitions"]
        } >= owned


@pytest.mark.parametrize("manner", ["eager"])
def test_a_member_that_takes_too_long_over_a_batch_leaves_at_once_and_comes_back(
    kafka3: Cluster, topic: str, group: str, manner: Manner
) -> None:
    with World(kafka3, topic, group, manner=manner) as world:
        # The others may take as long as a busy machine makes them.
        settled_and_loaded(world, max_poll_interval_ms=round(MAY_TAKE_S * 1000))

        began = world.dawdle("a", seconds=DAWDLE_S)
        owned = world.shares()["a"]  # now: it may have been out and in again
        world.settled("b", "c", ignoring="a")
        world.settled(*MEMBERS)
        verdict = world.finish()

        assert verdict.faults == []
        lost = world.ensemble.said("released", by="a", since=began)[0]
        assert (lost["how"], set(lost["partitions"])) == ("lost", owned)
        # It hears of it when it is done; by then the others have had its partitions for a while,
        # but not before its time was up, which counts from the beginning of its last poll.
        assert lost["at"] - began >= DAWDLE_S
        polled = [one for one in world.ensemble.said("polled", by="a") if one["at"] <= began][-1]
        time_up = polled["at"] - polled["took"] + MAY_TAKE_S
        taken = taken_over(world, owned, since=began)
        assert taken.keys() == owned
        assert all(time_up < at < lost["at"] for at in taken.values())
        of_its_own, of_others = longest_waits(verdict, owned)
        assert of_its_own < MAY_TAKE_S + handed_over_within(manner)
        assert of_others < PROMPT_S


@pytest.mark.parametrize("manner", ["cooperative", "consumer"])
def test_a_commit_in_the_revoked_callback_succeeds_and_nothing_is_repeated(
    kafka3: Cluster, topic: str, group: str, manner: Manner
) -> None:
    with World(kafka3, topic, group, manner=manner) as world:
        settled_and_loaded(world)

        world.join("d")
        world.settled(*MEMBERS, "d")
        world.leave("d")
        world.settled(*MEMBERS)
        verdict = world.finish()

        commits = [one for one in world.ensemble.said("committed") if one["where"] == "revoked"]
        refused = [one for one in world.ensemble.said("refused") if one["where"] == "revoked"]
        assert len(commits) >= 4
        assert refused == []
        assert verdict.faults == []
        assert verdict.repeated == 0


@pytest.mark.parametrize("manner", ["consumer"])
def test_members_that_join_and_leave_at_random_lose_and_repeat_nothing(
    kafka3: Cluster, topic: str, group: str, manner: Manner
) -> None:
    chance = random.Random(f"joins and leaves {manner}")
    with World(kafka3, topic, group, manner=manner) as world:
        settled_and_loaded(world)
        present, names = list(MEMBERS), (f"m{number}" for number in range(100))

        until = time.monotonic() + 10
        while time.monotonic() < until:
            if len(present) > 1 and (len(present) == 4 or chance.random() < 0.5):
                world.leave(present.pop(chance.randrange(len(present))))
            else:
                present.append(next(names))
                world.join(present[-1])
            time.sleep(chance.uniform(0, 1.5))
        world.settled(*present)
        verdict = world.finish()

        assert verdict.faults == []
        assert verdict.repeated == 0
        assert verdict.resume < handed_over_within(manner)


def test_after_a_clean_end_the_group_stands_where_its_members_were_and_the_next_one_goes_on(
    kafka3: Cluster, topic: str, group: str
) -> None:
    with World(kafka3, topic, group, enable_auto_commit=True) as world:
        # Nobody's session ends here, however long the machine stands still.
        session_ms = round(SESSION_S * 1000)
        settled_and_loaded(world, a_is_a_process=True, session_timeout_ms=session_ms)

        world.leave("a")  # SIGTERM: its handler ends the loop, and the consumer is closed
        world.settled("b", "c")
        world.leave("b")
        world.leave("c")
        world.join("d")
        verdict = world.finish()

        assert verdict.faults == []
        assert verdict.repeated == 0
        with quick(kafka3, group_id=group) as reader:
            ends = {p: reader.committed(TopicPartition(topic, p)) for p in world.written()}
        assert ends == world.written()
