"""A broker that hangs up at a version of ApiVersions is asked in an older one."""

from __future__ import annotations

import pytest

from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
)
from tests.unit.actors.sockets.net_client import Client
from tests.unit.actors.sockets.scripted_broker import (
    SPOKEN,
    Peer,
    ScriptedBroker,
    api_versions,
)


class HangsUp:
    """A script: close the connection at versions of ApiVersions above `known`, serve else."""

    def __init__(self, known: int) -> None:
        self.known = known
        self.asked: list[int] = []

    def __call__(self, peer: Peer) -> None:
        request = peer.read()
        self.asked.append(request.version)
        if request.version <= self.known:
            peer.answer(request, api_versions(request.version, SPOKEN | {18: self.known}))
            peer.serve()


@pytest.mark.parametrize(
    ("known", "asked"), [(4, [4]), (3, [4, 3]), (2, [4, 3, 0]), (0, [4, 3, 0])]
)
def test_a_broker_that_hangs_up_at_a_version_is_asked_in_an_older_one(
    known: int, asked: list[int]
) -> None:
    script = HangsUp(known)
    with ScriptedBroker(script) as broker, Client() as client:
        reports = [client.connect(broker.port) for _ in asked]

    assert script.asked == asked
    assert [type(report) for report in reports] == [
        *[ConnectionFailed] * (len(asked) - 1),
        ConnectionOpened,
    ]


def test_the_version_that_a_broker_answered_is_remembered_for_this_broker_only() -> None:
    old, new = HangsUp(3), HangsUp(4)
    with ScriptedBroker(old) as one, ScriptedBroker(new) as other, Client() as client:
        client.connect(one.port)
        for key in ("b", "c"):
            assert isinstance(client.connect(one.port, key=key), ConnectionOpened)
        assert isinstance(client.connect(other.port, key="d"), ConnectionOpened)

    assert (old.asked, new.asked) == ([4, 3, 3], [4])


def test_after_the_oldest_version_the_newest_is_asked_again() -> None:
    script = HangsUp(-1)
    with ScriptedBroker(script) as broker, Client() as client:
        errors = [str(client.connect(broker.port).error) for _ in range(4)]

    assert script.asked == [4, 3, 0, 4]
    assert all("api_version" in error and "expect TLS" in error for error in errors)
    assert "ApiVersions v4" in errors[0]
    assert "older than Kafka 0.10" in errors[2]


def test_an_old_api_version_of_the_settings_is_asked_in_no_newer_one() -> None:
    script = HangsUp(0)
    with (
        ScriptedBroker(script) as broker,
        Client(connection={"api_version": (1, 0)}) as client,
    ):
        assert isinstance(client.connect(broker.port), ConnectionFailed)
        assert isinstance(client.connect(broker.port), ConnectionOpened)

    assert script.asked == [1, 0]


def test_a_hang_up_after_the_versions_changes_nothing() -> None:
    asked: list[int] = []

    def script(peer: Peer) -> None:
        request = peer.read()
        asked.append(request.version)
        peer.answer(request, api_versions(request.version, SPOKEN | {18: 4}))

    with ScriptedBroker(script) as broker, Client() as client:
        for _ in range(2):
            assert isinstance(client.connect(broker.port), ConnectionOpened)
            assert isinstance(client.next(), ConnectionClosed)

    assert asked == [4, 4]
