"""Members that come, go, die, restart and lose answers, under a seed: what must always be true."""

from __future__ import annotations

import random
from collections.abc import Callable
from uuid import UUID

import pytest

from aktor.broker.codes import Code
from tests.gate import all_but_the_first
from tests.unit.broker.groups.consumer.world import Client, ConsumerWorld
from tests.unit.broker.harness import Topics

SEEDS = all_but_the_first(20, range(60))
STEPS = 150
GONE = (Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID)


class RandomGroup:
    """A group in which something happens with each step; the checks are made after each."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = ConsumerWorld(
            Topics(a=3, b=2, ab=1),
            consumer_session_timeout=30.0,
            consumer_assignment_interval=self.rng.choice([0.0, 1.0]),
            consumer_regex_min_interval=self.rng.choice([0.0, 10.0]),
        )
        self.alive: list[Client] = []
        self.away: list[Client] = []
        self.made = 0
        self.epochs: dict[str, int] = {}
        self.group_epochs = (0, 0)

    def step(self) -> None:
        self.rng.choice(STEPS_TO_TAKE)(self)
        self.check()

    # What happens.

    def comes(self) -> None:
        if len(self.alive) < 5:
            self.made += 1
            client = self.world.member(
                f"m{self.made}",
                topics=self.rng.sample(["a", "b", "ab", "later"], self.rng.randint(0, 3)),
                regex=self.rng.choice([None, None, "a.*", "b|later", "l.*r"]),
                assignor=self.rng.choice([None, "uniform", "range"]),
                instance_id=self.rng.choice([None, f"i{self.made}"]),
                rebalance_timeout=self.rng.choice([5.0, 60.0]),
            )
            self.alive.append(client)
            client.join()

    def beats(self) -> None:
        for client in list(self.alive):
            self.heard(client, client.beat)

    def one_beats(self) -> None:
        if self.alive:
            client = self.rng.choice(self.alive)
            self.heard(client, self.rng.choice([client.beat, client.hold]))

    def loses_an_answer(self) -> None:
        if self.alive:
            self.rng.choice(self.alive).beat_in_vain()

    def changes_its_mind(self) -> None:
        if self.alive:
            client = self.rng.choice(self.alive)
            client.topics = self.rng.sample(["a", "b", "ab"], self.rng.randint(0, 3))
            self.heard(client, lambda: client.beat(subscribed_topic_names=client.topics))

    def leaves(self) -> None:
        if self.alive:
            self.alive.pop(self.rng.randrange(len(self.alive))).leave()

    def goes_for_a_restart(self) -> None:
        static = [client for client in self.alive if client.instance_id is not None]
        if static:
            client = self.rng.choice(static)
            self.alive.remove(client)
            client.leave(epoch=-2)
            self.away.append(client)

    def is_back(self) -> None:
        if self.away:
            client = self.away.pop(self.rng.randrange(len(self.away)))
            self.made += 1
            client.id = f"m{self.made}"
            self.alive.append(client)
            client.join()

    def dies(self) -> None:
        if self.alive:
            self.alive.pop(self.rng.randrange(len(self.alive)))

    def is_put_out(self) -> None:
        known = [client.id for client in self.alive if client.id in self.world.group.members]
        if known:
            put_out = self.rng.choice([self.world.group.fence, self.world.group.expire_session])
            put_out(self.rng.choice(known), self.world.now)

    def time_passes(self) -> None:
        self.world.pass_time(self.rng.choice([0.1, 1.0, 6.0, 20.0]))

    def broker_restarts(self) -> None:
        self.world.restart()

    def coordinator_moves(self) -> None:
        self.world.group.coordinator_moved(self.world.now)

    def topics_change(self) -> None:
        topics, name = self.world.topics, self.rng.choice(["a", "b", "later"])
        if topics.topic_id(name) is None:
            topics.create(name, self.rng.randint(1, 4))
        elif self.rng.random() < 0.5:
            topics.grow(name, topics.partitions(name) + 1)
        else:
            topics.delete(name)

    def heard(self, client: Client, send: Callable[[], object]) -> None:
        """Send; a client that is out gives up everything and joins anew."""
        answer = send()
        if getattr(answer, "error_code", 0) in GONE:
            if client.instance_id is not None:
                self.made += 1
                client.id = f"m{self.made}"
            client.join()

    # What must be true.

    def check(self) -> None:
        self.no_partition_has_two_owners()
        self.no_epoch_goes_back()

    def no_partition_has_two_owners(self) -> None:
        owners: dict[tuple[UUID, int], str] = {}
        for client in self.alive:
            member = self.world.group.members.get(client.id)
            if member is None or client.epoch not in (member.epoch, member.previous_epoch):
                continue  # it is out, and has yet to hear of it
            has = {(t, p) for held in (client.owned, client.told) for t in held for p in held[t]}
            for place in sorted(has):
                assert owners.setdefault(place, client.id) == client.id, place

    def no_epoch_goes_back(self) -> None:
        group = self.world.group
        epochs = (group.group_epoch, group.assignment_epoch)
        assert epochs[0] >= self.group_epochs[0]
        assert epochs[1] >= self.group_epochs[1]
        assert epochs[1] <= epochs[0]
        self.group_epochs = epochs
        for member_id, member in group.members.items():
            if member.epoch != -2:
                assert member.epoch >= self.epochs.get(member_id, 0)
                self.epochs[member_id] = member.epoch

    def everything_is_assigned_once(self) -> None:
        topics = self.world.topics
        subscribed = self.world.group.subscribed_topics()
        wanted = {
            (topic_id, partition)
            for name in subscribed
            if (topic_id := topics.topic_id(name)) is not None
            for partition in range(topics.partitions(name))
        }
        given = [(t, p) for client in self.alive for t, ps in client.told.items() for p in ps]
        assert sorted(given) == sorted(wanted)


STEPS_TO_TAKE: list[Callable[[RandomGroup], None]] = [
    RandomGroup.comes,
    RandomGroup.comes,
    RandomGroup.beats,
    RandomGroup.beats,
    RandomGroup.beats,
    RandomGroup.one_beats,
    RandomGroup.one_beats,
    RandomGroup.one_beats,
    RandomGroup.loses_an_answer,
    RandomGroup.changes_its_mind,
    RandomGroup.leaves,
    RandomGroup.goes_for_a_restart,
    RandomGroup.is_back,
    RandomGroup.dies,
    RandomGroup.is_put_out,
    RandomGroup.time_passes,
    RandomGroup.time_passes,
    RandomGroup.broker_restarts,
    RandomGroup.coordinator_moves,
    RandomGroup.topics_change,
]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_a_partition_has_one_owner_and_in_the_end_each_has_one(seed: int) -> None:
    random_group = RandomGroup(seed)

    for _ in range(STEPS):
        random_group.step()
    for _ in range(30):
        random_group.world.pass_time(4.0)
        random_group.beats()
        random_group.check()

    assert random_group.world.group.state == ("Stable" if random_group.alive else "Empty")
    random_group.everything_is_assigned_once()
