"""A classic group under members who do as they please, over many seeds."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from aktor.broker.codes import Code
from aktor.broker.groups.classic.states import TRANSITIONS, State
from tests.gate import all_but_the_first
from tests.unit.broker.groups.classic.world import ClassicWorld
from tests.unit.broker.harness import Asked

PROTOCOLS = (
    (("range", b"1"),),
    (("range", b"2"), ("sticky", b"2")),
    (("sticky", b"3"), ("range", b"3")),
    (("sticky", b"4"),),
)


class Client:
    """Somebody who may be in the group, believes what it is told, and does not always obey."""

    def __init__(self, world: ClassicWorld, rng: random.Random, number: int) -> None:
        self.world = world
        self.rng = rng
        self.number = number
        self.instance = rng.choice([None, None, f"i{number % 3}"])
        self.member_id = ""
        self.generation = -1
        self.protocols = rng.choice(PROTOCOLS)
        self.name = "range"
        self.joining: Asked | None = None
        self.asked: list[Asked] = []

    def act(self) -> None:
        self.listen()
        deeds: list[Callable[[], object]] = [self.join, self.join, self.sync, self.sync, self.beat]
        deeds += [self.beat, self.beat, self.leave, self.restart, self.lie]
        self.rng.choices(deeds, weights=[4, 4, 6, 6, 3, 3, 3, 1, 1, 1])[0]()

    def listen(self) -> None:
        if self.joining is None or self.joining.waits:
            return
        answer, self.joining = self.joining.answer, None
        match Code(answer.error_code):
            case Code.NONE:
                self.member_id, self.generation = answer.member_id, answer.generation_id
                self.name = answer.protocol_name
            case Code.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            case Code.UNKNOWN_MEMBER_ID | Code.FENCED_INSTANCE_ID | Code.GROUP_MAX_SIZE_REACHED:
                self.member_id = ""
            case _:
                pass

    def join(self) -> None:
        if self.rng.random() < 0.2:
            self.protocols = self.rng.choice(PROTOCOLS)
        self.joining = self.world.join(
            self.member_id,
            instance=self.instance,
            protocols=self.protocols,
            session=self.rng.choice([2.0, 6.0, 30.0]),
            rebalance=self.rng.choice([0.0, 1.0, 5.0, 20.0]),
            version=self.rng.choice([0, 4, 8, 9]) if self.instance is None else 9,
        )
        self.asked.append(self.joining)

    def sync(self) -> None:
        shares = dict.fromkeys(self.world.group.members, b"share")
        self.asked.append(
            self.world.sync(
                self.member_id,
                self.generation,
                shares,
                instance=self.instance,
                protocol_name=self.name,
            )
        )

    def beat(self) -> None:
        self.world.heartbeat(self.member_id, self.generation, instance=self.instance)

    def leave(self) -> None:
        self.world.leave((self.member_id, self.instance))

    def restart(self) -> None:
        self.member_id, self.generation, self.joining = "", -1, None

    def lie(self) -> None:
        self.generation += self.rng.choice([-1, 1])


def check(world: ClassicWorld) -> None:
    """What holds at any moment."""
    group = world.group
    assert (group.leader_id in group.members) == bool(group.members)
    assert group.wake_at() > world.now
    joining = [member for member in group.members.values() if member.join_call is not None]
    assert len(joining) <= world.settings.max_size
    match group.state:
        case "Empty":
            assert not group.members
        case "PreparingRebalance":
            assert all(member.sync_call is None for member in group.members.values())
        case "CompletingRebalance" | "Stable":
            assert group.members
            assert not joining
            assert all(
                member.supports(str(group.protocol_name)) for member in group.members.values()
            )
    if group.state == "Stable":
        assert all(member.sync_call is None for member in group.members.values())


def play(seed: int) -> list[str]:
    """Play one world to its end; all that was answered, as text."""
    rng = random.Random(seed)
    world = ClassicWorld(
        seed=seed,
        initial_rebalance_delay=rng.choice([0.0, 0.0, 3.0]),
        max_size=rng.choice([3, 100]),
    )
    clients = [Client(world, rng, number) for number in range(rng.randint(1, 6))]
    latest = 0
    for _ in range(120):
        rng.choice(clients).act()
        check(world)
        if rng.random() < 0.4:
            world.pass_time(rng.choice([0.1, 0.5, 1.0, 3.0]))
            check(world)
        fault = rng.random()
        if fault < 0.01:
            world.group.coordinator_moved(world.now)
            latest = world.group.snapshot()["generation"] if world.group.snapshot() else 0
        elif fault < 0.03 and world.group.members:
            victim = rng.choice(list(world.group.members))
            rng.choice([world.group.fence, world.group.expire_session])(victim, world.now)
        check(world)
        assert world.group.generation >= latest, "a generation went back"
        latest = world.group.generation

    world.pass_time(3600.0)

    asked = [each for client in clients for each in client.asked]
    assert [len(each.answers) for each in asked] == [1] * len(asked)
    assert world.group.state == "Empty"
    return [str(each.answer) for each in asked]


@pytest.mark.parametrize("seed", all_but_the_first(20, range(80)))
def test_every_call_is_answered_once_whatever_members_do(seed: int) -> None:
    play(seed)


def test_a_world_is_the_same_each_time_it_is_played() -> None:
    assert play(7) == play(7)


@pytest.mark.parametrize("seed", all_but_the_first(10, range(30)))
def test_members_who_do_as_they_are_told_come_to_one_generation(seed: int) -> None:
    rng = random.Random(seed)
    world = ClassicWorld(seed=seed)
    clients = [Client(world, rng, number) for number in range(rng.randint(2, 6))]
    for client in clients:
        client.instance = None if client.instance is None else f"own {client.number}"
        client.protocols = PROTOCOLS[rng.randint(1, 2)]
    for _ in range(60):
        rng.choice(clients).act()
        world.pass_time(0.2)
    for client in clients:
        client.protocols = PROTOCOLS[1]
        client.restart()

    world.pass_time(60.0)
    for _ in range(6):
        for client in clients:
            client.listen()
            if client.generation != world.group.generation or world.group.state != "Stable":
                obey(client)

    assert world.group.state == "Stable"
    assert len(world.group.members) == len(clients)
    assert {client.generation for client in clients} == {world.group.generation}
    for client in clients:
        share = world.sync(
            client.member_id,
            client.generation,
            instance=client.instance,
            protocol_name=world.group.protocol_name,
        )
        assert share.answer.assignment == b"share"


def obey(client: Client) -> None:
    """Do what a well-behaved client does next."""
    world = client.world
    if world.group.state == "CompletingRebalance" and client.generation == world.group.generation:
        client.sync()
    elif client.joining is None:
        request = world.join(
            client.member_id,
            instance=client.instance,
            protocols=client.protocols,
            session=600.0,
            rebalance=600.0,
        )
        client.joining = request
        client.asked.append(request)


#: Kafka's ClassicGroupState says of each state from which one may come to it.
MAY_COME_FROM = {
    State.EMPTY: {State.PREPARING_REBALANCE},
    State.PREPARING_REBALANCE: {State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY},
    State.COMPLETING_REBALANCE: {State.PREPARING_REBALANCE},
    State.STABLE: {State.COMPLETING_REBALANCE},
    State.DEAD: set(State),
}


@pytest.mark.parametrize("state", list(State))
def test_the_table_of_states_is_kafkas(state: State) -> None:
    before = {other for other in State if state in TRANSITIONS[other].values()}

    assert before == MAY_COME_FROM[state]
