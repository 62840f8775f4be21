"""Codecs that are written before they are needed."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import SyncGroupRequest, SyncGroupResponse

from aktor.actors.sockets.codecs import Codecs, needed_later, needed_soon
from aktor.settings import Settings

NEWEST = BrokerVersionData((4, 0))


def planned(versions: BrokerVersionData, **settings: Any) -> Codecs:
    codecs = Codecs()
    codecs.plan(versions, Settings(**settings))
    return codecs


def test_nothing_is_left_to_write_when_the_message_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for write in planned(NEWEST, group_id="g").soon:
        write()

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("code was written at the first use")

    monkeypatch.setattr(builtins, "compile", refuse)
    SyncGroupRequest(group_id="g", generation_id=1, member_id="m", version=5).encode()
    answer = bytes([0, 0, 0, 0, 0, 0, 0, 0, 1, 0])
    assert SyncGroupResponse.decode(answer, version=5).error_code == 0


def test_a_consumer_without_a_group_has_no_use_for_the_messages_of_one() -> None:
    names = [request.__name__ for request, _ in needed_soon(Settings())]

    assert names == ["MetadataRequest", "ListOffsetsRequest"]
    assert not needed_later(Settings())


def test_each_group_protocol_has_messages_of_its_own() -> None:
    def names(protocol: str) -> set[str]:
        settings = Settings(group_id="g", group_protocol=protocol)
        used = (*needed_soon(settings), *needed_later(settings))
        return {request.__name__.removesuffix("Request") for request, _ in used}

    of_classic = {"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"}
    assert names("classic") - names("consumer") == of_classic
    assert names("consumer") - names("classic") == {"ConsumerGroupHeartbeat"}


def test_each_message_is_written_for_both_directions() -> None:
    assert len(planned(NEWEST).soon) == 2 * len(needed_soon(Settings()))


def test_a_broker_that_does_not_speak_a_message_leaves_it_out() -> None:
    old = planned(BrokerVersionData((0, 8, 2)), group_id="g")

    assert len(old.soon) < len(planned(NEWEST, group_id="g").soon)
