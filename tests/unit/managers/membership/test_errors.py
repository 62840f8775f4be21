"""Refusals of a member, in either group protocol, as the application reads them."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError, UnsupportedVersionError

from aktor.events.metadata import Broker
from aktor.managers.membership.errors import refusal
from aktor.protocol.error_codes import Answer
from aktor.settings import Settings

BROKER = Broker(node_id=1, host="b1", port=9092)


def a_refusal(error: type[Exception], message: str = "", regex: str = "", **settings: Any) -> str:
    made = refusal(
        error,
        Answer.CONSUMER_JOIN,
        settings=Settings(group_id="g", **settings),
        coordinator=BROKER,
        member="alice",
        error_message=message,
        regex=regex,
    )
    assert type(made) is error
    return str(made)


@pytest.mark.parametrize(
    ("settings", "member"), [({}, "alice"), ({"group_instance_id": "host-1"}, "host-1")]
)
def test_a_refusal_names_broker_group_and_member_and_what_the_coordinator_says(
    settings: dict[str, str], member: str
) -> None:
    said = a_refusal(GroupAuthorizationFailedError, "not today", **settings)

    assert "broker 1 at b1:9092, refused group 'g'" in said
    assert f"(member: {member}) (not today); " in said


def test_where_brokers_cannot_evaluate_a_pattern_the_remedy_is_another_pattern() -> None:
    assert "the SubscriptionPattern 'a.*'" in a_refusal(UnsupportedVersionError, regex="a.*")
    assert "SubscriptionPattern" not in a_refusal(UnsupportedVersionError)
