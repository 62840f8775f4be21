"""Groups whose members change their protocol at random: nobody gets what another still has.

As long as no classic group is converted in the middle of a rebalance: Kafka counts as a member's
what it was assigned last, not what it still has (GroupMetadataManager.convertToConsumerGroup).
"""

from __future__ import annotations

import random

import pytest

from tests.gate import all_but_the_first
from tests.unit.broker.groups.coordinator_world import CoordinatorWorld
from tests.unit.broker.groups.migration_world import (
    GROUP,
    Classic,
    Client,
    Consumer,
    settle,
    state,
)

TOPICS = ("orders", "bills")
ALL = {("orders", 0), ("orders", 1), ("orders", 2), ("bills", 0), ("bills", 1)}


class Members:
    """Owns the clients of one run; all classic ones are eager, or all are cooperative."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = CoordinatorWorld(seed=seed)
        self.cooperative = self.rng.random() < 0.5
        self.clients: list[Client] = []
        self.made = 0

    def enter(self, *, classic: bool) -> None:
        self.made += 1
        self.clients.append(
            Classic(self.world, cooperative=self.cooperative, topics=TOPICS, session=60.0)
            if classic
            else Consumer(self.world, f"consumer-{self.made}", topics=TOPICS)
        )

    def leave(self) -> None:
        client = self.clients[self.rng.randrange(len(self.clients))]
        if isinstance(client, Classic) and (
            client.joining or client.syncing or not client.member_id
        ):
            return  # One that waits for an answer cannot say that it leaves.
        client.leave()
        self.clients.remove(client)

    def act(self) -> None:
        match self.rng.randrange(20):
            case 0 | 1 if len(self.clients) < 5:
                self.enter(classic=self.rng.random() < 0.5)
            case 2 if self.clients:
                self.leave()
            case 3 if not self._anybody_waits():
                self.world.restart()
            case 4:
                self.world.coordinator.coordinator_moved(GROUP.__eq__, self.world.now)
            case 5:
                self.world.pass_time(self.rng.choice((0.1, 2.0)))
            case _ if self.clients:
                self.step(self.clients[self.rng.randrange(len(self.clients))])

    def step(self, client: Client) -> None:
        """The client's next request; one that would convert a rebalancing group has patience."""
        converts = isinstance(client, Consumer) and client.epoch == 0
        if not converts or not self._rebalances():
            client.step()

    def _rebalances(self) -> bool:
        if not self.world.list(types=("classic",)):
            return False
        return state(self.world)[1] not in ("Stable", "Empty") or any(
            client.joining or client.syncing or (client.rejoins and client.owned)
            for client in self.clients
            if isinstance(client, Classic)
        )

    def _anybody_waits(self) -> bool:
        """A restart takes the connections with it, which these clients do not notice."""
        return any(
            isinstance(client, Classic) and (client.joining or client.syncing)
            for client in self.clients
        )

    def check(self) -> None:
        owned = [place for client in self.clients for place in client.owned]
        assert len(owned) == len(set(owned)), f"two owners among {owned}"


@pytest.mark.parametrize("seed", all_but_the_first(6, range(15)))
def test_each_partition_has_one_owner_at_a_time_and_in_the_end_all_have_one(seed: int) -> None:
    members = Members(seed)

    for _ in range(150):
        members.act()
        members.check()
    for protocol in (True, False):
        members.enter(classic=protocol)
    # Those who left just before a restart are known again, until their sessions end.
    for _ in range(100):
        members.world.pass_time(1.0)
        for client in members.clients:
            members.step(client)
            members.check()

    assert state(members.world) == ("consumer", "Stable")
    assert {place for client in members.clients for place in client.owned} == ALL


@pytest.mark.parametrize("seed", all_but_the_first(3, range(10)))
def test_one_by_one_to_the_consumer_protocol_and_back(seed: int) -> None:
    members = Members(seed)
    for _ in range(3):
        members.enter(classic=True)
    settle(*members.clients)

    for to_classic in (False, True):
        for _ in range(3):
            old = members.clients[0]
            old.leave()
            members.clients.remove(old)
            members.enter(classic=to_classic)
            for _ in range(20 * len(members.clients)):
                members.step(members.clients[members.rng.randrange(len(members.clients))])
                members.check()
        settle(*members.clients)

        kind = "classic" if to_classic else "consumer"
        assert state(members.world) == (kind, "Stable")
        assert {place for client in members.clients for place in client.owned} == ALL
