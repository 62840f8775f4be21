"""Producers of both protocols, leaders and coordinators come and go at random; what must hold."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from aktor.broker.codes import Code
from tests.gate import all_but_the_first
from tests.unit.broker.harness import Journal
from tests.unit.broker.transactions_world import Producer, TransactionsWorld

PLACES = [("orders", 0), ("orders", 1), ("orders", 2), ("bills", 0)]
NAMES = ["payer", "shipper"]

#: Which states may follow in what is kept. A transaction that is fenced is kept when it is decided.
FOLLOWS = {
    None: {"Empty"},
    "Empty": {"Empty", "Ongoing", "PrepareAbort"},
    "Ongoing": {"Ongoing", "PrepareCommit", "PrepareAbort"},
    "PrepareCommit": {"PrepareCommit", "CompleteCommit"},
    "PrepareAbort": {"PrepareAbort", "CompleteAbort"},
    "CompleteCommit": {"CompleteCommit", "Empty", "Ongoing", "PrepareAbort"},
    "CompleteAbort": {"CompleteAbort", "Empty", "Ongoing", "PrepareAbort"},
}


class WatchfulJournal(Journal):
    """Checks every step that is kept, and notes which markers each decision asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.states: Counter[str] = Counter()
        self.wanted: Counter[tuple[Any, ...]] = Counter()

    def put(self, kind: str, key: tuple[str | int, ...], value: Any | None) -> None:
        if kind == "transaction" and value is not None:
            self._check(self.values().get((kind, key)), value)
        super().put(kind, key, value)

    def _check(self, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
        was = before["state"] if before else None
        assert after["state"] in FOLLOWS[was], f"{was} to {after['state']}"
        if before and before["producer_id"] == after["producer_id"]:
            assert after["producer_epoch"] >= before["producer_epoch"]
        elif before:
            assert after["producer_id"] > before["producer_id"]
            assert after["producer_epoch"] == 0
        assert after["state"] != "PrepareCommit" or was in ("Ongoing", "PrepareCommit")

        self.states[after["state"]] += 1
        if after["state"].startswith("Prepare") and after["state"] != was:
            producer = (after["producer_id"], after["producer_epoch"])
            commit = after["state"] == "PrepareCommit"
            self.wanted.update((tuple(one), producer, commit) for one in after["partitions"])


class Storm:
    """One random run."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = TransactionsWorld(abort_check_interval=self.rng.choice([0.0, 10.0]))
        self.journal = WatchfulJournal()
        self.world.journal = self.journal
        self.world.restart()
        self.producers = [self._producer() for _ in range(4)]
        self.answers: Counter[Code] = Counter()

    def _producer(self) -> Producer:
        return Producer(
            self.world,
            self.rng.choice(NAMES),
            timeout_ms=self.rng.choice([1000, 60_000]),
            bumps=self.rng.random() < 0.5,
        )

    def step(self) -> None:
        act = self.rng.choices(
            [self._init, self._add, self._group, self._end, self._leader, self._time, self._crash],
            [2, 8, 2, 6, 2, 2, 1],
        )[0]
        code = act(self.rng.choice(self.producers))
        if code is not None:
            self.answers[code] += 1

    def _init(self, producer: Producer) -> Code:
        return producer.init(anew=producer.id == -1 or self.rng.random() < 0.5)

    def _add(self, producer: Producer) -> Code:
        return producer.add(*self.rng.sample(PLACES, self.rng.randint(1, 3)))

    def _group(self, producer: Producer) -> Code:
        return producer.add_group(self.rng.choice(["readers", "writers"]))

    def _end(self, producer: Producer) -> Code:
        return producer.end(commit=self.rng.random() < 0.6, learn=self.rng.random() < 0.8)

    def _leader(self, _producer: Producer) -> None:
        self.world.partitions.leaderless ^= {self.rng.choice(PLACES)}

    def _time(self, _producer: Producer) -> None:
        self.world.pass_time(self.rng.choice([0.05, 0.3, 2.0, 30.0]))

    def _crash(self, producer: Producer) -> None:
        match self.rng.randrange(3):
            case 0:
                self.world.restart()
            case 1:
                name = self.rng.choice(NAMES)
                self.world.coordinator.coordinator_moved(lambda one: one == name, self.world.now)
            case _:
                self.producers[self.producers.index(producer)] = self._producer()

    def heal(self) -> None:
        self.world.partitions.leaderless.clear()
        self.world.pass_time(120)


@pytest.mark.parametrize("seed", all_but_the_first(20, range(60)))
def test_every_decision_is_carried_out_once_in_each_partition(seed: int) -> None:
    storm = Storm(seed)
    for _ in range(150):
        storm.step()
    storm.heal()

    written = Counter(
        (one.place, one.producer, one.commit) for one in storm.world.partitions.markers
    )
    assert written == storm.journal.wanted
    for value in storm.journal.values().values():
        assert not isinstance(value, dict) or value["state"] in (
            "Empty",
            "CompleteCommit",
            "CompleteAbort",
        )


def test_a_storm_is_one_and_the_same_for_its_seed_and_meets_all_there_is() -> None:
    storms = [Storm(7), Storm(7)]
    for storm in storms:
        for _ in range(3000):
            storm.step()

    assert storms[0].world.partitions.markers == storms[1].world.partitions.markers
    assert storms[0].journal.values() == storms[1].journal.values()
    assert storms[0].journal.states.keys() == FOLLOWS.keys() - {None}
    assert storms[0].answers.keys() >= {
        Code.NONE,
        Code.CONCURRENT_TRANSACTIONS,
        Code.INVALID_TXN_STATE,
        Code.PRODUCER_FENCED,
        Code.INVALID_PRODUCER_EPOCH,
        Code.INVALID_PRODUCER_ID_MAPPING,
    }
