"""Codecs that are written before they are needed."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import SyncGroupRequest, SyncGroupResponse

from aktor.actors.codecs import USED, codecs_to_write


def test_nothing_is_left_to_write_when_the_message_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for write in codecs_to_write(BrokerVersionData((4, 0))):
        write()

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("code was written at the first use")

    monkeypatch.setattr(builtins, "compile", refuse)
    SyncGroupRequest(group_id="g", generation_id=1, member_id="m", version=5).encode()
    answer = bytes([0, 0, 0, 0, 0, 0, 0, 0, 1, 0])
    assert SyncGroupResponse.decode(answer, version=5).error_code == 0


def test_a_broker_that_does_not_speak_a_message_leaves_it_out() -> None:
    assert len(codecs_to_write(BrokerVersionData((0, 8, 2)))) < len(USED)
    assert len(codecs_to_write(BrokerVersionData((4, 0)))) == len(USED)
