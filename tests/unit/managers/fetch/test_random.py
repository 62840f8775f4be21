"""The fetch manager in a world of random answers: nothing is lost, and the bound is kept."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kafka.errors import (
    FetchSessionIdNotFoundError,
    KafkaConnectionError,
    LeaderNotAvailableError,
    UnknownError,
)

from aktor.events.network import Request
from aktor.managers.fetch.answer import CHUNK_OVERHEAD
from tests.unit.managers.fetch.builders import (
    KIB,
    FetchHarness,
    a_batch,
    chunks,
    forgotten,
    of,
    offsets,
    tp,
)


@pytest.mark.few_cases
@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_no_offset_is_skipped_or_repeated_and_the_bound_holds(seed: int) -> None:
    world = FetchWorld(seed)

    for _ in range(300):
        world.something_happens()
    world.calm_down()

    for partition in world.partitions:
        assert world.read_up_to[partition] == world.END


class FetchWorld:
    """Two brokers with logs of ten records a batch, and an application that reads at random."""

    END = 400

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.partitions = range(6)
        self.bound = self.random.choice([2 * KIB, 8 * KIB, 64 * KIB])
        self.harness = FetchHarness.reading(
            {one: (1 + one % 2, 5) for one in self.partitions},
            max_buffered_bytes=self.bound,
            max_partition_fetch_bytes=KIB,
            enable_incremental_fetch_sessions=self.random.random() < 0.8,
        )
        self.epoch = dict.fromkeys(self.partitions, 1)
        self.last_epoch = 1
        self.leader_epoch = dict.fromkeys(self.partitions, 5)
        self.read_up_to = dict.fromkeys(self.partitions, 0)
        self.buffer: list[Any] = []
        self.freed = 0
        self.in_flight: list[Request] = []
        self.remembered: dict[int, dict[int, int]] = {}
        self.paused: set[int] = set()
        self.moved: set[int] = set()

    def something_happens(self) -> None:
        self.send(self.random.choice([0.0, 0.01, 0.3]))
        act = self.random.choice(
            [self.answer] * 6 + [self.read] * 4 + [self.fail, self.pause, self.seek, self.move]
        )
        act()

    def send(self, after: float) -> None:
        requests = self.harness.tick(after)
        self.in_flight += requests
        ways = [(one.to, one.lane) for one in self.in_flight]
        assert len(ways) == len(set(ways)), "two requests in flight on one connection"
        assert self.harness.wake_at > self.harness.now, "it would spin"
        promised = sum(one.body.max_bytes for one in self.in_flight)
        readable = any(chunk.partition.partition not in self.paused for chunk in self.buffer)
        held = self.freed + sum(chunk.size for chunk in self.buffer)
        if requests and readable and not self.freed:
            # A batch and the overhead of its chunks may exceed what was promised.
            assert held + promised <= self.bound + 2 * (KIB + 6 * CHUNK_OVERHEAD)

    def answer(self) -> None:
        if not self.in_flight:
            return
        request = self.in_flight.pop(self.random.randrange(len(self.in_flight)))
        if self.random.random() < 0.05:
            code = FetchSessionIdNotFoundError.errno
            self.harness.answer(request, error_code=code)
            return
        wanted = self.remember(request)
        left = request.body.max_bytes
        answers = []
        for partition, offset in wanted.items():
            if self.random.random() < 0.05:
                code = self.random.choice([UnknownError.errno, LeaderNotAvailableError.errno])
                answers.append(of(partition, error_code=code))
                continue
            data = b""
            while offset < self.END and (not data or left > 0) and left > 0 and len(data) < KIB:
                base = offset - offset % 10
                data += a_batch(base, 10)
                left -= 100
                offset = base + 10
            if data or request.body.session_epoch <= 0:
                answers.append(of(partition, data, high_watermark=self.END))
        session = 0 if request.body.session_epoch < 0 else 77
        self.deliver(self.harness.answer(request, *answers, session_id=session))

    def remember(self, request: Request) -> dict[int, int]:
        if request.body.session_epoch < 0:
            return offsets(request)
        if request.body.session_epoch == 0:
            known = self.remembered[request.to] = {}
        else:
            known = self.remembered[request.to]
        known.update(offsets(request))
        for one in forgotten(request):
            known.pop(one, None)
        return known

    def deliver(self, said: list[object]) -> None:
        for chunk in chunks(said):
            assert chunk.error is None
            if chunk.epoch == self.epoch[chunk.partition.partition]:
                self.buffer.append(chunk)
            else:
                self.freed += chunk.size

    def read(self) -> None:
        positions = {}
        stuck = {one for one in self.partitions if self.random.random() < 0.3}
        for chunk in list(self.buffer):
            partition = chunk.partition.partition
            if partition in self.paused | stuck:
                continue
            self.buffer.remove(chunk)
            self.freed += chunk.size
            if not chunk.size:
                continue
            assert chunk.offset == self.read_up_to[partition], "a gap or a step back"
            end = chunk.offset - chunk.offset % 10 + 10 * (len(chunk.data) // 100)
            self.read_up_to[partition] = positions[partition] = end
        self.harness.consume(positions, freed=self.freed)
        self.freed = 0

    def fail(self) -> None:
        if self.in_flight:
            request = self.in_flight.pop()
            self.harness.fail(request, KafkaConnectionError("disconnected"))

    def pause(self) -> None:
        self.paused = {one for one in self.partitions if self.random.random() < 0.3}
        self.harness.pause(*self.paused)

    def seek(self) -> None:
        partition = self.random.choice(self.partitions)
        self.last_epoch += 1
        self.epoch[partition] = self.last_epoch
        self.read_up_to[partition] = self.random.randrange(self.END)
        dropped = [one for one in self.buffer if one.partition == tp(partition)]
        self.freed += sum(one.size for one in dropped)
        self.buffer = [one for one in self.buffer if one.partition != tp(partition)]
        self.harness.seek(partition, self.read_up_to[partition], epoch=self.last_epoch)

    def move(self) -> None:
        partition = self.random.choice(self.partitions)
        self.leader_epoch[partition] += 1
        self.harness.cluster(
            {one: (1 + (one + epoch) % 2, epoch) for one, epoch in self.leader_epoch.items()}
        )

    def calm_down(self) -> None:
        """No more trouble: everything must arrive."""
        self.paused = set()
        self.harness.pause()
        for _ in range(3000):
            self.send(0.3)
            self.answer()
            self.read()
            if all(end == self.END for end in self.read_up_to.values()):
                return
