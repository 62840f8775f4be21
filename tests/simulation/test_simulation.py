"""The simulation as its users see it: time, members, what they may not do, and how it ends."""

from __future__ import annotations

import contextlib
import itertools
import json
import linecache
import math
import os
import queue
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from aktor import ConsumerRebalanceListener, KafkaConsumer
from aktor.cli.main import main
from aktor.events.commits import CommitOffsets
from aktor.events.lifecycle import Tick
from aktor.simulation import (
    BlockingCallError,
    CheckFailedError,
    DeadlockError,
    MemberFailedError,
    Simulation,
    SimulationError,
    SpinError,
    TimeIsUpError,
    checks,
)
from aktor.simulation.selftest import storm
from aktor.simulation.selftest.strangers import Strangers
from aktor.simulation.world import blocking


def count_records(sim: Simulation, topic: str, wanted: int) -> int:
    """A user's code: it knows nothing of the simulation but how to sleep."""
    count = 0
    settings = {"bootstrap_servers": sim.bootstrap_servers, "auto_offset_reset": "earliest"}
    with KafkaConsumer(topic, group_id="g", **settings) as consumer:
        while count < wanted:
            count += sum(map(len, consumer.poll(timeout_ms=1000).values()))
            sim.sleep(0.25)
    return count


def test_a_member_runs_ordinary_code_in_virtual_time() -> None:
    began = time.process_time()
    with Simulation(seed=1) as sim:
        orders = sim.topic("orders", partitions=3, records=100)
        alice = sim.member(count_records, sim, orders, 100)
        sim.run(until=lambda: alice.task.over)

        assert alice.task.result == 100
        assert orders.lag("g") == 0
        assert 0.25 < sim.now < 10.0
        sim.run(for_=3600.0)
        assert sim.now > 3600.0
    assert time.process_time() - began < 20.0


class Counting(KafkaConsumer):
    """A user's class with a poll of its own."""

    polls = 0

    def poll(self, *args: Any, **kwargs: Any) -> dict[Any, list[Any]]:
        self.polls += 1
        return super().poll(*args, **kwargs)


@pytest.mark.parametrize("kind", [KafkaConsumer, Counting])
def test_an_iteration_calls_the_poll_of_the_users_class_and_not_that_of_the_simulation(
    kind: type[KafkaConsumer],
) -> None:
    polls = 0

    def work() -> None:
        nonlocal polls
        settings = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 2000}
        with kind(
            orders, group_id="g", bootstrap_servers=sim.bootstrap_servers, **settings
        ) as consumer:
            assert len(list(consumer)) == 20
            polls = getattr(consumer, "polls", 0)

    with Simulation(1) as sim:
        orders = sim.topic("orders", records=20)
        member = sim.member(work)
        sim.run(until=lambda: member.task.over)
        sim.check()

    assert (polls >= 20) == (kind is Counting)


def test_members_share_the_partitions_and_read_everything() -> None:
    with Simulation(seed=2) as sim:
        orders = sim.topic("orders", partitions=4, records=500)
        sim.consumers(group="g", topics=[orders], count=2)
        sim.run(until=lambda: orders.lag("g") == 0, at_most=60.0).check()

        readers = {event["member"] for event in sim.history.named("records.delivered")}
        assert readers == {"alice", "bob"}


def read_for_ever(
    sim: Simulation, topic: str, *, commit: bool = True, seconds: float = math.inf
) -> None:
    """A user's code that nobody ends, unless it ends after so many seconds."""
    with KafkaConsumer(
        topic,
        bootstrap_servers=sim.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while sim.now < seconds:
            if consumer.poll(timeout_ms=1000) and commit:
                consumer.commit()


def test_progress_waits_for_groups_of_the_users_own_code() -> None:
    with Simulation(seed=1) as sim:
        orders = sim.topic("orders", partitions=2, records=100)
        sim.member(read_for_ever, sim, orders)

        sim.progress().check()

        assert orders.lag("billing") == 0


def pause_before_it_reads(sim: Simulation, topic: str) -> None:
    KafkaConsumer(bootstrap_servers=sim.bootstrap_servers, group_id="billing").close()
    time.sleep(5.0)
    read_for_ever(sim, topic)


def test_progress_waits_for_a_group_whose_members_are_between_two_consumers() -> None:
    with Simulation(seed=1) as sim:
        orders = sim.topic("orders", partitions=2, records=100)
        sim.member(pause_before_it_reads, sim, orders)
        sim.run(for_=2.0)

        sim.progress().check()

        assert orders.lag("billing") == 0


def test_faults_meet_groups_of_the_users_own_code() -> None:
    with Simulation(seed=1) as sim:
        sim.member(read_for_ever, sim, sim.topic("orders"))
        sim.run(for_=5.0)

        sim.chaos(rate=1.0, for_=20.0, weights={"session_expired": 1}).run(for_=20.0)

        assert {event["group"] for event in sim.history.named("session.expired")} == {"billing"}


def test_members_are_told_apart_although_they_say_the_same_client_id() -> None:
    with Simulation(seed=1) as sim:
        orders = sim.topic("orders", partitions=2)
        sim.member(read_for_ever, sim, orders, name="alice")
        sim.member(read_for_ever, sim, orders, name="bob", seconds=3.0)
        sim.run(for_=5.0)

        sim.brokers.expire("billing", "alice")
        sim.run(for_=5.0).check()

        assert [one["consumer"] for one in sim.history.named("session.expired")] == ["alice"]
        assert list(sim.history.named("consumer.closed"))
        assert not list(sim.history.named("group.still_has"))


def test_a_group_has_to_finish_the_topics_that_it_reads_and_no_others() -> None:
    with Simulation(seed=1) as sim:
        orders, refunds = (sim.topic(name, records=10) for name in ("orders", "refunds"))
        sim.member(read_for_ever, sim, orders)
        sim.consumers(group="g", topics=[refunds])

        sim.progress(at_most=30.0).check()

        assert (orders.lag("billing"), refunds.lag("g")) == (0, 0)


def test_progress_that_does_not_come_says_what_is_left_by_whom() -> None:
    with Simulation(seed=1) as sim:
        sim.member(read_for_ever, sim, sim.topic("orders", records=10), commit=False)

        with pytest.raises(TimeIsUpError, match="not committed: 10 of orders by group billing"):
            sim.progress(at_most=10.0)


def test_there_is_no_progress_without_a_group() -> None:
    with Simulation() as sim:
        sim.topic("orders", records=10)

        with pytest.raises(TimeIsUpError, match="no consumer has a group"):
            sim.progress(at_most=10.0)


def test_a_consumer_may_also_be_looked_at_by_hand() -> None:
    with Simulation(seed=3) as sim:
        orders = sim.topic("orders", partitions=1, records=5)
        alice = sim.consumers(group="g", topics=[orders])[0]
        sim.run(until=lambda: orders.lag("g") == 0)

        # Its program is in the middle of a poll: what only looks may be called all the same.
        status = alice.consumer.status()
        assert status.partitions[TopicPartition(orders, 0)].position == 5


@pytest.mark.parametrize(
    ("blocks", "named"),
    [
        (lambda: threading.Thread(target=print).start(), "starts a thread"),
        (lambda: ThreadPoolExecutor().submit(print), "starts a thread"),
        (lambda: os.system("true"), "blocks on a process"),
        (
            lambda: os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {}),
            "blocks on a process",
        ),
    ],
)
def test_code_that_blocks_on_what_is_not_simulated_is_named(blocks: Any, named: str) -> None:
    with Simulation() as sim:
        sim.member(blocks)

        with pytest.raises(BlockingCallError, match=rf"alice {named}.*test_simulation.py"):
            sim.run(for_=1.0)


def caught_at_once() -> None:
    with contextlib.suppress(Exception):
        os.system("true")


def in_a_listener(sim: Simulation) -> None:
    """kafka-python's way to live on: whatever the listener raises is an error of Kafka."""

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            os.system("true")

        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

    consumer = KafkaConsumer(bootstrap_servers=sim.bootstrap_servers, group_id="g")
    consumer.subscribe(["orders"], listener=Listener())
    while True:
        with contextlib.suppress(KafkaError):
            consumer.poll(timeout_ms=500)


@pytest.mark.parametrize("blocks", [caught_at_once, in_a_listener])
def test_code_that_blocks_is_named_although_the_error_is_caught(blocks: Any) -> None:
    with Simulation() as sim:
        sim.topic("orders")
        sim.member(blocks, *[sim] * (blocks is in_a_listener))

        with pytest.raises(BlockingCallError, match="alice blocks on a process"):
            sim.run(for_=5.0)


def test_code_that_goes_on_standing_still_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "TOO_LONG", 1)

    def work() -> None:
        while True:
            with contextlib.suppress(Exception):
                threading.Event().wait()

    with Simulation() as sim:
        sim.member(work)

        with pytest.raises(BlockingCallError, match="alice has been at"):
            sim.run(for_=1.0)


#: Out of reach of a simulation, which finds what has a name in a module.
PUT_ASIDE = {"sleep": time.sleep}


def held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def running_thread() -> threading.Thread:
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    return thread


def spin() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    "blocks",
    [
        held_lock().acquire,
        queue.Queue().get,
        threading.Event().wait,
        running_thread().join,
        lambda: PUT_ASIDE["sleep"](60),
        spin,
    ],
    ids=["lock", "queue", "event", "join", "sleep", "spin"],
)
def test_code_that_stands_still_for_real_is_interrupted_and_its_line_is_named(
    blocks: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "TOO_LONG", 1)

    def work() -> None:
        blocks()  # this line

    with Simulation() as sim:
        sim.member(work)

        with pytest.raises(BlockingCallError, match=r"alice has been at (.*):(\d+) for") as raised:
            sim.run(for_=1.0)

    file, line = re.search(r"at (\S+):(\d+) for", str(raised.value)).groups()  # type: ignore[union-attr]
    assert file == __file__
    named = linecache.getline(file, int(line))
    assert "this line" in named or "PUT_ASIDE" in named or "pass" in named or "while" in named


@pytest.mark.gate
def test_a_turn_that_takes_long_because_others_take_theirs_is_not_suspected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Two looks in a row: a machine that stands still in one turn costs one of them.
    monkeypatch.setattr(blocking, "TOO_LONG", 2)

    def work() -> None:
        for _ in range(40):
            began = time.process_time()
            while time.process_time() < began + 0.1:
                pass
            sim.sleep(1.0)

    with Simulation() as sim:
        alice = sim.member(work)
        sim.run(until=lambda: alice.task.over)


@pytest.mark.gate
@pytest.mark.parametrize("starved", [True, False])
def test_the_time_in_which_a_turn_has_no_processor_does_not_count(
    starved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "TOO_LONG", 0.5)
    monkeypatch.setattr(blocking, "_LOOK_EVERY_S", 0.1)
    waited = itertools.count() if starved else itertools.repeat(0)
    monkeypatch.setattr(blocking, "_waited_for_a_processor", lambda _thread: next(waited))

    def work() -> None:
        began = time.process_time()
        while time.process_time() < began + 2.0:  # the first second is that of the last look
            pass

    with Simulation() as sim:
        sim.member(work)

        with contextlib.nullcontext() if starved else pytest.raises(BlockingCallError):
            sim.run()


def test_the_first_simulation_of_a_process_may_run_in_any_thread() -> None:
    """Only the main thread can set what a signal does (`blocking`)."""
    program = """
import threading
from aktor.simulation import Simulation

def run() -> None:
    with Simulation(1) as sim:
        orders = sim.topic("orders", records=5)
        sim.consumers(group="g", topics=[orders])
        sim.progress().check()
    print("read")

thread = threading.Thread(target=run)
thread.start()
thread.join()
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert ran.stdout == "read\n", ran.stderr


def test_a_deadlock_shows_who_waits_for_what() -> None:
    with Simulation() as sim:
        sim.member(lambda: sim.scheduler.running.wait(float("inf"), "Godot"))  # type: ignore[union-attr]
        sim.member(lambda: sim.sleep(float("inf")))

        with pytest.raises(DeadlockError, match=r"alice waits for Godot; bob waits for its own"):
            sim.run()


def test_a_simulation_goes_on_until_all_code_has_ended() -> None:
    with Simulation() as sim:
        sim.member(lambda: sim.sleep(2.0))
        sim.member(lambda: sim.sleep(7.0))
        sim.member(lambda: sim.sleep(float("inf"))).kill()

        sim.run()

        assert sim.now == 7.0


def test_code_that_does_not_end_is_not_waited_for_without_end() -> None:
    with Simulation() as sim:
        sim.member(read_for_ever, sim, sim.topic("orders"))

        with pytest.raises(TimeIsUpError, match="not so within 60 s: alice waits for its consumer"):
            sim.run(at_most=60.0)


def test_a_spin_is_an_error() -> None:
    def spin() -> None:
        while True:
            sim.sleep(0.0)

    with Simulation() as sim:
        sim.member(spin)

        with pytest.raises(SpinError, match="never rests"):
            sim.run(for_=1.0)


def test_a_member_that_raises_ends_the_run_with_seed_and_history() -> None:
    with Simulation(seed=42) as sim:
        sim.topic("orders")
        sim.member(lambda: 1 / 0)

        with pytest.raises(MemberFailedError, match=r"seed 42.*alice failed") as raised:
            sim.run(for_=1.0)

        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        assert "topic.created" in str(raised.value)


def test_what_does_not_happen_in_time_is_an_error() -> None:
    with Simulation() as sim, pytest.raises(TimeIsUpError, match="not so within 5 s"):
        sim.run(until=lambda: False, at_most=5.0)


def test_a_failed_check_says_seed_and_promise() -> None:
    with Simulation(seed=9) as sim:
        sim.topic("orders", records=5)
        sim.history.note("progress.demanded", group="g")

        with pytest.raises(CheckFailedError, match=r"(?s)seed 9.*every_record_is_finished"):
            sim.check()


def test_an_actor_falls_over_on_command_and_the_member_recovers(
    simulation: Simulation, crash: Any
) -> None:
    orders = simulation.topic("orders", partitions=2, records=50)
    simulation.consumers(group="g", topics=[orders], count=2)
    crashes = crash("fetch", on=Tick, times=2)

    simulation.progress(at_most=60.0).check()

    assert crashes.happened == 2
    assert {event["child"] for event in simulation.history.named("actor.crashed")} == {"fetch"}


def a_crash(actor: Any, on: Any, times: int = 1) -> Callable[[Simulation], object]:
    return lambda sim: sim.crash(actor, on=on, times=times)


def a_storm(**chaos: Any) -> Callable[[Simulation], object]:
    return lambda sim: (sim.topic("orders"), sim.chaos(**chaos))


def two_partitions_and(asks: str, *values: Any) -> Callable[[Simulation], object]:
    return lambda sim: (
        sim.topic("orders", partitions=2),
        getattr(sim.brokers, asks)(*values),
    )


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        (a_crash("fetcher", Tick), r"no actor 'fetcher' \(did you mean 'fetch'\?\): network, "),
        (a_crash("fetch", CommitOffsets), "fetch does not understand CommitOffsets"),
        (a_crash("fetch", "Tick"), "fetch does not understand 'Tick'"),
        (a_crash("fetch", Tick, times=0), "times is 0"),
        (a_storm(brokercrash=5), r"no fault 'brokercrash' \(did you mean 'broker_crash'\?\)"),
        (a_storm(weights={}), "no kind of fault has a weight"),
        (a_storm(seek=-1), "the weight of seek is -1"),
        (a_storm(rate=0), "rate is 0"),
        (a_storm(rate=-1), "rate is -1"),
        (lambda sim: sim.brokers.crash(9), "no broker 9: 1, 2, 3"),
        (lambda sim: sim.brokers.restart(9), "no broker 9: 1, 2, 3"),
        (lambda sim: sim.brokers.move_coordinator("g", 9), "no broker 9: 1, 2, 3"),
        (lambda sim: sim.brokers.move_leader("oders", 0), "never a topic 'oders': make one by"),
        (two_partitions_and("grow_topic", "oders", 3), "never a topic 'oders': orders"),
        (two_partitions_and("delete_topic", "oders"), "never a topic 'oders': orders"),
        (two_partitions_and("move_leader", "orders", 2), "orders never had more than 2 part"),
        (two_partitions_and("move_leader", "orders", 1, 9), "no broker 9: 1, 2, 3"),
        (two_partitions_and("elect_uncleanly", "orders", 2, 1), "orders never had more than 2"),
        (two_partitions_and("release_follower", "orders", 1, 9), "no broker 9: 1, 2, 3"),
        (two_partitions_and("write", "orders", -1, [b"x"]), "orders never had more than 2 part"),
        (
            two_partitions_and("hold_follower", "orders", 2, random.Random(1)),
            "orders never had more than 2 part",
        ),
    ],
)
def test_what_cannot_happen_is_refused(asks: Callable[[Simulation], object], told: str) -> None:
    with Simulation() as sim, pytest.raises(ValueError, match=told):
        asks(sim)


def test_faults_need_a_topic_that_they_can_hit() -> None:
    with Simulation() as sim, pytest.raises(SimulationError, match="make a topic first"):
        sim.chaos()


def test_topics_of_members_are_a_list() -> None:
    with Simulation() as sim, pytest.raises(TypeError, match=r"as \['orders'\]"):
        sim.consumers(group="g", topics=sim.topic("orders"))


def test_no_two_members_have_one_name() -> None:
    with Simulation() as sim:
        sim.member(print, name="bob")

        assert sim.member(print).name == "carol"
        with pytest.raises(ValueError, match="a member 'bob' already"):
            sim.member(print, name="bob")


def test_outside_of_members_nobody_is_somebody() -> None:
    with Simulation() as sim, pytest.raises(SimulationError, match="only the code of a member"):
        _ = sim.me


@pytest.mark.simulation(seed=7, brokers=1)
def test_the_marker_says_what_is_simulated(simulation: Simulation) -> None:
    assert (simulation.seed, simulation.bootstrap_servers) == (7, ["b1:9092"])


@pytest.mark.gate
def test_the_command_replays_a_seed_and_writes_its_history_and_its_pictures(
    capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Of a short storm."""
    monkeypatch.setattr(storm, "FAULTY", 15.0)
    monkeypatch.setattr(storm, "AFTERSHOCKS", 0)
    file = tmp_path / "history.jsonl"
    page = tmp_path / "why.html"
    assert main(["sim", "replay", "9", "--history", str(file), "--picture", str(page)]) == 0
    assert "all promises were kept" in capsys.readouterr().out
    assert file.read_text().count("\n") > 1000
    text = page.read_text()
    assert "<h1>Seed 9, " in text
    (specs,) = re.findall(r"const PICTURES = (\{.*?\});\n", text)
    timeline, *others = json.loads(specs).values()
    assert others
    assert {one["owner"] for one in timeline["datasets"]["owned"]}
    assert {one["what"] for one in timeline["datasets"]["spans"]} >= {"joining", "stable"}


@pytest.mark.parametrize("option", ["--history", "--picture"])
def test_a_file_that_cannot_be_written_is_told_before_the_run(
    option: str, capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(storm, "run_storm", lambda *_, **__: pytest.fail("it ran"))

    code = main(["sim", "replay", "1", option, str(tmp_path / "nowhere" / "file")])

    assert code == 2
    assert re.match(r"aktor sim: cannot write .*: No such file", capsys.readouterr().err)


@pytest.mark.gate
def test_the_command_runs_seeds_in_several_processes(capsys: Any) -> None:
    assert main(["sim", "run", "--first", "4", "--seeds", "2", "--jobs", "2"]) == 0

    assert "2 seeds, 0 failed" in capsys.readouterr().out


@pytest.mark.gate
def test_the_command_runs_until_it_is_interrupted_and_then_sums_up() -> None:
    # By default the first seed is the time, which may find a bug while this test runs.
    first = ["--first", "7"]
    command = [sys.executable, "-u", "-m", "aktor.cli", "sim", "run", "--seeds", "0", *first]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()

    assert re.match(r"from seed 7 on, until stopped", said)
    assert re.search(r"^1 seeds, 0 failed; 0.0 virtual hours", rest, re.MULTILINE)
    assert process.returncode == 0


@pytest.mark.gate
def test_the_command_says_what_fails_and_shrinks_it_to_the_fault_that_matters(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a short storm: a dozen of them are run."""

    def nobody_crashes(history: Any) -> list[str]:
        return [f"{event['child']} did" for event in history.named("actor.crashed")]

    monkeypatch.setattr(checks, "CHECKS", (nobody_crashes,))
    monkeypatch.setattr(storm, "FAULTY", 15.0)
    monkeypatch.setattr(storm, "AFTERSHOCKS", 0)
    classic = ["--protocol", "classic"]
    assert main(["sim", "run", "--first", "29", "--seeds", "1", *classic]) == 1
    told = capsys.readouterr().out
    assert "seed 29 fails: CheckFailedError" in told
    assert "again: aktor sim replay 29 --protocol classic\n" in told
    assert "failed: 29 --protocol classic (aktor sim replay ..." in told

    assert main(["sim", "shrink", "29", *classic]) == 1
    told = capsys.readouterr().out
    assert "seed 29 fails with 3 faults, 2 members" in told
    assert "it still fails with 1 faults, 1 members" in told
    (again,) = re.findall(r"^again: aktor.simulation.selftest.storm.(run_storm\(.*\))$", told, re.M)
    least = eval(again, vars(storm))
    assert isinstance(least.error, CheckFailedError)
    assert least.error.checks == {"nobody_crashes"}
    assert [fault.kind for fault in least.faults] == ["actor_crash"]
    assert least.members == 1
    before, after = map(int, re.findall(r" (\d+) records", told))
    assert after == least.records < before / 5


def test_code_with_addresses_of_its_own_runs_as_it_is() -> None:
    seen: list[bytes] = []

    def loop() -> None:
        with KafkaConsumer(
            "orders", bootstrap_servers="kafka.example:9092", auto_offset_reset="earliest"
        ) as consumer:
            while len(seen) < 20:
                for records in consumer.poll(500).values():
                    seen.extend(record.value for record in records)

    with Simulation(seed=1, brokers=3) as sim:
        topic = sim.topic("orders", partitions=2, records=20)
        sim.brokers.crash(1)
        sim.member(loop)
        sim.run(until=lambda: len(seen) == 20, at_most=30)

    assert sorted(seen) == sorted(topic.values)


def test_a_member_that_nobody_looks_after_any_more_is_noted_until_its_session_is_over() -> None:
    with Simulation(seed=1) as sim:
        orders = sim.topic("orders", records=10)
        alice, _ = sim.consumers(
            group="g", topics=[orders], count=2, session_timeout_ms=6000, heartbeat_interval_ms=500
        )
        Strangers(sim).watch()
        sim.run(for_=10.0)
        unnoticed = not list(sim.history.named("group.has_stranger"))
        alice.kill()
        killed_at = sim.now
        sim.run(for_=10.0)

        found = list(sim.history.named("group.has_stranger"))

        assert unnoticed
        assert [one["member"] for one in found] == ["alice"]
        assert found[0]["since"] == pytest.approx(killed_at, abs=1.0)
        assert found[0]["at"] < killed_at + 6.0
        sim.check()
