"""kafka-python's internal attributes: they can be read, and to write one says what to call."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

import kafka
import pytest
from kafka.errors import IllegalStateError
from kafka.structs import TopicPartition

from aktor import KafkaConsumer
from aktor.consumer.internals import NAMES

PARTITION = TopicPartition("orders", 0)


@pytest.fixture
def consumer() -> Iterator[Any]:
    """One that never reaches a broker."""
    consumer = KafkaConsumer(
        bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=0, group_id="g", client_id="me"
    )
    yield consumer
    consumer.close(timeout_ms=0)


#: What is kafka-python's own, and right for us, too.
INHERITED = {
    *("DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735", "_validate_group_instance_id"),
}


def test_a_consumer_is_one_of_kafka_pythons_and_all_of_its_methods_are_ours(consumer: Any) -> None:
    theirs = kafka.consumer.group.KafkaConsumer
    left = {
        name
        for name, value in vars(theirs).items()
        if inspect.getattr_static(KafkaConsumer, name) is value
    }

    assert isinstance(consumer, theirs)
    assert left == INHERITED


@pytest.mark.parametrize("name", NAMES)
def test_an_internal_attribute_can_be_read_and_to_write_it_says_what_to_call(
    consumer: Any, name: str
) -> None:
    before = getattr(consumer, name)

    with pytest.raises(AttributeError, match=rf"^{name} can only be read in aktor\. \w+"):
        setattr(consumer, name, None)

    assert type(getattr(consumer, name)) is type(before)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("_client", "timeout"),
        ("_client.cluster", "_topics"),
        ("_coordinator", "coordinator_id"),
        ("_coordinator.heartbeat", "last_send"),
        ("_fetcher", "_subscriptions"),
        ("_subscription", "subscription"),
        ("_subscription.assignment[PARTITION]", "position"),
    ],
)
def test_a_view_cannot_be_written_and_says_what_to_call(
    consumer: Any, path: str, name: str
) -> None:
    consumer.assign([PARTITION])
    view = eval(f"consumer.{path}", {"consumer": consumer, "PARTITION": PARTITION})

    with pytest.raises(AttributeError, match=rf"\.{name} can only be read in aktor\. \w+"):
        setattr(view, name, None)
    with pytest.raises(AttributeError, match=rf"\.{name} can only be read in aktor\. \w+"):
        delattr(view, name)


@pytest.mark.parametrize(
    "path", ["_client.send", "_net.call_soon", "_coordinator.join_future", "_fetcher._sensors"]
)
def test_what_aktor_does_not_have_is_no_attribute_and_the_error_says_what_to_call(
    consumer: Any, path: str
) -> None:
    with pytest.raises(AttributeError, match=rf"aktor has no {path}\. Call "):
        eval(f"consumer.{path}", {"consumer": consumer})
    assert not hasattr(consumer, "_sensors")


def test_settings_are_shown_and_not_changed_by_a_view(consumer: Any) -> None:
    assert consumer._client.config["client_id"] == "me"
    with pytest.raises(TypeError):
        consumer._coordinator.config["group_id"] = "other"


def test_the_views_follow_the_consumer(consumer: Any) -> None:
    subscription = consumer._subscription
    assert subscription.subscription is None
    assert not subscription.partitions_auto_assigned()

    consumer.subscribe(["orders"])
    assert subscription.subscription == {"orders"}
    assert subscription.partitions_auto_assigned()
    assert consumer._coordinator.need_rejoin()

    consumer.unsubscribe()
    consumer.assign([PARTITION])
    assert subscription._user_assignment == subscription.assigned_partitions() == {PARTITION}
    assert subscription.position(PARTITION) is None
    assert subscription.missing_fetch_positions() == {PARTITION}

    consumer.seek(PARTITION, 7)
    assert subscription.assignment[PARTITION].position.offset == 7
    assert subscription.all_consumed_offsets()[PARTITION].offset == 7
    assert subscription.fetchable_partitions() == [PARTITION]

    consumer.pause(PARTITION)
    assert subscription.is_paused(PARTITION)
    assert subscription.fetchable_partitions() == []

    assert consumer._closed is False
    consumer.close(timeout_ms=0)
    assert consumer._closed is True


def test_a_pattern_is_shown_as_python_has_compiled_it(consumer: Any) -> None:
    consumer.subscribe(pattern="ord.*")

    assert consumer._subscription.subscribed_pattern.pattern == "ord.*"


def test_who_is_no_member_has_no_generation_coordinator_or_heartbeat(consumer: Any) -> None:
    coordinator = consumer._coordinator

    assert coordinator.state == "<unjoined>"
    assert coordinator._generation.generation_id == -1
    assert not coordinator._generation.has_member_id()
    assert coordinator.generation() is None
    assert coordinator.coordinator_unknown()
    assert coordinator.heartbeat.last_send == coordinator.heartbeat.last_receive == -math.inf
    assert coordinator.time_to_next_heartbeat() == math.inf


def test_the_member_cannot_leave_behind_the_consumers_back(consumer: Any) -> None:
    with pytest.raises(IllegalStateError, match=r"unsubscribe\(\) or close\(\)"):
        consumer._coordinator.maybe_leave_group()
