"""What consumers of the classic protocol tell each other, as the broker reads and writes it."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from aktor.broker.groups.consumer.embedded_protocol import (
    Subscription,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from tests.unit.broker.harness import Topics


def a_subscription(version: int) -> bytes:
    owned = ConsumerProtocolSubscription.TopicPartition(topic="t", partitions=[2, 0])
    made = ConsumerProtocolSubscription(
        version=version,
        topics=["t", "é"],
        user_data=b"mine",
        owned_partitions=[owned],
        generation_id=7,
        rack_id="r",
    )
    return bytes(made.encode())


@pytest.mark.parametrize(
    ("version", "owned", "rack_id"),
    [(0, {}, None), (1, {"t": (2, 0)}, None), (2, {"t": (2, 0)}, None), (3, {"t": (2, 0)}, "r")],
)
def test_a_subscription_says_more_with_each_version(
    version: int, owned: dict[str, tuple[int, ...]], rack_id: str | None
) -> None:
    data = a_subscription(version)

    assert read_subscription(data) == Subscription(topics=("t", "é"), owned=owned, rack_id=rack_id)
    assert version_of(data) == version


def test_a_version_that_is_not_known_yet_is_read_as_the_last_one_that_is() -> None:
    data = b"\x00\x09" + a_subscription(3)[2:] + b"what is new"

    assert read_subscription(data) == read_subscription(a_subscription(3))
    assert version_of(data) == 3


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_that_is_cut_off_anywhere_is_none(version: int) -> None:
    data = a_subscription(version)

    for end in range(len(data)):
        with pytest.raises(ValueError, match=r"does not fit|an array of"):
            read_subscription(data[:end])


@pytest.mark.parametrize(
    "data", [b"", b"range", b"\xff\xff", b"\x00\x00\xff\xff\xff\xff", b"\x00\x00\x7f\xff\xff\xff"]
)
def test_what_is_no_subscription_is_refused_whatever_it_is(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"does not fit|version|an array of"):
        read_subscription(data)
    with pytest.raises(ValueError, match=r"does not fit|version|an array of"):
        read_assignment(data)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="decode"):
        read_subscription(b"\x00\x00\x00\x00\x00\x01\x00\x01\xff\xff\xff\xff\xff")


@pytest.mark.parametrize("version", range(4))
def test_members_and_the_broker_read_each_others_assignments(version: int) -> None:
    topics = Topics(t=3, u=1)
    t, u = topics.topic_id("t"), topics.topic_id("u")
    assert t is not None
    assert u is not None
    topics.delete("u")

    written = write_assignment({t: (0, 2), u: (0,)}, topics, version=version)

    read = ConsumerProtocolAssignment.decode(written)
    assert [(one.topic, one.partitions) for one in read.assigned_partitions] == [("t", [0, 2])]
    assert (read.version, read.user_data) == (version, None)
    assert read_assignment(written).partitions == {"t": (0, 2)}
    assert read_assignment(written).user_data == b""


def test_who_does_not_say_a_version_gets_the_first_one() -> None:
    assert (version_of(b""), version_of(b"\xff\xff")) == (0, 0)
