"""Members of a KIP-848 group and its real coordinator, under a seed: what must always be true.

Requests and answers get lost or late, the coordinator moves, members are put out, applications take
their time, poll too late, subscribe to something else, leave, and their callbacks fail.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.answers import Answered
from aktor.events.commits import CommitBeforeRevocation, RevocationCommitted
from aktor.events.coordinator import CoordinatorLost, SuspectCoordinator
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    ConfirmSession,
    GroupFailed,
    Loss,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
)
from aktor.events.metadata import NameTopics
from aktor.events.network import Request
from aktor.managers.membership.consumer.states import State
from tests.gate import all_but_the_first
from tests.unit.broker.groups.consumer.world import Client, ConsumerWorld
from tests.unit.broker.harness import Topics
from tests.unit.managers.membership.consumer.builders import NAMES, ConsumerHarness, tells

SEEDS = range(100)
STEPS = 120
PARTITIONS = {"a": 3, "b": 2, "c": 1}
SUBSCRIPTIONS = [("a",), ("a", "b"), ("a", "b", "c"), ("b", "c")]
PATTERNS = ["a|b", "[bc]", ".*"]

Steps = RevokePartitions | RunRevokedCallback | AssignPartitions


class RandomMember:
    """One member: its manager, its application, and its requests on their way."""

    def __init__(self, random_group: RandomGroup, member_id: str, **settings: Any) -> None:
        self.random_group = random_group
        self.random = random_group.random
        self.harness = ConsumerHarness(member_id=member_id, max_poll_interval=40.0, **settings)
        self.id = member_id
        self.held: frozenset[TopicPartition] = frozenset()
        #: What the last assigned callback that succeeded left us with; what is being taken on.
        self.confirmed: frozenset[TopicPartition] = frozenset()
        self.taking: frozenset[TopicPartition] = frozenset()
        #: Held, but not read: on their way out, or their callback has yet to succeed.
        self.withheld: frozenset[TopicPartition] = frozenset()
        self.steps: list[Steps] = []
        self.in_flight: list[tuple[Request, Any]] = []
        self.unnamed: frozenset[Any] = frozenset()
        self.tickets = 0
        self.answered: list[int] = []

    @property
    def read(self) -> frozenset[TopicPartition]:
        """What the application gets records of."""
        return self.held - self.withheld

    # -- what it says

    def look(self) -> None:
        """Take in what the manager sent and said."""
        messages, self.harness.messages = self.harness.messages, []
        for message in messages:
            if isinstance(message, RevokePartitions | RunRevokedCallback | AssignPartitions):
                self.is_told(message)
            elif isinstance(message, CommitBeforeRevocation):
                self.steps_of_commits.append(message)
            elif isinstance(message, SuspectCoordinator):
                self.harness.tell(CoordinatorLost(because="suspected"))
            elif isinstance(message, NameTopics):
                self.unnamed = message.topic_ids
            elif isinstance(message, Answered):
                self.answered.append(message.ticket)
            assert not isinstance(message, GroupFailed), message
        requests, self.harness.requests = self.harness.requests, []
        for request in requests:
            self.is_sent(request)
        if messages or requests:
            self.look()

    @property
    def steps_of_commits(self) -> list[CommitBeforeRevocation]:
        return self.random_group.commits.setdefault(self.id, [])

    def is_told(self, step: Steps) -> None:
        lost = isinstance(step, RevokePartitions) and step.loss is Loss.LOST
        # One that was put out before it took on nothing has nothing to lose either.
        todo = [one for one in self.steps if not is_of_nothing(one)]
        assert lost or not todo, f"{step} while {self.steps} are to be done"
        if lost:
            self.confirmed = self.taking = frozenset()
        if isinstance(step, AssignPartitions):
            self.taking = step.assigned
        self.steps.append(step)

    def is_sent(self, request: Request) -> None:
        said = tells(request)
        if request.body.member_epoch > 0 and said is not None:
            assert self.confirmed <= said, "does not say what it owns"
            assert said <= self.confirmed | self.taking, "says more than it owns"
        if request.body.member_epoch == 0:
            assert not self.read, "joins while it reads something"
        if self.random.random() < self.random_group.losses:
            self.in_flight.append((request, None))
        else:
            self.in_flight.append((request, self.random_group.world.heartbeat(request.body)))

    # -- what happens to it

    def hears(self) -> None:
        """An answer arrives, or a request fails."""
        if not self.in_flight:
            return
        request, answer = self.in_flight.pop(self.random.randrange(len(self.in_flight)))
        if answer is None or self.random.random() < self.random_group.losses:
            self.harness.fail(request)
        else:
            self.harness.answer(request, answer)

    def works(self) -> None:
        """The application takes a step."""
        if not self.steps:
            return
        step = self.steps.pop(0)
        fails = self.random.random() < self.random_group.failures
        error = ValueError("mine") if fails else None
        if isinstance(step, RevokePartitions):
            some = dict.fromkeys(step.partitions, OffsetAndMetadata(1, "", -1))
            self.withheld |= step.partitions
            positions = some if step.loss is Loss.REVOKED else {}
            answer: object = PartitionsReleased(rebalance=step.rebalance, positions=positions)
        elif isinstance(step, RunRevokedCallback):
            self.held -= step.partitions
            self.withheld -= step.partitions
            answer = CallbackFinished(rebalance=step.rebalance, error=error)
        elif self.steps:
            return  # it is lost by now: skipped, as the engine does
        else:
            assert step.added <= step.assigned
            assert self.held <= step.assigned, "partitions go without their callback"
            self.held = step.assigned
            self.confirmed = self.confirmed if error else step.assigned
            self.withheld = step.added if error else frozenset()
            self.taking = step.assigned if error else frozenset()
            answer = CallbackFinished(rebalance=step.rebalance, error=error, assigned=True)
        self.harness.tell(answer)

    def commits(self) -> None:
        if self.steps_of_commits:
            commit = self.steps_of_commits.pop(0)
            self.harness.tell(RevocationCommitted(rebalance=commit.rebalance))

    def polls(self) -> None:
        self.harness.poll()

    def subscribes(self) -> None:
        if self.random.random() < 0.3:
            self.harness.subscribe_to(self.random.choice(PATTERNS))
        else:
            self.harness.subscribe(*self.random.choice(SUBSCRIPTIONS))

    def finds_out(self) -> None:
        """The metadata manager comes to know topics."""
        if self.unnamed and self.random.random() < 0.5:
            self.harness.name(*(NAMES[one] for one in self.unnamed))
        else:
            known = self.random.sample(sorted(PARTITIONS), self.random.randint(1, 3))
            self.harness.see(**{name: PARTITIONS[name] for name in known})

    def is_disturbed(self) -> None:
        trouble = self.random.choice(
            [
                CoordinatorLost(because="moved"),
                ConfirmSession(),
                ActorsRestarted(actors=("commits",), because=RuntimeError()),
                ActorsRestarted(actors=("metadata",), because=RuntimeError()),
            ]
        )
        self.harness.tell(trouble)

    def finds_the_coordinator(self) -> None:
        self.harness.find_coordinator()

    def leaves(self) -> None:
        """As the engine does: let go of everything, then say so."""
        self.tickets += 1
        self.steps.clear()
        self.steps_of_commits.clear()
        self.held = self.confirmed = self.taking = self.withheld = frozenset()
        self.harness.leave(5.0, ticket=self.tickets)

    def time_passes(self, now: float) -> None:
        while (due := min([self.harness.wake_at, *self._deadlines()], default=now)) <= now:
            self.harness.now = max(self.harness.now, due)
            for request, answer in list(self.in_flight):
                if request.deadline <= self.harness.now:
                    self.in_flight.remove((request, answer))
                    self.harness.time_out(request)
            self.harness.tick()
            self.look()
            assert self.harness.wake_at > self.harness.now, "it asks to be woken in the past"
        self.harness.now = now

    def _deadlines(self) -> list[float]:
        return [request.deadline for request, _ in self.in_flight]


class RandomGroup:
    """A group in which something happens with each step; the checks are made after each."""

    losses = 0.1
    failures = 0.1

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = ConsumerWorld(
            Topics(**PARTITIONS),
            consumer_session_timeout=30.0,
            consumer_assignment_interval=self.random.choice([0.0, 1.0]),
            consumer_regex_min_interval=0.0,
        )
        self.commits: dict[str, list[CommitBeforeRevocation]] = {}
        self.now = 100.0
        static = {"group_instance_id": "i"} if self.random.random() < 0.3 else {}
        self.members = [RandomMember(self, "m1"), RandomMember(self, "m2", **static)]
        self.other = self.world.member("other", topics=["a", "b"])

    def step(self) -> None:
        member = self.random.choice(self.members)
        often = [member.hears, member.hears, member.works, member.works, member.commits]
        usual = [member.polls, member.polls, member.finds_out, member.finds_the_coordinator]
        usual += [self.other_beats, self.time_passes]
        seldom = [member.subscribes, member.is_disturbed, member.leaves, self.is_put_out]
        kind = self.random.random()
        self.random.choice(often if kind < 0.6 else usual if kind < 0.92 else seldom)()
        for one in self.members:
            one.look()
        self.check()

    def other_beats(self) -> None:
        """A member from elsewhere, that does at once what it is told, comes, stays, and goes."""
        if self.other.epoch == 0:
            self.other.join()
        elif self.random.random() < 0.1:
            self.other.leave()
            self.other.epoch = 0
        elif self.other.beat().error_code:
            self.other = self.world.member("other", topics=["a", "b"])

    def time_passes(self) -> None:
        self.pass_time(self.random.choice([0.02, 0.5, 3.0, 15.0]))

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            # no further than somebody wakes, so that all see the same time
            self.now = min(until, self.now + 1.0)
            self.world.pass_time(self.now - 100.0 + 1_700_000_000.0 - self.world.now)
            for member in self.members:
                member.time_passes(self.now)

    def is_put_out(self) -> None:
        known = [one.id for one in self.members if one.id in self.world.group.members]
        if known:
            put_out = self.random.choice([self.world.group.fence, self.world.group.expire_session])
            put_out(self.random.choice(known), self.world.now)

    # What must be true.

    def check(self) -> None:
        owners: dict[TopicPartition, str] = {}
        for name, held in self.holders():
            for one in held:
                assert owners.setdefault(one, name) == name, f"{one} has two owners"

    def holders(self) -> list[tuple[str, frozenset[TopicPartition]]]:
        """Members that the coordinator counts on, and what their applications read."""
        known = self.world.group.members
        ours = [(one.id, one.held) for one in self.members if one.id in known]
        return [*ours, ("other", owned_by(self.other))] if "other" in known else ours

    def calm_down(self, *, until: State) -> None:
        """Nothing is lost any more, everybody works, and members poll."""
        self.losses = self.failures = 0.0
        for _ in range(200):
            for member in self.members:
                member.finds_the_coordinator()
                if until is State.STABLE:
                    member.polls()
                member.harness.see(**PARTITIONS)
                for _ in range(20):
                    member.look()
                    member.hears()
                    member.works()
                    member.commits()
                member.look()
            if self.other.epoch:
                self.other_stays()
            self.pass_time(0.5)
            self.check()
            if all(one.harness.state is until and not one.steps for one in self.members):
                self.calm += 1
                if self.calm > 20:
                    return
            else:
                self.calm = 0
        raise AssertionError([one.harness.state for one in self.members])

    calm = 0

    def other_stays(self) -> None:
        if self.other.beat().error_code:
            self.other = self.world.member("other", topics=["a", "b"])
            self.other.join()


def is_of_nothing(step: Steps) -> bool:
    return isinstance(step, AssignPartitions) and not step.assigned


def owned_by(client: Client) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(NAMES[topic], number)
        for topic, numbers in client.owned.items()
        for number in numbers
    )


@pytest.mark.few_cases
@pytest.mark.parametrize("seed", all_but_the_first(40, SEEDS))
def test_whatever_happens_each_partition_has_one_owner_and_all_members_become_stable(
    seed: int,
) -> None:
    random_group = RandomGroup(seed)
    for _ in range(STEPS):
        random_group.step()

    for member in random_group.members:
        member.harness.subscribe("a", "b", "c")
    random_group.calm_down(until=State.STABLE)

    held = [one for _, owned in random_group.holders() for one in owned]
    assert len(held) == len(set(held)) == sum(PARTITIONS.values())


@pytest.mark.few_cases
@pytest.mark.parametrize("seed", all_but_the_first(40, SEEDS))
def test_whatever_happens_every_leave_is_answered_once(seed: int) -> None:
    random_group = RandomGroup(seed)
    for _ in range(STEPS):
        random_group.step()

    for member in random_group.members:
        member.leaves()
    random_group.calm = 0
    random_group.calm_down(until=State.UNSUBSCRIBED)

    for member in random_group.members:
        assert member.answered == list(range(1, member.tickets + 1))
        assert member.harness.wake_at == float("inf")
