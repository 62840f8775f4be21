"""The picture of a consumer, and how it reads."""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
import pickle
from typing import Any

import pytest
from kafka.structs import TopicPartition

from aktor.consumer.status import (
    COMPUTED,
    BrokerStatus,
    ConsumerStatus,
    Health,
    PartitionStatus,
    WaitingFor,
    looked,
)
from aktor.events.lifecycle import ActorStatus

A = TopicPartition("orders", 0)
B = TopicPartition("orders", 1)


def a_partition(**said: Any) -> PartitionStatus:
    known = {"position": 5, "end": 12, "lag": 7, "paused": False, "buffered_bytes": 0}
    return PartitionStatus(**{**known, **said})


def a_status(**said: Any) -> ConsumerStatus:
    """Of a group member without partitions."""
    known = {
        "client_id": "app",
        "state": "running",
        "group_id": "g",
        "group_protocol": "classic",
        "member_id": "m-1",
        "generation": 3,
        "member_state": "stable",
        "subscription": frozenset({"orders", "invoices"}),
        "partitions": {},
        "actors": (),
        "reader": "compiled",
    }
    return ConsumerStatus(**{**known, **said})


def test_the_lag_is_the_sum_over_the_partitions() -> None:
    status = a_status(partitions={A: a_partition(lag=7), B: a_partition(lag=0)})

    assert status.lag == 7


def test_the_lag_is_unknown_while_that_of_any_partition_is() -> None:
    status = a_status(partitions={A: a_partition(lag=7), B: a_partition(lag=None)})

    assert status.lag is None


def test_where_the_lag_is_unknown_it_is_said_how_much_it_is_at_least() -> None:
    paused = a_partition(lag=None, lag_at_least=7, end_age=12.34, paused=True)
    status = a_status(partitions={A: paused, B: a_partition(lag=2, lag_at_least=2)})

    assert (status.lag, status.lag_at_least) == (None, 9)
    assert (
        "  orders-0: position 5, end 12, lag unknown (at least 7, as told 12.3 s ago), paused"
        in (str(status).splitlines())
    )


def test_a_member_to_which_the_group_has_given_nothing_has_no_lag() -> None:
    assert (a_status().lag, a_status().lag_seconds) == (0, 0.0)


@pytest.mark.parametrize("state", ["unjoined", "joining", ""])
def test_the_lag_is_unknown_while_it_is_unknown_which_partitions_are_to_be_read(
    state: str,
) -> None:
    status = a_status(member_state=state)

    assert (status.lag, status.lag_seconds) == (None, None)
    assert a_status(member_state=state, partitions={A: a_partition(lag=7)}).lag == 7


def test_who_wants_no_partitions_has_no_lag() -> None:
    assert a_status(member_state="", subscription=frozenset()).lag == 0


def test_a_status_reads_from_the_consumer_down_to_its_actors() -> None:
    status = a_status(
        partitions={B: a_partition(paused=True), A: a_partition(position=None, end=None, lag=None)},
        actors=(ActorStatus(name="fetch", incarnation=2, dead_letters=0),),
    )

    assert str(status).splitlines() == [
        "consumer app: running",
        "group g (classic): m-1, generation 3, stable",
        "subscribed to invoices, orders",
        "  orders-0: position unknown, end unknown, lag unknown",
        "  orders-1: position 5, end 12, lag 7, paused",
        "reader: compiled",
        "  actor fetch: incarnation 2",
    ]


def test_a_consumer_without_a_group_has_no_line_for_it() -> None:
    status = a_status(group_id=None, member_id="", subscription=frozenset())

    assert str(status) == "consumer app: running\nreader: compiled"


def test_a_group_that_is_not_joined_says_so() -> None:
    status = a_status(group_protocol="auto", member_id="", generation=-1, member_state="unjoined")

    assert "group g (auto): not a member, generation -1, unjoined" in str(status)


def test_position_zero_is_known() -> None:
    status = a_status(partitions={A: a_partition(position=0, end=0, lag=0)})

    assert "position 0, end 0, lag 0" in str(status)


def test_a_status_is_a_picture_and_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        a_status().state = "closed"  # type: ignore[misc]


def test_what_is_not_computed_yet_is_copied_compared_and_shown_as_if_it_were() -> None:
    given = a_status(why="nothing")
    computed = [_looked_at() for _ in range(4)]

    assert computed[0] == given
    assert pickle.loads(pickle.dumps(computed[1])) == given
    assert dataclasses.asdict(computed[2]) == dataclasses.asdict(given)
    assert repr(computed[3]) == repr(given)


def test_a_field_is_computed_once() -> None:
    computed: list[str] = []
    status = looked({"why": lambda: computed.append("why") or "nothing"})

    assert (status.why, status.why) == ("nothing", "nothing")
    assert computed == ["why"]


def test_a_status_has_no_other_attributes() -> None:
    for status in (a_status(), _looked_at()):
        with pytest.raises(AttributeError, match="'ConsumerStatus' object has no attribute 'ower'"):
            operator.attrgetter("ower")(status)


def _looked_at() -> ConsumerStatus:
    """As `a_status`, of which the most is computed when it is read."""
    known = {
        field.name: getattr(a_status(why="nothing"), field.name)
        for field in dataclasses.fields(ConsumerStatus)
    }
    later = {name: functools.partial(dict.__getitem__, known, name) for name in COMPUTED}
    return looked(later, **{name: known[name] for name in known.keys() - COMPUTED})


def test_a_status_can_be_written_as_json_with_all_its_fields() -> None:
    status = a_status(
        partitions={A: a_partition(), B: a_partition(lag=1)},
        brokers={1: BrokerStatus(node=1, address="kafka-1:9092", connected=True, last_answer=0.1)},
        actors=(ActorStatus(name="fetch", incarnation=2, dead_letters=0),),
        healthy=Health(False, "no broker answers"),
        waiting_for=WaitingFor.BROKER,
    )

    told = json.loads(json.dumps(status.to_dict(), allow_nan=False))

    lags = {"lag", "lag_seconds", "lag_at_least"}
    assert told.keys() == {one.name for one in dataclasses.fields(status)} | lags
    assert told["lag"] == 8
    assert told["subscription"] == ["invoices", "orders"]
    assert told["partitions"]["orders-1"]["lag"] == 1
    assert told["partitions"]["orders-0"]["waiting_for"] == WaitingFor.FETCH.value
    assert told["brokers"]["1"]["address"] == "kafka-1:9092"
    assert told["healthy"] == {"ok": False, "because": "no broker answers"}
    assert told["actors"] == [{"name": "fetch", "incarnation": 2}]


def test_a_status_that_was_looked_at_is_computed_for_json() -> None:
    status = looked({"why": lambda: "nothing new"}, **given_to(a_status(), without="why"))

    assert status.to_dict()["why"] == "nothing new"


def given_to(status: ConsumerStatus, *, without: str) -> dict[str, Any]:
    return {
        one.name: getattr(status, one.name)
        for one in dataclasses.fields(status)
        if one.name != without
    }
