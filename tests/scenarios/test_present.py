"""What `status()` and `why()` say in an incident: who, since when, what happens next."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import (
    CoordinatorLoadInProgressError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)

from aktor import ConsumerRebalanceListener
from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.present import stack, watch
from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons.sentence import why
from aktor.consumer.status import ConsumerStatus, WaitingFor
from aktor.errors import RecordDeserializationError
from aktor.simulation import Simulation
from aktor.structs import TopicPartition
from aktor.values import replace
from tests.gate import all_but_the_first
from tests.scenarios.reading import T0, T1, a_full_reader, a_member, read
from tests.scenarios.world import World, seeds

REFUSED = "Connection refused"


@pytest.fixture(params=all_but_the_first(1, seeds(2)))
def world(request: Any) -> Iterator[World]:
    with World(request.param) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 40)
        yield world


def lose(world: World, consumer: KafkaConsumer, *nodes: int) -> None:
    """From now on these brokers (all, if none is named) refuse connections, and hang up."""
    for node in nodes or tuple(world.cluster.up):
        world.cluster.unreachable[f"b{node}"] = REFUSED
    world.host(consumer).cut()


def poll_for(
    world: World,
    consumer: KafkaConsumer,
    seconds: float,
    raising: type[Exception] = UnknownTopicOrPartitionError,
) -> ConsumerStatus:
    """Poll for so long, also if that raises such an error; returns how it looks then."""
    until = world.now + seconds
    while world.now < until:
        with contextlib.suppress(raising):
            consumer.poll(timeout_ms=100)
    return consumer.status()


def a_reader(world: World) -> KafkaConsumer:
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0, T1])
    assert len(read(world, consumer, 80)) == 80
    return consumer


def test_a_status_is_of_the_moment_of_the_call_whenever_it_is_read(world: World) -> None:
    consumer = a_reader(world)
    lose(world, consumer)
    poll_for(world, consumer, 5.0)
    read_now, read_later = consumer.status(), consumer.status()
    said = str(read_now)

    world.cluster.unreachable.clear()
    world.cluster.fill("orders", 10)
    consumer.pause(T0)
    poll_for(world, consumer, 5.0)

    assert REFUSED in said
    assert str(read_later) == said
    assert read_later == read_now
    assert "answered" in str(consumer.status())


def test_with_nothing_wrong_it_says_that_there_is_nothing_new(world: World) -> None:
    consumer = a_member(world)
    assert len(read(world, consumer, 80)) == 80

    status = poll_for(world, consumer, 5.0)

    assert status.state == "running"
    assert status.why.startswith("There is nothing new")
    assert {one.waiting_for for one in status.partitions.values()} == {WaitingFor.RECORDS}
    assert status.healthy
    assert status.alive
    assert status.lag_seconds == 0.0
    assert status.last_poll is not None
    assert status.last_poll < 0.3
    assert status.last_heartbeat is not None
    assert status.last_heartbeat < 3.5


@pytest.mark.parametrize("group_id", [None, "g"])
def test_if_all_brokers_are_gone_it_names_them_and_says_since_when(
    world: World, group_id: str | None
) -> None:
    consumer = a_member(world, group_id=group_id)
    read(world, consumer, 80)
    lose(world, consumer)

    status = poll_for(world, consumer, 7.0)

    assert status.state.startswith("running, but no broker has been reachable for ")
    assert "b1:9092 (Connection refused, " in status.why
    assert "Not your code: the last poll was 0." in status.why
    assert {one.waiting_for for one in status.partitions.values()} == {WaitingFor.BROKER}
    assert all(one.trouble for one in status.partitions.values())
    assert status.healthy, "it lasts for less than ten seconds"
    assert not poll_for(world, consumer, 5.0).healthy

    world.cluster.unreachable.clear()
    status = poll_for(world, consumer, 30.0)
    assert (status.state, bool(status.healthy)) == ("running", True)


@pytest.mark.parametrize("group_id", [None, "g"])
def test_an_outage_after_an_idle_minute_counts_from_its_first_failure(
    world: World, group_id: str | None
) -> None:
    """Nothing is read, and heartbeats are rare: the last answers are old when the brokers go."""
    times = {"session_timeout_ms": 60_000, "heartbeat_interval_ms": 20_000}
    consumer = a_member(world, group_id=group_id, **times)
    read(world, consumer, 80)
    consumer.pause(T0, T1)
    poll_for(world, consumer, 59.0)
    lose(world, consumer)
    consumer.resume(T0, T1)

    status = poll_for(world, consumer, 4.0)

    assert re.search("no broker has been reachable for [34].. s", status.state), status.state
    assert status.healthy
    assert not poll_for(world, consumer, 8.0).healthy


def test_if_the_coordinator_is_gone_it_is_named_and_the_end_of_the_session_too(
    world: World,
) -> None:
    consumer = a_member(world, session_timeout_ms=6000, heartbeat_interval_ms=1000)
    read(world, consumer, 80)
    node = world.cluster.coordinator("g")
    lose(world, consumer, node)

    before = poll_for(world, consumer, 3.0)
    who = f"the coordinator (broker {node}, b{node}:9092) has not answered for "
    assert before.state.startswith(f"running, but {who}")
    assert before.why.startswith(f"Records can still be delivered, but {who}")
    assert "The session (6.0 s) is over in " in before.why
    assert "Not your code" in before.why

    after = poll_for(world, consumer, 5.0)
    assert after.why.startswith(f"Nothing is delivered: {who}")
    assert {one.waiting_for for one in after.partitions.values()} == {WaitingFor.SESSION}
    assert not poll_for(world, consumer, 5.0).healthy


def test_records_that_are_withheld_are_counted(world: World) -> None:
    consumer = a_member(world, session_timeout_ms=6000, heartbeat_interval_ms=1000)
    read(world, consumer, 80)
    world.cluster.drop_next("Heartbeat", times=100)
    poll_for(world, consumer, 7.0)
    world.cluster.produce("orders", 0, b"a", b"b", b"c")

    status = poll_for(world, consumer, 1.0)

    assert (
        "3 records are buffered and withheld, since the session (6.0 s) may be over" in status.why
    )
    assert "the coordinator" in status.why
    assert status.partitions[T0].waiting_for is WaitingFor.SESSION


def test_if_one_leader_is_gone_its_partition_says_so_and_the_other_does_not(world: World) -> None:
    consumer = a_reader(world)
    node = world.cluster.log("orders", 0).leader
    lose(world, consumer, node)

    status = poll_for(world, consumer, 4.0)

    first, second = status.partitions[T0], status.partitions[T1]
    assert first.waiting_for is WaitingFor.BROKER
    assert first.trouble.startswith(f"its leader (broker {node}, b{node}:9092) has not answered")
    assert second.waiting_for is WaitingFor.RECORDS
    assert "Nothing is delivered from orders-0 (1 of 2 partitions is not affected)" in status.why


def test_a_position_that_is_looked_up_in_vain_names_the_broker_that_was_asked(
    world: World,
) -> None:
    world.cluster.drop_next("ListOffsets", times=100)
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0])

    status = poll_for(world, consumer, 2.0)

    node = world.cluster.log("orders", 0).leader
    assert status.partitions[T0].waiting_for is WaitingFor.POSITION
    assert f"broker {node}, b{node}:9092" in status.why
    assert "ListOffsets" in status.why


def test_a_buffer_that_is_full_of_other_partitions_is_named_though_the_leader_is_not_asked(
    world: World,
) -> None:
    """What it has told last, that there is nothing new, is not true any more."""
    consumer = a_full_reader(world)
    world.sleep(0.5)

    status = consumer.status()

    waits = status.partitions[T1]
    assert waits.waiting_for is WaitingFor.BUFFER
    assert re.fullmatch(
        r"the buffer is full \(\d+ of 3000 bytes\) of other partitions' records", waits.because
    )
    assert status.partitions[T0].waiting_for is WaitingFor.FETCH
    assert status.healthy


@pytest.mark.parametrize(
    "limits",
    [
        {"max_buffered_bytes": 6000, "max_partition_fetch_bytes": 1000},  # of T0 there is enough
        {"max_buffered_bytes": 3000},  # there is no room for any partition
    ],
    ids=["crowded", "full"],
)
def test_what_was_read_and_not_told_by_a_poll_keeps_a_partition_from_being_fetched(
    world: World, limits: dict[str, int]
) -> None:
    """The application has taken all that was buffered, and works on it. That frees nothing before
    its next poll: until then nobody asks the leader, so that there is nothing new is not known."""
    consumer = world.consumer(auto_offset_reset="earliest", **limits)
    consumer.assign([T0, T1])
    read(world, consumer, 80)
    world.cluster.produce("orders", 0, *[b"x" * 1000] * 60)
    while consumer.status().partitions[T0].buffered_bytes < 2900:
        consumer.poll(timeout_ms=0, max_records=1)
        world.sleep(0.1)
    consumer.poll(timeout_ms=0, max_records=500)
    assert consumer.status().partitions[T0].buffered_bytes == 0
    world.cluster.produce("orders", 0, b"new")

    world.sleep(8.0)
    status = consumer.status()

    said = r"the application has not polled for 8\.\d s \(it is at scenarios/.*\)"
    assert re.search(said, status.why), status.why
    waits = status.partitions[T0]
    assert waits.waiting_for is WaitingFor.APPLICATION
    assert waits.because.endswith("; it is fetched after the next poll")
    assert (waits.lag, waits.lag_seconds) == (None, None), "nobody has asked for the new record"
    assert status.healthy, "it is no fault"
    read(world, consumer, 80)
    assert poll_for(world, consumer, 2.0).why.startswith("There is nothing new")


@pytest.mark.parametrize("how", ["poll", "iteration"])
def test_a_deserializer_that_takes_long_is_a_poll_that_has_not_returned(
    world: World, how: str
) -> None:
    said: list[str] = []

    def slow(data: bytes) -> bytes:
        world.sleep(4.0)
        said.append(consumer.why())
        return data

    world.cluster.produce("orders", 0, b"new")
    consumer = world.consumer(auto_offset_reset="earliest", value_deserializer=slow)
    consumer.assign([T0])
    read(world, consumer, 1) if how == "poll" else next(consumer)

    assert re.search(
        r"a poll of the application has not returned for 4\.\d s \(it is at scenarios/", said[0]
    ), said
    consumer.close()


def test_a_partition_whose_records_wait_behind_others_says_so_and_is_no_stall(
    world: World,
) -> None:
    """The application polls, and needs half a second for each record. Until the turn comes to the
    one record of T1, "it is being fetched" is not true."""
    consumer = world.consumer(auto_offset_reset="earliest", max_poll_records=1)
    consumer.assign([T0, T1])
    read(world, consumer, 80)
    world.cluster.fill("orders", 40)
    said = []
    for _ in range(60):
        consumer.poll(timeout_ms=100)
        world.sleep(0.5)
        said.append(consumer.status())

    waits = [one for one in said if one.partitions[T1].waiting_for is WaitingFor.TURN]
    assert waits
    for one in waits:
        assert "Some wait for their turn: orders-" in one.why
        assert one.why.startswith("Records are fetched and delivered: the last ones 0.")
        assert one.partitions[T1].because.endswith(", and come with one of the next polls")
        assert one.healthy
    assert not stalls(world, consumer)
    read(world, consumer, 80)
    assert poll_for(world, consumer, 2.0).why.startswith("There is nothing new")


def test_a_buffer_that_is_full_of_a_paused_partition_keeps_no_other_from_being_fetched(
    world: World,
) -> None:
    consumer = world.consumer(auto_offset_reset="earliest", max_buffered_bytes=3000)
    consumer.assign([T0])
    for _ in range(60):
        world.cluster.produce("orders", 0, b"x" * 40)
    consumer.poll(timeout_ms=1000, max_records=1)
    world.sleep(1.0)
    consumer.pause(T0)
    consumer.assign([T0, T1])
    assert len(read(world, consumer, 40)) == 40

    status = consumer.status()

    assert status.partitions[T0].buffered_bytes >= 2700
    assert status.partitions[T1].waiting_for is WaitingFor.RECORDS


def test_a_broker_that_nobody_has_needed_since_it_failed_is_not_said_to_be_down(
    world: World,
) -> None:
    """It failed while another partition was read from it."""
    consumer = a_reader(world)
    lost = world.cluster.log("orders", 1).leader
    lose(world, consumer, lost)
    assert f"b{lost}:9092" in poll_for(world, consumer, 3.0).why
    consumer.assign([T0])
    world.cluster.unreachable.clear()
    poll_for(world, consumer, 60.0)

    consumer.assign([T0, T1])

    for _ in range(50):
        assert consumer.status().healthy
        assert REFUSED not in consumer.why()
        world.sleep(0.001)
        consumer.poll(timeout_ms=0)
    assert poll_for(world, consumer, 1.0).partitions[T1].waiting_for is WaitingFor.RECORDS


def test_a_paused_partition_is_the_users_own_wish_and_no_fault(world: World) -> None:
    consumer = a_reader(world)
    world.cluster.fill("orders", 10)
    consumer.pause(T0, T1)

    status = poll_for(world, consumer, 20.0)

    assert {one.waiting_for for one in status.partitions.values()} == {WaitingFor.PAUSED}
    assert status.why == (
        "Nothing is delivered from orders-0, orders-1:"
        " the application has paused reading 20.0 s ago."
    )
    assert [round(one.waiting, 1) for one in status.partitions.values() if one.waiting] == [20, 20]
    assert status.state == "running"
    assert status.healthy


def test_each_record_that_an_iteration_hands_out_is_a_poll(world: World) -> None:
    consumer = a_member(world)
    next(consumer)
    for _ in range(3):
        world.sleep(0.9)
        next(consumer)
        world.sleep(0.3)

        status = consumer.status()
        assert status.last_record == status.last_poll == pytest.approx(0.3, abs=0.01)
        assert status.why.startswith("Records")


def test_an_application_that_does_not_poll_is_told_so_with_its_line(world: World) -> None:
    consumer = a_member(world)
    read(world, consumer, 80)
    world.cluster.fill("orders", 10)
    consumer.poll(timeout_ms=0)

    world.sleep(30.0)
    status = consumer.status()

    assert status.partitions[T0].waiting_for is WaitingFor.APPLICATION
    assert "the application has not polled for 30.0 s (it is at scenarios/" in status.why
    assert "the member leaves its group in 270 s" in status.why
    assert "Not your code" not in status.why
    assert status.alive

    world.sleep(290.0)
    assert not consumer.status().alive
    assert "the member has left its group" in consumer.why().lower()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_left_since_it_polled_late_says_so_when_it_polls_until_it_is_back(
    protocol: str,
) -> None:
    """At the moment of the poll it still has its partitions. No heartbeat is due, and however long
    the session is, its records are not given out any more."""
    seen: list[str] = []

    def works(_: Any, consumer: Any) -> None:
        sim.sleep(11.0)
        p = consumer._picture()
        seen.append(why(replace(p, application=replace(p.application, polled_at=p.now))))

    with Simulation(1) as sim:
        orders = sim.topic("orders", partitions=2)
        sim.trickle(orders, per_second=10, seconds=40.0)
        given = {"group_protocol": protocol, "max_poll_interval_ms": 6000}
        (bob,) = sim.consumers(group="g", topics=[orders], each=lambda config, _: config | given)
        sim.run(for_=10)
        bob.does_next = works
        sim.run(for_=20)
        back = bob.consumer.why()

    (said,) = seen
    assert re.match(
        r"Nothing is delivered: the member left its group [45]\.\d s ago, since the application had"
        r" not polled for max_poll_interval_ms\. ",
        said,
    )
    assert said.endswith("It joins again, now that the application polls.")
    assert "heartbeat" not in said
    assert "session" not in said
    assert back.startswith(("Records are fetched and delivered", "There is nothing new"))


def test_a_listener_that_does_not_return_is_named_with_its_line(world: World) -> None:
    seen: list[ConsumerStatus] = []

    class Slow(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is untyped
        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        def on_partitions_assigned(self, assigned: Any) -> None:
            world.sleep(4.0)
            seen.append(consumer.status())

    consumer = world.consumer(group_id="g", auto_offset_reset="earliest")
    consumer.subscribe(["orders"], listener=Slow())
    read(world, consumer, 80, within=20.0)

    status = seen[0]
    assert "the listener's on_partitions_assigned has not returned for 4.0 s" in status.why
    assert "scenarios/" in status.why
    assert {one.waiting_for for one in status.partitions.values()} == {WaitingFor.CALLBACK}


def test_without_a_subscription_it_says_so(world: World) -> None:
    consumer = world.consumer(group_id="g")

    assert consumer.why() == (
        "Nothing is delivered: nothing is subscribed to, and nothing is assigned."
    )


def test_a_topic_that_does_not_exist_is_named(world: World) -> None:
    consumer = world.consumer("oders", group_id="g")

    status = poll_for(world, consumer, 10.0)

    assert "no broker has known the topic 'oders'" in status.why
    assert status.waiting_for is WaitingFor.LEADER


@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_topic_with_an_error_that_this_client_does_not_know_is_named_with_the_code(
    world: World, group_id: str | None
) -> None:
    world.cluster.unwell["orders"] = 999
    consumer = a_member(world, group_id=group_id)

    status = poll_for(world, consumer, 5.0)

    told = r"the topic 'orders' has been refused for [45]\.\d s \(error code 999\)"
    assert re.search(told, status.why), status.why
    assert re.search(told, status.state), status.state
    assert "The metadata is asked for again and again." in status.why or group_id
    assert not poll_for(world, consumer, 8.0).healthy

    world.cluster.unwell.clear()
    assert len(read(world, consumer, 80, within=20.0)) == 80
    assert poll_for(world, consumer, 2.0).state == "running"


def test_a_member_that_waits_for_another_to_join_says_so(world: World) -> None:
    other = a_member(world)
    read(world, other, 80)
    consumer = a_member(world)  # the other one does not poll any more

    status = poll_for(world, consumer, 5.0)

    assert re.search(
        r"the coordinator \(broker \d, b\d:9092\) has not answered the member's JoinGroup for"
        r" \d\.\d s: it does when every member has joined\.",
        status.why,
    )
    assert status.waiting_for is WaitingFor.GROUP
    other.poll(timeout_ms=0)


@pytest.mark.parametrize(
    "error",
    [GroupAuthorizationFailedError, GroupMaxSizeReachedError, FencedInstanceIdError],
)
def test_who_is_refused_by_the_group_says_so_and_never_that_it_was_not_answered(
    world: World, error: type[Exception]
) -> None:
    consumer = a_member(world)
    read(world, consumer, 80)
    for api in ("Heartbeat", "JoinGroup"):
        world.cluster.fail_next(api, error, times=1000)

    for _ in range(10):
        status = poll_for(world, consumer, 1.0, raising=error)
        assert "not answered" not in status.why
        assert "which has not come" not in status.why

    (name,) = re.findall(r"the group has refused the member for \d+\.\d s: (\w+): ", status.why)
    assert name == error.message
    assert re.search(r"broker \d at b\d:9092", status.why)
    assert re.search(r"It joins again (in \d\.\d s|after the next poll|now)\.", status.why)
    assert status.waiting_for is WaitingFor.REFUSED
    assert status.alive


def test_a_coordinator_that_refuses_heartbeats_for_a_while_has_answered_them(world: World) -> None:
    consumer = a_member(world)
    read(world, consumer, 80)
    for api in ("Heartbeat", "FindCoordinator"):
        world.cluster.fail_next(api, CoordinatorLoadInProgressError, times=1000)

    poll_for(world, consumer, 7.0)

    for _ in range(20):
        said = poll_for(world, consumer, 0.5).why
        if "heartbeat" in said:
            assert re.search(r"has refused the member's heartbeats for \d+\.\d s", said)
            assert "last: COORDINATOR_LOAD_IN_PROGRESS" in said


def test_a_member_that_is_put_off_again_and_again_says_for_how_long(world: World) -> None:
    """Each of its steps is short."""
    world.cluster.fail_next("JoinGroup", CoordinatorLoadInProgressError, times=1000)
    consumer = a_member(world, session_timeout_ms=10_000)

    assert poll_for(world, consumer, 3.0).healthy
    status = poll_for(world, consumer, 12.0)

    assert "(COORDINATOR_LOAD_IN_PROGRESS)" in status.why
    assert re.search(r"it has been rebalancing for 1[45]\.\d s", status.why), status.why
    assert not status.healthy


def test_a_committed_offset_that_is_refused_says_with_what(world: World) -> None:
    world.cluster.fail_next("OffsetFetch", UnstableOffsetCommitError, times=1000)
    consumer = a_member(world)

    status = poll_for(world, consumer, 5.0)

    assert "the look-up of its committed offset began" in status.why
    assert "UnstableOffsetCommit" in status.why


def test_a_position_that_cannot_be_found_says_with_which_error(world: World) -> None:
    world.cluster.fail_next("OffsetFetch", TopicAuthorizationFailedError, times=1000)
    consumer = a_member(world)

    status = poll_for(world, consumer, 5.0, raising=TopicAuthorizationFailedError)

    assert re.search(r"the look-up of its committed offset began [45]\.\d s ago", status.why)
    assert "TopicAuthorizationFailedError: OffsetFetch for the topic 'orders'" in status.why
    told = world.host(consumer).named("delivery.stalled")
    found = (
        "no position has been found for 1.0 s: TopicAuthorizationFailedError: OffsetFetch for the"
    )
    assert {one["because"].partition(" topic")[0] for one in told} == {found}


def test_a_leader_that_refuses_each_fetch_as_a_whole_is_named(world: World) -> None:
    consumer = a_reader(world)
    world.cluster.fail_next("Fetch", UnknownError, times=1000)
    world.cluster.fill("orders", 10)

    status = poll_for(world, consumer, 5.0, raising=UnknownError)

    told = (
        r"its leader \(broker \d, b\d:9092\) has refused every Fetch for [45]\.\d s: UnknownError"
    )
    assert re.search(told, status.why), status.why
    assert {one.waiting_for for one in status.partitions.values()} == {WaitingFor.REFUSED}


def test_who_waits_in_a_commit_is_not_said_to_be_fetched_nor_to_wait_in_a_poll(
    world: World,
) -> None:
    consumer = world.consumer(group_id="g", auto_offset_reset="earliest", max_poll_records=1)
    consumer.assign([T0])
    assert len(read(world, consumer, 10)) == 10
    world.cluster.drop_next("OffsetCommit", times=1000)
    said: list[ConsumerStatus] = []
    world.after(2.0, lambda: said.append(consumer.status()))

    with pytest.raises(KafkaTimeoutError):
        consumer.commit(timeout_ms=4000)

    (status,) = said
    assert "the application waits in commit, and has not polled for " in status.why
    assert WaitingFor.APPLICATION in {one.waiting_for for one in status.partitions.values()}
    assert WaitingFor.FETCH not in {one.waiting_for for one in status.partitions.values()}
    assert "a poll is waiting" not in status.why


@pytest.mark.parametrize("error", [TopicAuthorizationFailedError, GroupAuthorizationFailedError])
def test_while_commits_are_refused_it_says_so_though_records_are_delivered(
    world: World, error: type[Exception]
) -> None:
    consumer = a_member(world, auto_commit_interval_ms=1000)
    world.cluster.fail_next("OffsetCommit", error, times=10)
    assert len(read(world, consumer, 80)) == 80

    status = poll_for(world, consumer, 8.0)

    said = re.search(
        r"Commits have failed for (\d+\.\d) s \((\d+) attempts, the last \d\.\d s ago\): (\w+): ",
        status.why,
    )
    assert said is not None, status.why
    assert status.why.startswith("There is nothing new")
    assert 6.0 < float(said[1]) < 9.0
    assert 6 <= int(said[2]) <= 9
    assert said[3] == error.__name__
    assert status.state.startswith("running, but commits have failed for ")
    assert status.commit_failing is not None
    assert error.__name__ in status.commit_error
    assert status.last_commit is None

    status = poll_for(world, consumer, 5.0)

    assert "ommit" not in status.why
    assert (status.state, status.commit_failing, status.commit_error) == ("running", None, "")
    assert status.last_commit is not None


def test_a_commit_that_waits_and_is_sent_again_says_how_its_attempts_end(world: World) -> None:
    consumer = world.consumer(group_id="g", auto_offset_reset="earliest", max_poll_records=1)
    consumer.assign([T0])
    assert len(read(world, consumer, 10)) == 10
    world.cluster.fail_next("OffsetCommit", CoordinatorLoadInProgressError, times=1000)
    said: list[str] = []
    world.after(3.0, lambda: said.append(consumer.why()))

    with pytest.raises(KafkaTimeoutError):
        consumer.commit(timeout_ms=4000)

    assert "the application waits in commit" in said[0]
    assert re.search(r"Commits have failed for \d\.\d s \(\d+ attempts, .* ago\): ", said[0])
    assert "COORDINATOR_LOAD_IN_PROGRESS" in said[0]


def test_an_application_whose_polls_raise_has_polled(world: World) -> None:
    consumer = a_member(world, value_deserializer=int)
    for _ in range(30):
        with contextlib.suppress(RecordDeserializationError):
            consumer.poll(timeout_ms=100)
        world.sleep(0.2)

    said = consumer.why()
    assert "has not polled" not in said
    assert "Not your code" not in said
    assert "Your own code has raised it." in said
    assert ".." not in said


def test_a_topic_that_does_not_exist_is_named_though_another_is_read(world: World) -> None:
    consumer = world.consumer("orders", "oders", group_id="g", auto_offset_reset="earliest")
    read_all = poll_for(world, consumer, 10.0)

    assert read_all.why.startswith("There is nothing new")
    # (The last poll, of 0.1 s, may begin just before these 10 s are over.)
    assert re.search(r"No broker has known the topic 'oders' for 10\.[01] s\.", read_all.why)
    assert read_all.state.startswith("running, but no broker has known the topic 'oders'")
    assert not poll_for(world, consumer, 1.0).healthy


def test_a_topic_is_not_said_to_be_missing_before_an_answer_has_said_so(world: World) -> None:
    consumer = world.consumer(group_id=None)
    consumer.assign([T0])
    assigned = consumer.status()
    consumer.unsubscribe()
    consumer.subscribe(["orders"])
    subscribed = consumer.status()

    for status in (assigned, subscribed):
        assert "knows the topic" not in status.why
        assert status.state == "running"
        assert status.healthy


def test_partitions_that_are_assigned_and_not_polled_wait_for_the_poll(world: World) -> None:
    consumer = world.consumer(group_id=None)
    consumer.assign([T0])
    world.sleep(3.0)

    assert consumer.status().partitions[T0].waiting_for is WaitingFor.APPLICATION
    assert "the application has not polled yet" in consumer.why()


def test_a_pattern_that_matches_nothing_is_said_so_and_is_no_fault(world: World) -> None:
    consumer = world.consumer(group_id="g")
    consumer.subscribe(pattern="zz.*")
    status = poll_for(world, consumer, 60.0)

    assert "matches the pattern 'zz.*'" in status.why
    assert status.waiting_for is WaitingFor.LEADER
    assert status.state == "running"
    assert status.healthy


def test_before_the_first_poll_it_says_what_the_member_waits_for(world: World) -> None:
    consumer = a_member(world)
    world.sleep(3.0)

    assert "for the next poll, by which it joins its group" in consumer.why()


def test_after_close_and_at_any_time_it_answers(world: World) -> None:
    consumer = a_reader(world)
    consumer.close()

    status = consumer.status()
    assert status.why == "Nothing is delivered: the consumer is closed."
    assert not status.alive
    assert not status.healthy
    assert str(status)


def test_a_member_that_was_refused_once_says_when_it_joins_again_and_who_lets_it_wait(
    world: World,
) -> None:
    """It waits for a second; then the coordinator keeps its JoinGroup until it knows that the old
    member is gone. Nobody refuses it meanwhile."""
    consumer = a_member(world, heartbeat_interval_ms=1000)
    read(world, consumer, 80)
    world.cluster.fail_next("Heartbeat", GroupAuthorizationFailedError)
    world.cluster.drop_next("JoinGroup")
    said: list[tuple[float, str]] = []
    for _ in range(70):
        poll_for(world, consumer, 0.05, raising=GroupAuthorizationFailedError)
        said.append((world.now, consumer.why()))
    (failed,) = world.host(consumer).named("group.failed")

    refused = "the group has refused the member for "
    for when, one in said:
        at = when - failed["at"]
        if 0.2 < at < 0.8:
            left = re.search(r" It joins again in (\d\.\d) s\.", one)
            assert refused in one
            assert left is not None, one
            assert float(left[1]) == pytest.approx(1.0 - at, abs=0.2)
        if 1.2 < at < 1.8:
            assert refused in one
            assert "It joins again now." in one
        if at > 2.3:
            assert refused not in one
            assert re.search(
                r"the coordinator \(broker \d, .*\) has not answered the JoinGroup by which", one
            )
            assert re.search(r"; the group refused the member \d\.\d s ago: GROUP_AUTH", one)


def stalls(world: World, consumer: KafkaConsumer) -> list[tuple[str, str]]:
    """The stalls that were told: partition and reason."""
    told = world.host(consumer).named("delivery.stalled")
    return [(one["partition"], one["reason"]) for one in told]


def test_a_partition_is_not_stalled_while_its_buffered_records_are_delivered(
    world: World,
) -> None:
    consumer = world.consumer(auto_offset_reset="earliest", max_poll_records=1)
    consumer.assign([T0])
    assert consumer.poll(timeout_ms=1000)
    lose(world, consumer)
    for _ in range(8):
        world.sleep(0.5)
        assert consumer.poll(timeout_ms=0)
    status = consumer.status()

    assert stalls(world, consumer) == []
    assert status.why.startswith("Buffered records (")
    assert ") are still delivered, but no broker has been reachable for 4.0 s" in status.why


def test_a_partition_whose_leader_is_gone_is_stalled_once_and_resumes(world: World) -> None:
    consumer = a_reader(world)
    lose(world, consumer, world.cluster.log("orders", 0).leader)
    poll_for(world, consumer, 8.0)

    assert stalls(world, consumer) == [("orders-0", "broker")]
    (told,) = world.host(consumer).named("delivery.stalled")
    assert told["because"].startswith("its leader (broker ")
    assert world.host(consumer).named("delivery.resumed") == []

    world.cluster.unreachable.clear()
    world.cluster.fill("orders", 5)
    poll_for(world, consumer, 40.0)
    (resumed,) = world.host(consumer).named("delivery.resumed")
    assert (resumed["topic"], resumed["partition"]) == ("orders", "orders-0")
    assert 8.0 < resumed["seconds"] < 45.0


def test_a_stall_is_not_over_because_the_session_is_now_what_keeps_the_records_back(
    world: World,
) -> None:
    """The leader is down, and it is not known whether there is anything new; then the session may
    be over, too."""
    consumer = a_member(world, session_timeout_ms=6000, heartbeat_interval_ms=1000)
    read(world, consumer, 80)
    lose(world, consumer, world.cluster.log("orders", 0).leader)
    world.cluster.drop_next("Heartbeat", times=100)
    poll_for(world, consumer, 12.0)

    assert ("orders-0", "broker") in stalls(world, consumer)
    assert consumer.status().partitions[T0].waiting_for is WaitingFor.SESSION
    assert world.host(consumer).named("delivery.resumed") == []


def test_an_outage_is_one_warning_for_each_reason_however_many_partitions_are_stalled(
    world: World,
) -> None:
    world.cluster.create_topic("many", partitions=50)
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([TopicPartition("many", number) for number in range(50)])
    consumer.poll(timeout_ms=1000)
    lose(world, consumer)
    poll_for(world, consumer, 8.0)

    told = world.host(consumer).named("delivery.stalled")
    assert len({one["partition"] for one in told}) == 50
    warnings = [one for one in told if one["level"] == "warning"]
    assert len(warnings) <= 4
    assert sum(1 + one["others"] for one in warnings) == len(told)


def test_a_partition_that_waits_for_room_in_the_buffer_is_stalled_until_it_is_delivered(
    world: World,
) -> None:
    """It was never told: since when a buffer is full, the reason does not know."""
    consumer = a_member(world, max_buffered_bytes=6000, max_partition_fetch_bytes=5000)
    read(world, consumer, 80)
    for _ in range(200):
        world.cluster.produce("orders", 0, b"x" * 20)
    for _ in range(20):
        world.cluster.produce("orders", 1, b"x" * 1000)
    for _ in range(40):
        consumer.poll(timeout_ms=100, max_records=1)
        world.sleep(0.5)

    told = world.host(consumer).named("delivery.stalled")
    resumed = world.host(consumer).named("delivery.resumed")
    assert len(told) - len(resumed) in (0, 1)
    assert resumed
    for one in told:
        assert (one["reason"], one["level"]) == ("buffer full", "debug")
        assert "of 6000 bytes) of other partitions' records" in one["because"]
    are_true(world, consumer, within=2.1)


def are_true(world: World, consumer: KafkaConsumer, within: float = 1.1) -> list[float]:
    """Each stall that is over ended with the first record that was given out after it had begun,
    and began when the last one before it was, or later (`within`: the first look sees since when
    some reasons hold). Returns how long they were."""
    lengths = []
    for one in world.host(consumer).named("delivery.resumed"):
        assert one["because"] == "records were delivered"
        given = [
            event["at"] - event.get(key, 0.0)
            for event in world.host(consumer).named("records.delivered")
            for key in ("first_ago", "last_ago")
            if event["partition"] == one["partition"]
        ]
        ended = one["at"] - one["ended_ago"]
        began = ended - one["seconds"]
        assert not [at for at in given if began + 0.01 < at < ended - 0.01], one
        assert min(abs(at - ended) for at in given) < 0.01, one
        assert 0.0 <= began - max(at for at in given if at < began + 0.01) + 0.01 < within, one
        lengths.append(one["seconds"])
    return lengths


def test_a_stall_ends_with_the_first_record_though_the_partition_waits_again(
    world: World,
) -> None:
    """The application works for longer than a second on each poll, and is given records by each:
    whenever the watch looks it works."""
    world.cluster.fill("orders", 200)
    consumer = world.consumer(auto_offset_reset="earliest", max_poll_records=5)
    consumer.assign([T0])
    consumer.poll(timeout_ms=1000)
    for _ in range(8):
        world.sleep(2.3)
        assert consumer.poll(timeout_ms=1000)

    lengths = are_true(world, consumer)
    assert len(lengths) >= 6
    assert all(2.2 < one < 2.4 for one in lengths)


def test_a_stall_ends_with_the_first_record_of_an_iteration(world: World) -> None:
    """The application works for longer than a second on each record of an iteration."""
    world.cluster.fill("orders", 200)
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0])
    consumer.poll(timeout_ms=1000, max_records=1)
    for _, _ in zip(range(8), consumer, strict=False):
        world.sleep(2.3)
    consumer.poll(timeout_ms=0)

    lengths = are_true(world, consumer)
    assert len(lengths) >= 5
    assert all(2.2 < one < 2.4 for one in lengths)


def test_a_fault_that_follows_another_counts_from_the_first(world: World) -> None:
    """The leader does not answer, and then there is none."""
    consumer = a_reader(world)
    leader = world.cluster.log("orders", 0).leader
    lose(world, consumer, leader)
    poll_for(world, consumer, 7.0)
    before = consumer.status().partitions[T0]
    assert before.waiting_for is WaitingFor.BROKER
    world.cluster.forbidden.add("orders")
    poll_for(world, consumer, 8.0, raising=TopicAuthorizationFailedError)

    status = consumer.status()
    now = status.partitions[T0]
    assert now.waiting_for is WaitingFor.REFUSED
    assert before.waiting is not None
    assert now.waiting is not None
    assert now.waiting > before.waiting + 7.9
    assert now.because.startswith("nothing has come for 1")
    assert not status.healthy
    assert "nothing has come for" in consumer.why()


def test_after_a_look_that_failed_there_is_another_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with too little memory had no watch for the rest of its life; and the next fault
    that lasted for a moment was said to last since the one that the watch had seen last."""

    def of_partitions(p: Picture) -> Any:
        if fails:
            raise MemoryError
        return reasons(p)

    fails, reasons = False, watch.of_partitions
    monkeypatch.setattr(watch, "of_partitions", of_partitions)
    consumer = a_reader(world)
    lose(world, consumer)
    poll_for(world, consumer, 7.0)
    fails = True
    poll_for(world, consumer, 3.0)
    world.cluster.unreachable.clear()
    poll_for(world, consumer, 10.0)
    lose(world, consumer)
    poll_for(world, consumer, 2.0)

    assert len(world.host(consumer).named("watch.failed")) == 1
    for one in consumer.status().partitions.values():
        assert one.waiting_for is WaitingFor.BROKER
        assert one.waiting is not None
        assert one.waiting <= 4.0, "not since the first one"
    world.cluster.unreachable.clear()
    fails = False
    poll_for(world, consumer, 50.0)
    assert len(stalls(world, consumer)) == len(world.host(consumer).named("delivery.resumed"))


def test_a_stall_that_goes_on_for_another_reason_is_told_again(world: World) -> None:
    consumer = a_reader(world)
    lose(world, consumer, world.cluster.log("orders", 0).leader)
    poll_for(world, consumer, 8.0)
    world.cluster.unreachable.clear()
    world.cluster.forbidden.add("orders")
    poll_for(world, consumer, 40.0, raising=TopicAuthorizationFailedError)

    told = [one for one in stalls(world, consumer) if one[0] == "orders-0"]
    assert told == [("orders-0", "broker"), ("orders-0", "refused")]
    assert world.host(consumer).named("delivery.resumed") == []
    first, *_, last = (
        one
        for one in world.host(consumer).named("delivery.stalled")
        if one["partition"] == "orders-0"
    )
    assert first["since"] == last["since"]
    assert "this principal has not been allowed to describe the topic" in last["because"]


def test_a_stall_is_not_over_while_the_position_is_checked_after_an_outage(world: World) -> None:
    consumer = a_reader(world)
    leader = world.cluster.log("orders", 0).leader
    lose(world, consumer, leader)
    poll_for(world, consumer, 8.0)
    world.cluster.move_leader("orders", 0)
    world.cluster.drop_next("OffsetForLeaderEpoch", times=2)
    poll_for(world, consumer, 6.0)

    assert ("orders-0", "position") in stalls(world, consumer)
    assert [
        one
        for one in world.host(consumer).named("delivery.resumed")
        if one["partition"] == "orders-0"
    ] == []


def test_records_that_an_unconfirmed_session_withholds_are_stalled(world: World) -> None:
    consumer = a_member(world, session_timeout_ms=6000, heartbeat_interval_ms=1000)
    read(world, consumer, 80)
    world.cluster.drop_next("Heartbeat", times=100)
    poll_for(world, consumer, 7.0)
    world.cluster.produce("orders", 0, b"a")
    poll_for(world, consumer, 3.0)

    assert stalls(world, consumer) == [("orders-0", "session unconfirmed")]
    late = world.host(consumer).named("heartbeat.late")
    assert late
    assert all(1.0 <= one["seconds"] < 2.2 for one in late), "each of them is told once"


def test_a_paused_partition_is_not_stalled_though_all_brokers_are_gone(world: World) -> None:
    consumer = a_reader(world)
    consumer.pause(T0)
    lose(world, consumer)
    poll_for(world, consumer, 8.0)

    assert stalls(world, consumer) == [("orders-1", "broker")]


def test_with_nothing_wrong_nothing_is_stalled(world: World) -> None:
    consumer = a_member(world)
    read(world, consumer, 80)
    consumer.pause(T0)
    world.cluster.fill("orders", 5)
    poll_for(world, consumer, 20.0)

    assert stalls(world, consumer) == []
    assert world.host(consumer).named("heartbeat.late") == []
    assert world.host(consumer).named("watch.failed") == []


def test_an_overdue_poll_is_told_with_the_stack_that_holds_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # (The background turns on the thread of the test: its own frames are the innermost ones.)
    monkeypatch.setattr(stack, "FRAMES_MAX", 16)
    consumer = a_member(world, max_poll_interval_ms=20_000)
    read(world, consumer, 80)
    world.sleep(15.0)

    (told,) = world.host(consumer).named("poll.overdue")
    assert 10.0 <= told["seconds"] < 14.0
    assert any(line.startswith("scenarios/test_present.py:") for line in told["stack"])
    assert len(told["stack"]) <= 16
    consumer.poll(timeout_ms=0)
    world.sleep(15.0)
    assert len(world.host(consumer).named("poll.overdue")) == 2


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_wall_clock_that_is_set_is_told_once_and_changes_nothing_else(
    world: World, step: float
) -> None:
    consumer = a_member(world)
    read(world, consumer, 80)
    dispatcher = world.host(consumer).dispatcher
    true = dispatcher.wall
    dispatcher.wall = lambda: true() + step

    status = poll_for(world, consumer, 20.0)

    (told,) = world.host(consumer).named("clock.set")
    assert told["seconds"] == pytest.approx(step, abs=0.1)
    assert (status.state, bool(status.healthy)) == ("running", True)
    assert world.host(consumer).named("poll.late") == []
    assert len(world.host(consumer).named("rebalance.triggered")) == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_was_fenced_says_so_until_it_is_back(protocol: str) -> None:
    """Its partitions are given up by the next poll. Until then they are not called delivered."""
    seen: list[str] = []

    def works(_: Any, consumer: Any) -> None:
        sim.brokers.expire("g", bob.name)
        sim.sleep(8.0)
        p = consumer._picture()
        seen.append(why(replace(p, application=replace(p.application, polled_at=p.now))))

    with Simulation(1) as sim:
        orders = sim.topic("orders", partitions=2)
        sim.trickle(orders, per_second=10, seconds=40.0)
        given: dict[str, Any] = {"group_protocol": protocol}
        given |= {"heartbeat_interval_ms": 1000} if protocol == "classic" else {}
        (bob,) = sim.consumers(group="g", topics=[orders], each=lambda config, _: config | given)
        sim.run(for_=10)
        bob.does_next = works
        sim.run(for_=20)
        back = bob.consumer.why()

    (said,) = seen
    assert re.match(
        r"Nothing is delivered: the group has fenced the member \d\.\d s ago \(UNKNOWN_MEMBER_ID\):"
        r" another one may own its partitions by now\. \d+ records are buffered and withheld, since"
        r" the member was fenced\. It joins again once a poll has given them up\.",
        said,
    )
    assert "heartbeat" not in said
    assert back.startswith(("Records are fetched and delivered", "There is nothing new"))


@pytest.mark.parametrize("group", ["g", None])
def test_who_subscribes_and_never_polls_is_not_alive_when_a_poll_is_overdue(
    world: World, group: str | None
) -> None:
    consumer = world.consumer(
        group_id=group, max_poll_interval_ms=10_000, session_timeout_ms=10_000
    )
    world.sleep(60.0)
    assert consumer.status().alive  # it reads nothing, and need not poll
    consumer.subscribe(["orders"])
    world.sleep(9.0)
    assert consumer.status().alive
    assert consumer.status().healthy
    world.sleep(2.0)

    said = consumer.status()

    late = "the application has not polled since it has subscribed, 11.0 s ago"
    assert said.alive.because == late
    assert said.healthy.because == said.alive.because
    consumer.poll(timeout_ms=100)
    assert consumer.status().alive
