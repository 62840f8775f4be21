"""A cluster behind sockets."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code
from aktor.broker.embedded import EmbeddedKafka
from aktor.broker.server import Clock, PortInUseError, Server
from aktor.broker.settings import ClusterSettings
from aktor.broker.topology import Node
from aktor.broker.wire import APIS
from tests.kafka.recorded.messages import request
from tests.unit.broker.clocks import StandingClock
from tests.unit.broker.raw_client import (
    PATIENCE,
    RawClient,
    eventually,
    fetch_frame,
    frame_of,
    produce_frame,
    versions_frame,
    works,
)
from tests.unit.leftovers import open_things

HALF = versions_frame()[:6]


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(topics=["orders"], seed=1) as running:
        yield running


@pytest.fixture
def client(kafka: EmbeddedKafka) -> Iterator[RawClient]:
    with RawClient(kafka.address(1)) as connected:
        yield connected


def is_inside(thread: threading.Thread, function: str) -> bool:
    """Whether a thread is somewhere in a function of this name."""
    innermost = sys._current_frames().get(thread.ident or 0)
    frames = traceback.walk_stack(innermost) if innermost else ()
    return any(frame.f_code.co_name == function for frame, _ in frames)


def bugs(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the server said of itself that nobody should ever read."""
    told = (record.getMessage() for record in caplog.records)
    return [text for text in told if "turn_failed" in text or "request_failed" in text]


# One connection.


def test_requests_that_come_at_once_are_answered_in_order(client: RawClient) -> None:
    client.send(*(versions_frame(number) for number in range(200)))

    assert [client.number() for _ in range(200)] == list(range(200))


def test_a_request_waits_for_the_answer_to_the_one_before(
    kafka: EmbeddedKafka, client: RawClient
) -> None:
    client.send(fetch_frame(wait=30.0, number=1), produce_frame(b"a", number=2))
    assert client.silent
    assert kafka.end_offset("orders") == 0

    with RawClient(kafka.address(1)) as other:
        other.send(produce_frame(b"b"))

        assert [client.number(), client.number()] == [1, 2]
    assert kafka.end_offset("orders") == 2


def test_a_request_may_come_byte_by_byte(client: RawClient) -> None:
    client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    for byte in versions_frame(9):
        client.send(bytes([byte]))

    assert client.number() == 9


def test_with_acks_0_there_is_no_answer_and_the_next_request_is_handled(
    kafka: EmbeddedKafka, client: RawClient
) -> None:
    client.send(produce_frame(b"a", acks=0, number=1), versions_frame(2))

    assert client.number() == 2
    assert kafka.end_offset("orders") == 1


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 100 * 1024 * 1024 + 1),
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 3) + b"abc",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, 3, 99, 1, -1),
        struct.pack(">ihhih", 10, 3, -1, 1, -1),
        struct.pack(">ihhih", 14, 12, 4, 1, 4) + b"\xff\xfe\xfd\xfc",
    ],
    ids=[
        "huge", "too large", "negative", "empty", "short", "http", "unknown api", "too new",
        "version below 0", "client id",
    ],
)  # fmt: skip
def test_what_is_no_request_ends_its_connection_and_no_other(
    kafka: EmbeddedKafka, client: RawClient, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with RawClient(kafka.address(1)) as bystander:
        client.send(data)
        assert client.closed

        bystander.send(versions_frame(5))
        assert bystander.number() == 5
    assert not bugs(caplog)


def test_a_client_is_known_by_its_address(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="aktor")

    client.send(struct.pack(">i", -1))
    assert client.closed

    told = [record.__dict__.get("aktor", {}) for record in caplog.records]
    assert {one["client"] for one in told if "client" in one} == {"127.0.0.1"}


def test_a_large_request_that_is_no_produce_is_refused(client: RawClient) -> None:
    size = 8 * 1024 * 1024 + 1
    whole = struct.pack(">ihhih", size, 3, 12, 1, -1) + bytes(size)

    with contextlib.suppress(ConnectionError):
        client.send(whole)

    assert client.closed


def test_a_large_produce_is_taken(kafka: EmbeddedKafka, client: RawClient) -> None:
    kafka.create_topic("large", configs={"max.message.bytes": "20000000"})

    client.send(produce_frame(b"x" * 10_000_000, topic="large"))
    answer = client.answer("Produce", 9)

    assert answer.responses[0].partition_responses[0].error_code == Code.NONE


def test_api_versions_in_a_version_of_the_future_is_answered(client: RawClient) -> None:
    client.send(struct.pack(">ihhih", 10, 18, 99, 4, -1))

    answer = client.answer("ApiVersions", 0)

    assert answer.error_code == Code.UNSUPPORTED_VERSION
    client.send(versions_frame(5))
    assert client.number() == 5


def test_who_stops_sending_is_still_read_by_nobody_else(kafka: EmbeddedKafka) -> None:
    with RawClient(kafka.address(1)) as client:
        client.send(fetch_frame(wait=30.0))
        client.sock.shutdown(socket.SHUT_WR)

        assert client.closed


# Many connections.


def test_a_half_sent_request_holds_up_nobody(kafka: EmbeddedKafka, client: RawClient) -> None:
    client.send(HALF)

    assert works(kafka.address(1))


def test_who_reads_no_answers_gets_no_more_requests_handled(
    kafka: EmbeddedKafka, client: RawClient
) -> None:
    with RawClient(kafka.address(1)) as writer:
        for _ in range(12):
            writer.send(produce_frame(b"x" * 1_000_000))
            writer.receive()

    client.send(*(fetch_frame(number=number) for number in range(30)), produce_frame(b"last"))
    assert works(kafka.address(1))
    assert client.sock.recv(1, socket.MSG_PEEK)
    assert kafka.end_offset("orders") == 12

    assert [client.number() for _ in range(30)] == list(range(30))
    assert client.answer("Produce", 9).responses[0].partition_responses[0].base_offset == 12


def test_who_sends_without_end_does_not_keep_others_waiting(kafka: EmbeddedKafka) -> None:
    stop = threading.Event()

    def flood() -> None:
        with RawClient(kafka.address(1)) as greedy:
            reader = threading.Thread(target=drain, args=(greedy,), daemon=True)
            reader.start()
            many = versions_frame() * 2000
            while not stop.is_set():
                greedy.send(many)
            greedy.sock.shutdown(socket.SHUT_WR)
            reader.join(PATIENCE)

    def drain(greedy: RawClient) -> None:
        while greedy.sock.recv(1 << 20):
            pass

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    try:
        with RawClient(kafka.address(1)) as client:
            waits = []
            for _ in range(20):
                start = time.process_time()  # a machine that does something else does not count
                client.send(versions_frame())
                client.receive()
                waits.append(time.process_time() - start)
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert sorted(waits)[10] < 0.25, "seconds that this process worked meanwhile"


def test_hundreds_of_idle_connections_harm_nobody(kafka: EmbeddedKafka) -> None:
    idle = [RawClient(kafka.address(1)) for _ in range(300)]
    for one in idle[::2]:
        one.send(HALF)

    assert works(kafka.address(1))
    assert eventually(lambda: kafka.disconnect() == 0)

    assert all(one.closed for one in idle)
    for one in idle:
        one.close()
    assert works(kafka.address(1))


def test_without_file_descriptors_the_server_waits_for_some_and_does_not_spin() -> None:
    program = textwrap.dedent("""
        import resource, sys, threading
        from aktor.broker.embedded import EmbeddedKafka
        with EmbeddedKafka(seed=1) as kafka:
            used = len(__import__("os").listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + 10, used + 10))
            print(kafka.address(1), flush=True)
            for line in sys.stdin:
                spent = resource.getrusage(resource.RUSAGE_SELF)
                print(spent.ru_utime + spent.ru_stime, flush=True)
    """)
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc here")
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def spent() -> float:
            print(file=process.stdin, flush=True)
            return float(process.stdout.readline())  # type: ignore[union-attr]

        address = process.stdout.readline().strip()
        clients = [RawClient(address) for _ in range(30)]
        spent()
        before = spent()
        time.sleep(0.4)
        assert spent() - before < 0.15

        for one in clients:
            one.close()
        assert works(address)
        process.stdin.close()


# Asking from outside.


def test_what_is_asked_runs_on_the_servers_thread(kafka: EmbeddedKafka) -> None:
    assert kafka.server.ask(lambda: threading.current_thread().name) == "aktor-broker"
    assert kafka.server.ask(lambda: kafka.server.ask(lambda: 5)) == 5


def test_what_is_raised_there_is_raised_here_and_the_server_goes_on(kafka: EmbeddedKafka) -> None:
    def fail() -> None:
        raise LookupError("no luck")

    with pytest.raises(LookupError, match="no luck"):
        kafka.server.ask(fail)

    assert works(kafka.address(1))


def test_many_may_ask_at_once(kafka: EmbeddedKafka) -> None:
    numbers: list[int] = []

    def count() -> None:
        for _ in range(50):
            kafka.server.ask(lambda: numbers.append(len(numbers)))

    threads = [threading.Thread(target=count) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE)

    assert numbers == list(range(400))


def test_whoever_asks_while_the_server_stops_is_answered_or_told() -> None:
    for _ in range(15):
        kafka = EmbeddedKafka(seed=1)
        kafka.start()
        server = kafka.server
        told = threading.Event()

        def ask_on(server: Server = server, told: threading.Event = told) -> None:
            try:
                while True:
                    server.ask(lambda: None)
            except RuntimeError:
                told.set()

        thread = threading.Thread(target=ask_on, daemon=True)
        thread.start()
        kafka.stop()

        assert told.wait(PATIENCE)
        thread.join(PATIENCE)


def test_what_was_asked_before_the_stop_is_done_though_its_turn_had_not_come() -> None:
    entered, release = threading.Event(), threading.Event()

    class Slow(Cluster):
        def tick(self, now: float) -> None:
            super().tick(now)
            entered.set()
            release.wait(PATIENCE)

    clock = Clock()
    settings = ClusterSettings(retention_check=0.01)
    cluster = Slow([Node(node_id=1)], now=clock(), rng=random.Random(1), settings=settings)
    server = Server(cluster, clock=clock)
    server.start()
    done: list[int] = []
    entered.wait(PATIENCE)
    threads = [
        threading.Thread(target=server.ask, args=(lambda: done.append(1),), daemon=True),
        threading.Thread(target=server.stop, daemon=True),
    ]
    for one, waits_in in zip(threads, ("result", "join"), strict=True):
        one.start()
        assert eventually(lambda one=one, waits_in=waits_in: is_inside(one, waits_in))
    release.set()
    for one in threads:
        one.join(PATIENCE)

    assert done == [1]
    assert not any(one.is_alive() for one in threads)


# Start and stop.


def a_server(*ports: int, host: str = "127.0.0.1") -> Server:
    nodes = [Node(node_id=node, port=port) for node, port in enumerate(ports, 1)]
    clock = Clock()
    return Server(Cluster(nodes, now=clock(), rng=random.Random(1)), clock=clock, host=host)


def test_after_stop_nothing_is_left() -> None:
    before = open_things()
    server = a_server(0, 0)
    server.start()
    address = f"127.0.0.1:{server.cluster.nodes[2].port}"
    with RawClient(address) as client:
        client.send(HALF)

        server.stop()

        assert client.closed
    assert open_things() - before == set()
    with pytest.raises(ConnectionRefusedError):
        RawClient(address)


def test_stopping_twice_and_from_two_threads_is_fine() -> None:
    server = a_server(0)
    server.stop()
    server.start()

    threads = [threading.Thread(target=server.stop) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE)
        assert not one.is_alive()
    server.stop()

    with pytest.raises(RuntimeError, match="not running"):
        server.ask(lambda: None)


def test_a_port_in_use_is_told_by_name_and_nothing_is_left() -> None:
    before = open_things()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = a_server(0, port)

        with pytest.raises(PortInUseError, match=f"broker 2 cannot listen on 127.0.0.1:{port}"):
            server.start()

    del server
    assert open_things() - before == set()


@pytest.mark.parametrize(
    ("port", "host", "why"), [(65536, "127.0.0.1", "65535"), (0, "203.0.113.1", "cannot listen on")]
)
def test_an_address_that_cannot_be_is_told_and_nothing_is_left(
    port: int, host: str, why: str
) -> None:
    before = open_things()

    with pytest.raises(PortInUseError, match=why):
        a_server(0 if host != "127.0.0.1" else port, host=host).start()

    assert open_things() - before == set()


# Time, and bugs.


class Leaping(Clock):
    """A clock that can be put forward."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0

    def __call__(self) -> float:
        return super().__call__() + self.ahead


def test_a_connection_that_nobody_uses_is_closed_and_one_that_waits_is_not() -> None:
    clock = Leaping()
    cluster = Cluster([Node(node_id=1)], now=clock(), rng=random.Random(1))
    cluster.create_topic("orders", 1)
    server = Server(cluster, clock=clock)
    server.start()
    address = f"127.0.0.1:{cluster.nodes[1].port}"
    leap = 700.0

    def put_forward(seconds: float) -> None:
        server.ask(lambda: setattr(clock, "ahead", clock.ahead + seconds))
        server.ask(lambda: None)

    with RawClient(address) as idle, RawClient(address) as waits:
        waits.send(versions_frame(), fetch_frame(wait=5000.0))
        waits.receive()  # so both were read
        idle.send(versions_frame())
        idle.receive()
        put_forward(leap)
        assert idle.closed

        with RawClient(address) as writer:
            writer.send(produce_frame(b"a"))
            assert waits.number() == 1
        put_forward(61.0)
        waits.send(versions_frame(5))
        assert waits.number() == 5
    server.stop()


def test_a_bug_that_repeats_neither_spins_nor_ends_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Cluster):
        def tick(self, now: float) -> None:
            raise ZeroDivisionError

    clock = Clock()
    settings = ClusterSettings(retention_check=0.001)
    cluster = Broken([Node(node_id=1)], now=clock(), rng=random.Random(1), settings=settings)
    server = Server(cluster, clock=clock)
    began = time.monotonic()
    server.start()

    time.sleep(0.2)
    assert works(f"127.0.0.1:{cluster.nodes[1].port}")
    server.stop()

    assert 1 <= len(bugs(caplog)) < 50 + 20 * (time.monotonic() - began)


# Brokers that stop, pause and come back.


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def three(clock: StandingClock) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, topics=["orders"], seed=1, clock=clock) as running:
        yield running


def refused(address: str) -> bool:
    try:
        RawClient(address).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_broker_that_stops_hangs_up_and_comes_back_at_the_same_address(
    three: EmbeddedKafka,
) -> None:
    address = three.address(1)
    with RawClient(address) as client:
        three.stop_broker(1)
        three.stop_broker(1)

        assert client.closed
        assert refused(address)
    assert three.leader("orders") == 2

    three.start_broker(1)
    three.start_broker(1)
    assert three.address(1) == address
    assert works(address)


def test_a_broker_that_was_killed_leads_until_the_others_give_it_up(
    three: EmbeddedKafka, clock: StandingClock
) -> None:
    three.kill_broker(1, session_timeout=9.0)

    assert refused(three.address(1))
    clock.put_forward(8.9, three, awake=2)
    assert three.leader("orders") == 1
    clock.put_forward(0.2, three, awake=2)
    assert three.leader("orders") == 2


def test_a_broker_that_is_paused_takes_connections_and_answers_nobody(
    three: EmbeddedKafka, clock: StandingClock
) -> None:
    with RawClient(three.address(1)) as waits, RawClient(three.address(1)) as asks:
        waits.send(versions_frame(), fetch_frame(wait=5.0))
        waits.receive()  # so both were read
        asks.send(versions_frame())
        asks.receive()
        three.pause_broker(1, session_timeout=30.0)
        three.pause_broker(1, session_timeout=30.0)

        asks.send(versions_frame())
        with RawClient(three.address(1)) as new:
            new.send(versions_frame(3))
            clock.put_forward(6.0, three, awake=2)
            assert waits.silent
            assert asks.silent
            assert new.silent

            three.resume_broker(1)
            three.resume_broker(1)

            assert new.number() == 3
        assert waits.closed
        assert asks.closed
    assert works(three.address(1))
    assert three.leader("orders") == 1


def test_a_broker_that_is_paused_for_long_is_given_up_and_follows_when_it_goes_on(
    three: EmbeddedKafka, clock: StandingClock
) -> None:
    three.pause_broker(1, session_timeout=9.0)
    clock.put_forward(9.1, three, awake=2)
    assert three.leader("orders") == 2

    three.resume_broker(1)

    assert works(three.address(1))
    partition = three.status()["topics"]["orders"]["partitions"][0]
    assert (partition["leader"], sorted(partition["isr"])) == (2, [1, 2, 3])


def test_a_pause_that_was_over_in_time_has_no_end_later(
    three: EmbeddedKafka, clock: StandingClock
) -> None:
    three.pause_broker(1, session_timeout=9.0)
    three.resume_broker(1)
    three.pause_broker(1, session_timeout=30.0)

    clock.put_forward(10.0, three, awake=2)

    assert three.leader("orders") == 1


def test_a_broker_that_is_paused_can_be_stopped_and_started(three: EmbeddedKafka) -> None:
    three.pause_broker(1, session_timeout=30.0)

    three.stop_broker(1)
    assert three.leader("orders") == 2
    three.start_broker(1)

    assert works(three.address(1))


def test_a_broker_that_is_stopped_cannot_be_paused(three: EmbeddedKafka) -> None:
    three.stop_broker(1)

    three.pause_broker(1)
    three.start_broker(1)

    assert works(three.address(1))


@pytest.mark.parametrize("goes", [EmbeddedKafka.stop_broker, EmbeddedKafka.kill_broker])
def test_nobody_else_is_given_the_port_of_a_broker_that_is_down(
    three: EmbeddedKafka, goes: Callable[[EmbeddedKafka, int], None]
) -> None:
    """Tests of another process start brokers at any ports that are free."""
    host, port = three.address(1).split(":")

    goes(three, 1)

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((host, int(port)))

    three.start_broker(1)
    assert works(three.address(1))


def test_a_broker_whose_port_was_taken_meanwhile_says_so_and_stays_down(
    three: EmbeddedKafka,
) -> None:
    host, port = three.address(1).split(":")
    three.stop_broker(1)

    with socket.create_server((host, int(port))), pytest.raises(PortInUseError):
        three.start_broker(1)
    assert not three.status()["brokers"][0]["up"]

    three.start_broker(1)
    assert works(three.address(1))


def test_who_waits_for_a_broker_is_told_when_the_leader_moves(three: EmbeddedKafka) -> None:
    with RawClient(three.address(1)) as client:
        three.hold_replica("orders", 0, 3)
        client.send(produce_frame(b"a"))
        assert client.silent

        three.move_leader("orders", to=2)

        answer = client.answer("Produce", 9)
    assert answer.responses[0].partition_responses[0].error_code == Code.NOT_LEADER_OR_FOLLOWER


# Whatever comes over the wire.


def mutated(rng: random.Random, frames: list[bytes]) -> bytes:
    """A request with a few bytes that are not what they were, or only some of it, or noise."""
    frame = bytearray(rng.choice(frames))
    match rng.randrange(6):
        case 0:
            return rng.randbytes(rng.randrange(1, 60))
        case 1:
            return bytes(frame[: rng.randrange(len(frame))])
        case 2:
            body = rng.randbytes(rng.randrange(1, 60))
            return struct.pack(">i", len(body)) + body
        case _:
            for _ in range(rng.randrange(1, 6)):
                place = rng.randrange(4 if rng.random() < 0.9 else 0, len(frame))
                frame[place] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
            return bytes(frame)


def typical_requests() -> list[bytes]:
    """One of each kind in some versions, filled where that matters."""
    frames = [
        produce_frame(b"a", b"b"),
        fetch_frame(),
        frame_of(request("Metadata", topics=[{"name": "orders"}]), 12),
        frame_of(request("FindCoordinator", coordinator_keys=["g", "h"]), 4),
        frame_of(
            request(
                "CreateTopics", topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}]
            ),
            7,
        ),
        frame_of(
            request(
                "JoinGroup",
                group_id="g",
                session_timeout_ms=1000,
                rebalance_timeout_ms=1000,
                protocol_type="consumer",
                protocols=[{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
            ),
            7,
        ),
        frame_of(
            request(
                "OffsetCommit",
                group_id="g",
                generation_id_or_member_epoch=-1,
                topics=[
                    {
                        "name": "orders",
                        "partitions": [{"partition_index": 0, "committed_offset": 1}],
                    }
                ],
            ),
            8,
        ),
        frame_of(request("OffsetFetch", group_id="g", topics=None), 7),
        frame_of(request("DeleteGroups", groups_names=["g"]), 2),
        frame_of(
            request(
                "ListOffsets",
                topics=[
                    {"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}
                ],
            ),
            9,
        ),
        frame_of(
            request("DescribeConfigs", resources=[{"resource_type": 2, "resource_name": "orders"}]),
            4,
        ),
        frame_of(request("ConsumerGroupHeartbeat", group_id="c", member_id="m", member_epoch=0), 0),
        frame_of(request("InitProducerId", transactional_id="t", transaction_timeout_ms=1000), 4),
    ]
    for api in APIS.values():
        for version in {max(api.min_version, 3 * (api.key == 0)), api.max_version}:
            frames.append(frame_of(api.request(), version))
    return frames


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("users", [None, {"alice": "secret"}], ids=["open", "users"])
def test_whatever_is_sent_the_server_goes_on(
    seed: int, users: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(seed)
    frames = typical_requests()
    with (
        EmbeddedKafka(topics=["orders"], seed=seed, users=users) as kafka,
        RawClient(kafka.address(1)) as bystander,
    ):
        for number in range(120):
            with RawClient(kafka.address(1)) as client:
                with contextlib.suppress(OSError):  # it may hang up at any byte
                    for _ in range(rng.randrange(1, 4)):
                        client.send(mutated(rng, frames))
                    client.sock.shutdown(socket.SHUT_WR)
                while client.receive():
                    pass
            bystander.send(versions_frame(number))
            assert bystander.number() == number
        kafka.status()
    assert not bugs(caplog), bugs(caplog)[0]
