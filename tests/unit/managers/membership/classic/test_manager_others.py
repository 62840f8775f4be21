"""The classic membership manager: what other actors tell it, and all of it at random."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kafka.errors import InconsistentGroupProtocolError, InvalidGroupIdError, KafkaTimeoutError
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.answers import Answered
from aktor.events.commits import CommitBeforeRevocation, RevocationCommitted
from aktor.events.coordinator import CoordinatorLost, CoordinatorRefused
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    ConfirmSession,
    GroupFailed,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
    SessionExtended,
)
from aktor.events.metadata import Broker, TrackTopics
from aktor.events.network import Lane, Request
from aktor.managers.membership.classic.states import State
from tests.unit.managers.membership.builders import (
    COOPERATIVE,
    COORDINATOR_LOADING,
    EAGER,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    MembershipHarness,
    a_member,
    a_stable_cooperative_member,
    a_subscription,
    beaten,
    join_refused,
    joined,
    left,
    sync_refused,
    synced,
)
from tests.unit.managers.membership.classic.builders import a_leave


def test_a_restarted_metadata_manager_is_told_again_which_topics_the_group_needs() -> None:
    harness = a_member()
    harness.see(a=1)
    harness.is_stable("a-0", leader="m", members={"m": a_subscription("a")})

    harness.tell(ActorsRestarted(actors=("metadata",), because=RuntimeError("boom")))

    assert harness.said(TrackTopics) == TrackTopics(owner="membership", topics=frozenset({"a"}))


def test_a_rebalance_is_traced_from_its_trigger_to_its_end() -> None:
    harness = a_member().is_stable("a-0 a-1")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.now += 0.25
    harness.revoke()
    harness.rejoins(generation=2, assigned="a-0")
    harness.apply()

    assert "coordinator said" in harness.traced("rebalance.triggered")[-1]["because"]
    completed = harness.traced("rebalance.completed")[-1]
    assert (completed["ms"], completed["generation"]) == (250.0, 2)
    assert (completed["added"], completed["revoked"]) == (["a-0"], 2)


def test_a_timeout_error_of_ours_is_retriable() -> None:
    harness = a_member(max_poll_interval=400.0).wants_to_join()

    harness.fail(harness.sent(JoinGroupRequest), KafkaTimeoutError("305 s"))
    harness.after(0.1)

    assert harness.has_sent(JoinGroupRequest)


def test_heartbeats_go_on_beside_a_sync_that_waits_for_the_leader() -> None:
    harness = a_member().is_syncing()
    sync = harness.sent(SyncGroupRequest)
    harness.after(3.0)
    beat = harness.sent(HeartbeatRequest)
    assert (sync.lane, beat.lane) == (Lane.HOLDS, Lane.ORDINARY)
    harness.answer(beat, beaten())

    harness.answer(sync, synced("a-0"))
    harness.apply()

    assert harness.beats().lane is Lane.ORDINARY


def test_a_session_is_never_shortened_by_an_answer_that_was_long_under_way() -> None:
    harness = a_stable_cooperative_member("a-0", session_timeout=10.0)
    harness.beats(REBALANCE_IN_PROGRESS)
    join = harness.sent(JoinGroupRequest)
    harness.after(3.0)
    harness.answer(harness.sent(HeartbeatRequest), beaten(REBALANCE_IN_PROGRESS))
    harness.messages.clear()

    harness.answer(join, joined(2, assignor="cooperative-sticky"))

    assert not harness.has_said(SessionExtended)


def test_a_join_that_succeeded_ends_the_row_of_failures() -> None:
    harness = a_member().wants_to_join()
    for _ in range(3):
        harness.answer(harness.sent(JoinGroupRequest), join_refused(COORDINATOR_LOADING))
        harness.after(2.0)
    harness.answer(harness.sent(JoinGroupRequest), joined())
    harness.answer(harness.sent(SyncGroupRequest), synced("a-0"))
    harness.apply()
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()
    harness.answer(harness.sent(JoinGroupRequest), join_refused(COORDINATOR_LOADING))

    harness.after(0.1)

    assert harness.has_sent(JoinGroupRequest)


@pytest.mark.parametrize("where", ["join", "sync", "sync's assignor"])
def test_an_answer_for_another_protocol_is_not_taken_for_ours(where: str) -> None:
    """KIP-559."""
    harness = a_member().wants_to_join()
    answer = joined()
    if where == "join":
        answer.protocol_type = "connect"
        harness.answer(harness.sent(JoinGroupRequest), answer)
    else:
        harness.answer(harness.sent(JoinGroupRequest), answer)
        other = synced("a-0")
        if where == "sync":
            other.protocol_type = "connect"
        else:
            other.protocol_name = "roundrobin"
        harness.answer(harness.sent(SyncGroupRequest), other)

    assert isinstance(harness.said(GroupFailed).error, InconsistentGroupProtocolError)
    assert not harness.has_said(AssignPartitions)


def test_the_trace_of_states_is_a_walk_through_the_table() -> None:
    harness = a_member().is_stable("a-0")
    harness.beats(REBALANCE_IN_PROGRESS)
    harness.revoke()

    walked = [one["after"] for one in harness.traced("membership.moved")]

    assert walked == [
        "joining",
        "syncing",
        "assigning",
        "stable",
        "preparing",
        "joining",
    ]


class Storm:
    """Anything that may happen to a member, in any order, drawn by a seed."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.random = random.Random(seed)
        self.harness = MembershipHarness(max_poll_interval=20.0, session_timeout=6.0, **settings)
        (self.assignor,) = {one.name for one in settings["partition_assignment_strategy"]}
        self.tickets = 0

    def blow(self, steps: int) -> None:
        """So many things happen."""
        harness, pick = self.harness, self.random.choice
        harness.wants_to_join("a")
        often = [
            harness.poll,
            lambda: harness.subscribe(*pick([("a",), ("a", "b")])),
            harness.find_coordinator,
            lambda: harness.tell(ConfirmSession()),
            lambda: harness.see(a=pick([1, 2]), b=1),
        ]
        seldom = [
            lambda: harness.find_coordinator(Broker(node_id=2, host="kafka-2", port=9092)),
            lambda: harness.tell(CoordinatorLost(because="storm")),
            lambda: harness.tell(CoordinatorRefused(error=InvalidGroupIdError("storm"))),
            lambda: harness.tell(ActorsRestarted(actors=("commits",), because=RuntimeError())),
            harness.subscribe,
            self.leave,
        ]
        for _ in range(steps):
            kind = self.random.random()
            if kind < 0.4 and harness.requests:
                self.answer(harness.requests.pop(0), self.random.random() < 0.8)
            elif kind < 0.7 and self.steps():
                self.take(self.steps()[0])
            elif kind < 0.8:
                harness.after(pick([0.01, 0.5, 4.0]))
            else:
                pick(often if kind < 0.97 else seldom)()

    def leave(self) -> None:
        """The application leaves."""
        self.tickets += 1
        self.harness.tell(a_leave(self.harness.now + 3, ticket=self.tickets))

    def answer(self, request: Request, kindly: bool) -> None:
        """A request ends, well or badly."""
        body, harness = request.body, self.harness
        if not kindly and self.random.random() < 0.3:
            harness.fail(request)
            return
        code = 0 if kindly else self.random.choice([14, 15, 16, 22, 25, 27, 27, 30])
        if isinstance(body, JoinGroupRequest):
            if kindly and not body.member_id:
                harness.answer(request, join_refused(MEMBER_ID_REQUIRED, f"m{harness.now}"))
            elif kindly:
                self.join(request)
            else:
                harness.answer(request, join_refused(code))
        elif isinstance(body, SyncGroupRequest):
            owned = self.random.choice(["", "a-0", "a-1", "a-0 b-0"])
            harness.answer(request, sync_refused(code) if code else synced(owned))
        else:
            harness.answer(
                request, left(code) if isinstance(body, LeaveGroupRequest) else beaten(code)
            )

    def join(self, request: Request) -> None:
        """JoinGroup succeeds, at times as the leader."""
        member = request.body.member_id
        leader = self.random.choice([member, "somebody"])
        members = {member: a_subscription("a", "b")} if leader == member else {}
        generation = request.context.generation + self.random.randint(1, 3)
        answer = joined(max(1, generation), member, leader, self.assignor, members)
        self.harness.answer(request, answer)

    def steps(self) -> list[object]:
        """What the application is asked to do."""
        kinds = (RevokePartitions, CommitBeforeRevocation, RunRevokedCallback, AssignPartitions)
        return [one for one in self.harness.messages if isinstance(one, kinds)]

    def take(self, step: object) -> None:
        """The application does it."""
        self.harness.messages.remove(step)
        if isinstance(step, RevokePartitions):
            answer: object = PartitionsReleased(
                rebalance=step.rebalance,
                positions=dict.fromkeys(step.partitions, OffsetAndMetadata(1, "", -1)),
            )
        elif isinstance(step, CommitBeforeRevocation):
            answer = RevocationCommitted(rebalance=step.rebalance)
        else:
            assert isinstance(step, (RunRevokedCallback, AssignPartitions))
            assigned = isinstance(step, AssignPartitions)
            answer = CallbackFinished(rebalance=step.rebalance, assigned=assigned)
        self.harness.tell(answer)

    def calm(self, *, until: State) -> None:
        """Everybody answers kindly, and the application polls, until the member is there."""
        for _ in range(200):
            while self.steps():
                self.take(self.steps()[0])
            while self.harness.requests:
                self.answer(self.harness.requests.pop(0), kindly=True)
            if self.harness.manager.state is until and not self.steps():
                return
            self.harness.after(0.5)
            self.harness.poll()
        raise AssertionError(f"still {self.harness.manager.state}")


@pytest.mark.few_cases
@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", range(40))
def test_after_any_storm_the_member_joins_and_every_leave_was_answered_once(
    seed: int, strategy: dict[str, object]
) -> None:
    storm = Storm(seed, **strategy)
    storm.blow(steps=300)

    storm.harness.find_coordinator()
    storm.harness.subscribe("a", "b")
    storm.calm(until=State.STABLE)
    storm.leave()
    storm.calm(until=State.UNJOINED)

    answered = [one.ticket for one in storm.harness.messages if isinstance(one, Answered)]
    assert sorted(answered) == list(range(1, storm.tickets + 1))


@pytest.mark.few_cases
@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", range(40))
def test_in_any_storm_the_steps_add_up_to_what_the_member_owns(
    seed: int, strategy: dict[str, object]
) -> None:
    """Nothing is assigned twice, and nothing is taken back that was not given."""
    storm = Storm(seed, **strategy)
    held: frozenset[TopicPartition] = frozenset()
    take = storm.take

    def check(step: object) -> None:
        nonlocal held
        if isinstance(step, AssignPartitions):
            assert step.added == step.assigned - held
            assert held <= step.assigned
            held = step.assigned
        elif isinstance(step, RunRevokedCallback):
            assert step.partitions <= held
            held -= step.partitions
        take(step)

    def leave() -> None:
        nonlocal held
        held = frozenset()
        storm.harness.messages = [one for one in storm.harness.messages if one not in storm.steps()]
        Storm.leave(storm)

    storm.take, storm.leave = check, leave  # type: ignore[method-assign]
    storm.blow(steps=300)

    assert storm.harness.traced("rebalance.completed")
