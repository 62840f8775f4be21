"""`time` is virtual for the code under test and for nobody else; and that code dies at any line."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from time import monotonic as looked_up_by_name
from time import sleep as sleep_by_name
from typing import Any

import pytest

from aktor import KafkaConsumer
from aktor.simulation import Simulation
from aktor.simulation.world.scheduler import START

REAL = {name: getattr(time, name) for name in ("sleep", "monotonic", "time", "perf_counter_ns")}


@pytest.mark.parametrize("sleep", [lambda s: time.sleep(s), lambda s: sleep_by_name(s)])
@pytest.mark.parametrize(
    "look",
    [
        lambda: time.monotonic(),
        lambda: time.time(),
        lambda: time.perf_counter(),
        lambda: time.time_ns() / 1e9,
        lambda: time.monotonic_ns() / 1e9,
        lambda: time.perf_counter_ns() / 1e9,
        lambda: looked_up_by_name(),
    ],
)
def test_time_passes_only_in_the_simulation(
    sleep: Callable[[float], None], look: Callable[[], float]
) -> None:
    def work() -> float:
        began = look()
        sleep(3600.0)
        return look() - began

    began = REAL["monotonic"]()
    with Simulation() as sim:
        alice = sim.member(work)
        sim.run()

        assert alice.task.result == pytest.approx(3600.0)
        assert sim.now == pytest.approx(3600.0)
    assert REAL["monotonic"]() - began < 600.0


def test_a_loop_that_goes_by_the_clock_ends() -> None:
    def busy() -> None:
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            pass

    def polls(topic: str) -> int:
        polls, deadline = 0, time.time() + 10.0
        with KafkaConsumer(topic, bootstrap_servers="kafka:9092") as consumer:
            while time.time() < deadline:
                consumer.poll(timeout_ms=0)
                polls += 1
        return polls

    with Simulation() as sim:
        sim.member(busy)
        bob = sim.member(polls, sim.topic("orders"))
        sim.run()

        assert 10.0 <= sim.now < 12.0
        assert bob.task.result > 100


def test_the_wall_clock_does_not_jump_with_the_monotonic_one() -> None:
    def work() -> tuple[float, float]:
        monotonic, wall = time.monotonic(), time.time()
        time.sleep(1.0)
        return time.monotonic() - monotonic, time.time() - wall

    with Simulation() as sim:
        alice = sim.member(work)
        sim.run(for_=0.5)
        alice.jump_clock(20.0)
        sim.run()

        assert alice.task.result == pytest.approx((21.0, 1.0))


def test_the_test_and_other_threads_keep_the_real_time() -> None:
    seen: list[float] = []
    ended = threading.Event()

    def other() -> None:
        while not ended.wait(0.01):
            seen.append(time.time())

    with Simulation() as sim:
        sim.member(lambda: [time.sleep(10.0) for _ in range(1000)])
        thread = threading.Thread(target=other)
        thread.start()
        while len(seen) < 3:
            sim.run(for_=10.0)
        now = time.time()
        ended.set()
        thread.join()

    assert now > START + 1_000_000.0
    assert all(one > START + 1_000_000.0 for one in seen)


def test_everything_is_as_before_when_the_last_simulation_has_ended() -> None:
    first, second = Simulation(), Simulation()
    for sim in (first, second):
        sim.member(lambda: time.sleep(1.0))
        sim.run(for_=0.5)
    first.end()

    second.run()
    assert second.now == 1.0
    second.end()

    assert {name: getattr(time, name) for name in REAL} == REAL
    assert looked_up_by_name is REAL["monotonic"]
    assert sleep_by_name is REAL["sleep"]


def test_a_simulation_that_is_dropped_gives_the_time_back() -> None:
    sim = Simulation()
    sim.run(for_=1.0)
    assert time.sleep is not REAL["sleep"]

    del sim

    gc.collect()
    assert time.sleep is REAL["sleep"]


def test_simulations_run_beside_each_other() -> None:
    ended: list[float] = []

    def one() -> None:
        with Simulation() as sim:
            for _ in range(20):
                sim.member(lambda: [time.sleep(1.0) for _ in range(20)])
            sim.run()
            ended.append(sim.now)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ended == [20.0] * 4


def test_what_a_finally_waits_for_at_the_end_takes_no_time() -> None:
    def work() -> None:
        try:
            time.sleep(10.0)
        finally:
            time.sleep(3600.0)

    began = time.monotonic()
    with Simulation() as sim:
        sim.member(work)
        sim.run(for_=1.0)
    assert time.monotonic() - began < 600.0


def test_what_looks_at_the_clock_in_a_garbage_collection_lets_nobody_overtake() -> None:
    """Hypothesis does. A member may be amid an import then, and others would find half a module."""
    names: dict[str, Any] = {"__name__": "hypothesis.internal", "time": time}
    exec("def collected(phase, info): time.perf_counter()", names)

    def work() -> float:
        began = time.monotonic()
        for _ in range(100):
            gc.collect(0)
        return time.monotonic() - began

    gc.callbacks.append(names["collected"])
    try:
        with Simulation() as sim:
            alice = sim.member(work)
            sim.run()
            assert alice.task.result == 0.0
    finally:
        gc.callbacks.remove(names["collected"])


def test_a_negative_sleep_is_refused_as_ever() -> None:
    def work() -> str:
        with pytest.raises(ValueError, match="non-negative") as raised:
            time.sleep(-1.0)
        return str(raised.value)

    with Simulation() as sim:
        alice = sim.member(work)
        sim.run()
        assert alice.task.result


# -- lines


def works_through(done: list[int]) -> None:
    for number in range(5):
        done.append(number)
        time.sleep(1.0)


def died_after(lines: int) -> list[int]:
    done: list[int] = []
    with Simulation() as sim:
        alice = sim.member(works_through, done)
        alice.kill_at_line(lines)
        sim.run(for_=60.0)
        assert not alice.running
    return done


def test_a_process_dies_at_any_line() -> None:
    # Three lines for each round: the loop's head, append, sleep.
    assert [len(died_after(lines)) for lines in range(8)] == [0, 0, 1, 1, 1, 2, 2, 2]


def test_what_a_garbage_collection_runs_is_no_line_of_the_process() -> None:
    """When it comes depends on all that ran before: the same seed would die elsewhere."""

    def collected(phase: str, info: dict[str, int]) -> None:
        pass

    thresholds = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(1)
    try:
        assert [len(died_after(lines)) for lines in range(8)] == [0, 0, 1, 1, 1, 2, 2, 2]
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(collected)
    assert gc.isenabled()


def test_a_process_that_is_under_way_dies_at_one_of_its_next_lines() -> None:
    done: list[int] = []
    with Simulation() as sim:
        alice = sim.member(works_through, done)
        sim.run(for_=2.5)
        alice.kill_at_line(4)
        sim.run(for_=60.0)

    assert done == [0, 1, 2, 3]


def test_who_is_killed_is_told_nothing_that_reaches_anybody() -> None:
    caught: list[BaseException] = []

    def reads(topic: str) -> None:
        with KafkaConsumer(topic, bootstrap_servers="kafka:9092", group_id="g") as consumer:
            while True:
                try:
                    consumer.poll(timeout_ms=100)
                except Exception as error:
                    caught.append(error)

    with Simulation() as sim:
        alice = sim.member(reads, sim.topic("orders"))
        sim.run(for_=5.0)
        alice.kill_at_line(3)
        sim.run(for_=5.0)

        assert alice.gone
        assert not caught
        assert len(sim.brokers.members("g")) == 1, "it said good-bye"
        assert not list(sim.history.named("consumer.closed"))


def test_a_process_dies_amid_the_records_that_it_is_given() -> None:
    def left(progress: float) -> int:
        with Simulation() as sim:
            orders = sim.topic("orders", records=20)
            invoices = sim.sink(orders)

            def loop() -> None:
                consumer = KafkaConsumer(
                    orders,
                    bootstrap_servers="kafka:9092",
                    group_id="g",
                    auto_offset_reset="earliest",
                )
                while True:
                    for records in consumer.poll(timeout_ms=500).values():
                        for record in records:
                            invoices.put(record)

            sim.member(loop).kill_at_work(progress)
            sim.run(for_=10.0)
            return len(invoices.effects)

    assert left(0.0) == 0
    assert 5 < left(0.5) < 15


def test_who_traces_goes_on_tracing() -> None:
    traced: list[Any] = []

    def tracer(frame: Any, event: str, _: Any) -> None:
        traced.append(event)

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        died_after(3)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
