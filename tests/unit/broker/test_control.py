"""The control port: what a cluster does when it is told by HTTP, and what it refuses."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from kafka.protocol.consumer import JoinGroupRequest

from aktor.broker.call import Call
from aktor.broker.codes import Code
from aktor.broker.commands import COMMANDS, CommandError, execute
from aktor.broker.control import ControlPort
from aktor.broker.embedded import EmbeddedKafka
from aktor.broker.faults import Action, Delay, FailWith, Fault
from aktor.broker.server import PortInUseError


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, topics={"orders": 2}, seed=1) as kafka:
        yield kafka


@pytest.fixture
def control(kafka: EmbeddedKafka) -> Iterator[ControlPort]:
    with ControlPort(kafka) as control:
        yield control


def say(kafka: EmbeddedKafka, command: str, body: Any = None) -> Any:
    """The answer to "POST /faults"."""
    method, path = command.split(" ", 1)
    return execute(kafka, method, path, b"" if body is None else json.dumps(body).encode())


def ask(
    control: ControlPort,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, Any]:
    """HTTP status and JSON of the answer."""
    host = control.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        assert answer.getheader("Content-Type") == "application/json"
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def speak(control: ControlPort, sent: bytes) -> bytes:
    """What comes back for these bytes until the connection is closed."""
    host, port = control.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(4096), b""))


def a_member(kafka: EmbeddedKafka, group: str) -> str:
    """Let somebody join this group; the member's id."""
    cluster = kafka.server.cluster
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[protocol],
    )

    def join() -> None:
        call = Call(request, answer=lambda _: None, version=3, now=cluster.now, client_id="me")
        cluster.groups.handle_join_group(call)

    kafka.server.ask(join)
    (member,) = kafka.members(group)
    return member


# -- what it is told


def test_the_status_shows_brokers_topics_groups_and_faults(kafka: EmbeddedKafka) -> None:
    kafka.move_coordinator("billing", 3)
    member = a_member(kafka, "billing")
    kafka.inject(Fault(api="Fetch", action=Delay(1.5)))

    status = say(kafka, "GET /status")

    assert [one["id"] for one in status["brokers"]] == [1, 2, 3]
    assert status["brokers"][1] == {
        "id": 2,
        "address": kafka.address(2),
        "rack": None,
        "up": True,
    }
    assert list(status["topics"]) == ["orders"]
    assert status["topics"]["orders"]["partitions"][1] == {
        "partition": 1,
        "leader": 2,
        "leader_epoch": 0,
        "replicas": [2, 3, 1],
        "isr": [2, 3, 1],
        "start_offset": 0,
        "high_watermark": 0,
        "last_stable_offset": 0,
        "end_offset": 0,
    }
    assert status["groups"]["billing"]["coordinator"] == 3
    assert status["groups"]["billing"]["members"] == [
        {"id": member, "instance_id": None, "client_id": "me"}
    ]
    assert status["faults"]["1"]["action"] == {"type": "Delay", "seconds": 1.5}


def test_a_fault_is_put_in_force_and_taken_back(kafka: EmbeddedKafka) -> None:
    fault = {"api": "Fetch", "action": {"type": "FailWith", "code": "NOT_LEADER_OR_FOLLOWER"}}

    assert list(say(kafka, "POST /faults", fault)) == ["1"]
    assert list(say(kafka, "POST /faults", {"action": "Swallow"})) == ["1", "2"]
    assert kafka.faults()[1] == Fault(api="Fetch", action=FailWith(Code.NOT_LEADER_OR_FOLLOWER))

    assert list(say(kafka, "DELETE /faults/1")) == ["2"]
    assert say(kafka, "DELETE /faults") == say(kafka, "GET /faults") == {}


@pytest.mark.parametrize(("down", "up"), [("stop", "start"), ("kill", "start")])
def test_a_broker_goes_and_comes_back(kafka: EmbeddedKafka, down: str, up: str) -> None:
    host, port = kafka.address(2).split(":")

    say(kafka, f"POST /brokers/2/{down}")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=30)

    assert all(one["up"] for one in say(kafka, f"POST /brokers/2/{up}"))
    socket.create_connection((host, int(port)), timeout=30).close()


def test_a_broker_that_was_stopped_leads_nothing(kafka: EmbeddedKafka) -> None:
    brokers = say(kafka, "POST /brokers/2/stop")

    assert [one["up"] for one in brokers] == [True, False, True]
    assert kafka.leader("orders", 1) == 3


def test_a_broker_that_was_killed_leads_until_its_session_is_over(kafka: EmbeddedKafka) -> None:
    say(kafka, "POST /brokers/2/kill", {"session_timeout": 1000})

    assert kafka.leader("orders", 1) == 2


def test_a_broker_is_paused_and_goes_on(kafka: EmbeddedKafka) -> None:
    host, port = kafka.address(2).split(":")

    say(kafka, "POST /brokers/2/pause", {"session_timeout": 1000})
    with socket.create_connection((host, int(port)), timeout=30) as client:
        say(kafka, "POST /brokers/2/resume")
        client.sendall(b"\0\0\0\x01!")  # no request: who is awake hangs up
        assert client.recv(1) == b""


def test_topics_are_made_grown_and_deleted(kafka: EmbeddedKafka) -> None:
    made = say(
        kafka,
        "POST /topics",
        {"name": "new", "replication_factor": 2, "configs": {"retention.ms": "1000"}},
    )
    assert len(made["partitions"]) == 1
    assert len(made["partitions"][0]["replicas"]) == 2
    assert made["configs"] == {"retention.ms": "1000"}

    assert len(say(kafka, "POST /topics/new/partitions", {"count": 3})["partitions"]) == 3
    say(kafka, "DELETE /topics/new")
    assert list(kafka.status()["topics"]) == ["orders"]


def test_leaders_and_coordinators_move(kafka: EmbeddedKafka) -> None:
    move = "POST /topics/orders/partitions/0/move-leader"
    assert say(kafka, move, {"to": 3}) == {"leader": 3}
    assert kafka.leader("orders") == 3
    assert say(kafka, move)["leader"] != 3

    assert say(kafka, "POST /groups/a%2Fb/move-coordinator", {"to": 2}) == {"coordinator": 2}
    assert kafka.coordinator("a/b") == 2


def test_a_follower_that_is_held_back_loses_what_it_does_not_have(kafka: EmbeddedKafka) -> None:
    say(kafka, "POST /topics/orders/partitions/0/hold-replica", {"broker": 2})
    say(kafka, "POST /topics/orders/partitions/0/release-replica", {"broker": 2})

    unclean = {"to": 2, "unclean": True}
    assert say(kafka, "POST /topics/orders/partitions/0/move-leader", unclean) == {"leader": 2}


def test_a_members_session_expires_by_command(kafka: EmbeddedKafka) -> None:
    member = a_member(kafka, "billing")

    say(kafka, f"POST /groups/billing/members/{member}/expire")

    assert kafka.members("billing") == []


def test_connections_are_broken(kafka: EmbeddedKafka) -> None:
    host, port = kafka.address(1).split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        while say(kafka, "POST /disconnect") == {"disconnected": 0}:
            pass  # it is not accepted yet
        assert client.recv(1) == b""


def test_the_usage_lists_every_command(kafka: EmbeddedKafka) -> None:
    listed = say(kafka, "GET /")

    assert set(listed) == {f"{one.method} {one.path}" for one in COMMANDS} - {"GET /"}
    assert all(listed.values())


def test_the_faults_of_the_document_can_be_put_in_force(kafka: EmbeddedKafka) -> None:
    document = (Path(__file__).parents[3] / "docs" / "embedded.md").read_text()
    actions = re.findall(r"`(\{\"type\".*?\})`", document)

    for action in actions:
        say(kafka, "POST /faults", {"action": json.loads(action)})

    documented = {type(fault.action) for fault in kafka.faults().values()}
    assert documented == set(get_args(Action))


# -- what it refuses


@pytest.mark.parametrize(
    ("command", "body", "status", "says"),
    [
        ("GET /nothing", None, 404, "there is no /nothing; GET / lists what there is"),
        ("GET /status/", None, 404, "there is no /status/"),
        ("PUT /faults", None, 405, "/faults has GET, POST, DELETE, not PUT"),
        ("GET /status?verbose=1", None, 400, "values belong into the JSON body"),
        ("GET /status", {"verbose": True}, 400, "there is no field 'verbose' here"),
        ("POST /faults", {"api": "Fecth", "action": "Drop"}, 400, "did you mean 'Fetch'?"),
        ("POST /faults", {"api": "Fetch"}, 400, "a fault needs an action"),
        ("POST /faults", [1], 400, "a fault must be a JSON object, not [1]"),
        ("DELETE /faults/7", None, 400, "there is no fault 7, or it is used up"),
        ("DELETE /faults/x", None, 400, "fault must be a number, not 'x'"),
        ("POST /brokers/9/stop", None, 400, "there is no broker 9; there are 1, 2, 3"),
        ("POST /brokers/9/kill", None, 400, "there is no broker 9; there are 1, 2, 3"),
        ("POST /brokers/1/stop", [], 400, "the body must be a JSON object with no fields"),
        ("POST /brokers/1/kill", {"session_timeout": -1}, 400, "must be some seconds, not -1"),
        ("POST /brokers/1/kill", {"session_timeout": "9"}, 400, 'must be of type float, not "9"'),
        ("POST /topics", {}, 400, "name must be of type str, not null"),
        ("POST /topics", {"name": "orders"}, 400, "topic 'orders' exists already"),
        ("POST /topics", {"name": "or ders"}, 400, "Topic name is invalid"),
        ("POST /topics", {"name": "n", "partitions": True}, 400, "must be of type int, not true"),
        ("POST /topics", {"name": "n", "partitions": 0}, 400, "has 1 to 10000 partitions, not 0"),
        ("POST /topics", {"name": "n", "partitions": 10**9}, 400, "has 1 to 10000 partitions"),
        ("POST /topics", {"name": "n", "replication_factor": 0}, 400, "at least 1 replica, not 0"),
        ("POST /topics", {"name": "n", "replication_factor": 4}, 400, "only 3 broker(s)"),
        ("POST /topics", {"name": "n", "configs": {"x": "1"}}, 400, "Unknown topic config name"),
        ("POST /topics", {"name": "n", "configs": {"retention.ms": 1}}, 400, "must be a string"),
        ("DELETE /topics/nope", None, 400, "there is no topic 'nope'"),
        ("POST /topics/orders/partitions", {"count": 1}, 400, "has 2 partitions already"),
        ("POST /topics/orders/partitions/7/move-leader", None, 400, "no partition orders-7"),
        ("POST /topics/orders/partitions/x/move-leader", None, 400, "must be a number, not 'x'"),
        ("POST /topics/orders/partitions/0/move-leader", {"to": 9}, 400, "broker 9 cannot lead"),
        ("POST /groups/g/move-coordinator", {"to": "2"}, 400, 'must be of type int, not "2"'),
        ("POST /groups/g/members/m/expire", None, 400, "Group g not found"),
        ("POST /groups/g/members/m/fence", None, 400, "Group g not found"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    kafka: EmbeddedKafka, command: str, body: Any, status: int, says: str
) -> None:
    with pytest.raises(CommandError) as refused:
        say(kafka, command, body)

    assert refused.value.status == status
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 60_000, b"1" * 5000, b"{} {}"])
def test_what_is_no_json_is_refused(kafka: EmbeddedKafka, body: bytes) -> None:
    with pytest.raises(CommandError) as refused:
        execute(kafka, "POST", "/faults", body)

    assert refused.value.status == 400


def test_a_stopped_cluster_says_so() -> None:
    with pytest.raises(CommandError) as refused:
        say(EmbeddedKafka(), "GET /status")

    assert refused.value.status == 503


# -- over HTTP


def test_commands_come_by_http(control: ControlPort, kafka: EmbeddedKafka) -> None:
    assert ask(control, "GET", "/status") == (200, kafka.status())
    assert ask(control, "POST", "/faults", b'{"action": "Drop"}')[0] == 200
    assert len(kafka.faults()) == 1
    assert ask(control, "DELETE", "/faults") == (200, {})


def test_refusals_are_json_too(control: ControlPort) -> None:
    status, answer = ask(control, "PATCH", "/status")
    assert (status, answer) == (405, {"error": "/status has GET, not PATCH"})

    status, answer = ask(control, "BREW", "/coffee")
    assert status == 501
    assert set(answer) == {"error"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
        {"Host": "elsewhere.example"},
        {"Host": "elsewhere.example:80"},
    ],
)
def test_web_pages_are_refused(control: ControlPort, headers: dict[str, str]) -> None:
    status, answer = ask(control, "POST", "/disconnect", headers=headers)

    assert status == 403
    assert set(answer) == {"error"}


@pytest.mark.parametrize("size", [70_000, 3_000_000])
def test_a_body_that_is_too_large_is_refused(control: ControlPort, size: int) -> None:
    try:
        status, answer = ask(control, "POST", "/faults", b" " * size)
    except ConnectionError:
        assert size > 1_000_000  # of which not all was read
    else:
        assert (status, answer["error"]) == (
            413,
            f"the body has {size} bytes, at most 65536 may be",
        )


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"no http\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"431"),
        (b"POST /faults HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /faults HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n", b"400"),
        (b"POST /faults HTTP/1.1\r\nContent-Length: 10\r\n\r\n{}", b"400"),
        (b"POST /faults HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
    ],
)
def test_it_survives_what_is_no_request(
    control: ControlPort, capfd: pytest.CaptureFixture[str], sent: bytes, status: bytes
) -> None:
    answer = speak(control, sent)

    assert status in answer[:200]
    assert b"Traceback" not in answer
    assert ask(control, "GET", "/faults") == (200, {})
    assert capfd.readouterr() == ("", "")


def test_a_client_that_says_nothing_holds_up_nobody(control: ControlPort) -> None:
    host, port = control.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30):
        assert ask(control, "GET", "/faults") == (200, {})


def test_the_port_is_closed_when_it_is_stopped(kafka: EmbeddedKafka) -> None:
    control = ControlPort(kafka)
    control.start()
    host, port = control.url.removeprefix("http://").split(":")

    with pytest.raises(PortInUseError, match=f"the control port cannot listen on {host}:{port}"):
        ControlPort(kafka, int(port)).start()
    control.stop()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=30)
    control.stop()
