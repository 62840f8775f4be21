"""Members of asyncio keep the promises of all members, though their calls are cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import os
from datetime import UTC, datetime
from typing import Any

import pytest
from kafka.errors import KafkaError, KafkaTimeoutError

from aktor import WaitingFor
from aktor.aio import AsyncConsumerRebalanceListener, KafkaConsumer
from aktor.broker.faults import Fault, Swallow
from aktor.events.lifecycle import Tick
from aktor.simulation import Simulation
from aktor.simulation.world.topic import Topic
from aktor.structs import TopicPartition
from tests.gate import all_but_the_first

#: The same storms each time, one of each protocol; AKTOR_FIRST draws others.
FIRST = int(os.environ.get("AKTOR_FIRST", "0"))
PROTOCOLS = ("classic", "consumer", "auto")


@pytest.mark.parametrize("seed", all_but_the_first(1, range(FIRST, FIRST + len(PROTOCOLS))))
def test_members_of_asyncio_lose_and_repeat_nothing_in_storms(seed: int) -> None:
    with Simulation(seed=seed) as sim:
        orders = sim.topic("orders", partitions=4, records=100)
        sim.consumers(
            group="g",
            topics=[orders],
            count=3,
            way="asyncio",
            enable_auto_commit=sim.random.random() < 0.4,
            group_protocol=PROTOCOLS[seed % 3],
        )
        sim.trickle(orders, 20, 40)
        sim.chaos(0.3, for_=40)
        sim.run(for_=40)
        sim.heal().progress().check()


def test_a_coroutine_has_its_own_event_loop_in_virtual_time() -> None:
    slept: list[float] = []

    async def sleeps(sim: Simulation, seconds: float) -> None:
        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(3):
                tasks.create_task(asyncio.sleep(seconds))
        slept.append(round(asyncio.get_running_loop().time() - began, 3))

    with Simulation(seed=1) as sim:
        sim.member(sleeps, sim, 3600.0)
        sim.member(sleeps, sim, 60.0)
        sim.run(at_most=4000.0)
        assert sorted(slept) == [60.0, 3600.0]
        assert round(sim.now) == 3600


def test_an_event_loop_that_is_blocked_for_30_seconds_does_not_lose_the_group() -> None:
    """No rebalance, and no record twice: the background thread sends the heartbeats."""
    given: list[int] = []

    async def reads(sim: Simulation, topic: str) -> None:
        async with KafkaConsumer[Any, Any](
            topic,
            bootstrap_servers=sim.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=2000,
        ) as consumer:
            async for record in consumer:
                given.append(record.offset)
                if record.offset == 10:
                    sim.sleep(30.0)
                if record.offset == 19:
                    return

    with Simulation(seed=3) as sim:
        orders = sim.topic("orders", records=20)
        sim.member(reads, sim, orders)
        sim.run(at_most=100.0)
        assert given == [*range(20)]
        joined = [event for event in sim.history.events if event["event"] == "rebalance.completed"]
        assert len(joined) == 1
        sim.check()


def test_a_commit_that_is_cancelled_is_stored_or_not_and_committed_says_so() -> None:
    found: list[tuple[int | None, int | None]] = []

    async def reads(sim: Simulation, topic: str) -> None:
        async with KafkaConsumer[Any, Any](
            topic,
            bootstrap_servers=sim.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            await consumer.getone()
            (partition,) = consumer.assignment()
            for wait in (None, 0.0, 0.0005, 0.001, 0.002, 0.005, 0.1):
                before = await consumer.committed(partition)
                commit = asyncio.create_task(consumer.commit())
                if wait is not None:
                    await asyncio.sleep(wait)
                commit.cancel()
                with contextlib.suppress(asyncio.CancelledError, KafkaError):
                    await commit
                await asyncio.sleep(1.0)
                found.append((before, await consumer.committed(partition)))
                await consumer.getone()

    with Simulation(seed=5) as sim:
        orders = sim.topic("orders", records=20)
        sim.member(reads, sim, orders)
        sim.run(at_most=100.0)
        sim.check()
    for number, (before, after) in enumerate(found, 1):
        assert after in (before, number)
    assert {before == after for before, after in found} == {True, False}, "both happen"


@pytest.mark.parametrize("start", ["earliest", datetime(2020, 1, 1, tzinfo=UTC), None])
def test_a_table_ends_in_the_time_that_it_is_given_also_if_no_offset_is_found(start: Any) -> None:
    took: list[float] = []

    async def reads(sim: Simulation, topic: str) -> None:
        async with KafkaConsumer[Any, Any](bootstrap_servers=sim.bootstrap_servers) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.getmany(timeout_ms=1000)
            sim.network.disturb(Fault(action=Swallow(), api="ListOffsets", times=1000))
            began = sim.now
            with pytest.raises(KafkaTimeoutError, match=r"within 0\.5 s"):
                await consumer.to_table(start, timeout_ms=500)
            took.append(sim.now - began)

    with Simulation(seed=5) as sim:
        sim.member(reads, sim, sim.topic("orders", records=20))
        sim.run(at_most=100.0)
    assert took[0] < 2


@pytest.mark.parametrize("ends", ["as the listener ends", "before, and begins anew then"])
@pytest.mark.parametrize("later", range(8))
def test_process_that_is_cancelled_in_a_listener_commits_no_record_that_it_did_not_get(
    later: int, ends: str
) -> None:
    """Its poll goes on alone to its end, and what it gives out is taken back. The last commit comes
    when that is done, and so does the first one of a `process` that follows. `later`: so many
    rounds of the event loop after the end of the listener."""
    found: list[Any] = []

    async def reads(sim: Simulation, topic: str) -> None:
        comes, ended = asyncio.Event(), asyncio.Event()

        class Listener(AsyncConsumerRebalanceListener):
            async def on_partitions_assigned(self, assigned: Any) -> None:
                comes.set()
                await asyncio.sleep(1.0)  # meanwhile records come
                ended.set()

            async def on_partitions_revoked(self, revoked: Any) -> None:
                """Not of interest."""

        async def handle(record: Any) -> None:
            found.append(record.offset)

        async def never_ends(record: Any) -> None:
            await asyncio.sleep(1e6)

        async def cancel(processing: asyncio.Task[Any], times: int) -> None:
            for _ in range(times):
                processing.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await processing

        async with KafkaConsumer[Any, Any](
            bootstrap_servers=sim.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            consumer.subscribe([topic], listener=Listener())
            processing = asyncio.create_task(consumer.process(handle))
            if begins_anew := ends.startswith("before"):
                await comes.wait()
                await cancel(processing, 1)
            await ended.wait()
            for _ in range(later):
                await asyncio.sleep(0)
            if begins_anew:
                again = asyncio.create_task(consumer.process(never_ends, commit_interval_ms=0))
                await asyncio.sleep(1.0)
                await cancel(again, 2)
            else:
                await cancel(processing, 1)
            (partition,) = consumer.assignment()
            handled = len(found)
            assert (await consumer.committed(partition) or 0) == handled
            assert (await consumer.getone()).offset == handled

    with Simulation(seed=5) as sim:
        sim.member(reads, sim, sim.topic("orders", records=20))
        sim.run(at_most=100.0)
        sim.check()


@pytest.mark.parametrize("actor", ["membership", "network", "commits"])
def test_process_tells_its_listener_what_was_lost_by_a_crash_before_it_began(actor: str) -> None:
    """It commits before it polls. The listener is a coroutine, and to commit without waiting has
    none."""
    found: list[int] = []
    told: list[str] = []

    class Listener(AsyncConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: Any) -> None:
            told.append("assigned")

        async def on_partitions_revoked(self, revoked: Any) -> None:
            told.append("revoked")

        async def on_partitions_lost(self, lost: Any) -> None:
            told.append("lost")

    async def handle(record: Any) -> None:
        found.append(record.offset)

    async def reads(sim: Simulation, topic: Topic) -> None:
        async with KafkaConsumer[Any, Any](
            bootstrap_servers=sim.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=9000,
        ) as consumer:
            consumer.subscribe([topic], listener=Listener())
            await consumer.process(handle)
            topic.write(20)
            sim.me.crash(actor, on=Tick)
            await asyncio.sleep(5.0)
            await consumer.process(handle, commit_interval_ms=0)

    with Simulation(seed=5) as sim:
        orders = sim.topic("orders", records=20)
        sim.member(reads, sim, orders)
        sim.run(at_most=100.0)
        sim.check()
        assert found == [*range(orders.end())]
    lost = [] if actor == "commits" else ["lost", "assigned"]
    assert told == ["assigned", *lost, "revoked"]


@pytest.mark.parametrize("seed", all_but_the_first(1, range(2)))
def test_stop_in_a_process_that_stood_still_commits_and_leaves(seed: int) -> None:
    """What `stop` waits for ends when the process goes on."""
    raised: list[BaseException | None] = []

    class Slow(AsyncConsumerRebalanceListener):
        async def on_partitions_assigned(self, _: Any) -> None:
            await asyncio.sleep(8.0)

        async def on_partitions_revoked(self, _: Any) -> None:
            pass

    async def reads(sim: Simulation, topic: str) -> None:
        consumer = KafkaConsumer[Any, Any](
            bootstrap_servers=sim.bootstrap_servers, group_id="g", session_timeout_ms=45_000
        )
        await consumer.start()
        consumer.subscribe([topic], listener=Slow())
        reader = asyncio.create_task(consumer.getone())
        await asyncio.sleep(4.0)
        try:
            await consumer.stop(timeout_ms=5000)
        except KafkaError as error:
            raised.append(error)
        await asyncio.wait([reader])

    with Simulation(seed) as sim:
        orders = sim.topic("orders", records=1)
        member = sim.member(reads, sim, orders)
        sim.run(for_=5)
        member.freeze()
        sim.run(for_=10)
        member.thaw()
        sim.run(at_most=10.0)
        names = [event["event"] for event in sim.history.events]
    assert raised == []
    assert "member.left" in names


def test_what_process_has_paused_waits_for_its_handlers() -> None:
    said: list[tuple[WaitingFor, str]] = []

    async def reads(topic: Topic) -> None:
        async def handle(_record: Any) -> None:
            await asyncio.sleep(4.0)
            (status,) = consumer.status().partitions.values()
            said.append((status.waiting_for, status.because))

        async with KafkaConsumer[Any, Any](
            topic,
            bootstrap_servers="kafka:9092",
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            await consumer.process(handle, concurrency=1, max_pending=10)

    with Simulation(seed=5) as sim:
        sim.member(reads, sim.topic("orders", partitions=1, records=30))
        sim.run(for_=6.0)
    (waiting_for, because), *_ = said
    assert waiting_for is WaitingFor.APPLICATION
    assert because.startswith("the handlers of process() have yet to finish 10 delivered records")
