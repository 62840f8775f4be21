"""Python reads the attributes of what every poll and every tick uses in its quick way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aktor.consumer.inside import Inside
from tests.scenarios.world import World

#: CPython keeps the values of so many attributes in the object itself, where it finds them by their
#: number (`SHARED_KEYS_MAX_SIZE`); those of an object that has more are looked up by their names.
MOST = 30


def test_no_object_of_a_consumer_has_more_attributes_than_python_reads_quickly() -> None:
    with World() as world:
        world.cluster.create_topic("orders")
        world.cluster.fill("orders", 1)
        consumer = world.consumer("orders", group_id="g", auto_offset_reset="earliest")
        while not consumer.poll(1000):
            pass

        found = {type(one): len(vars(one)) for one in parts(consumer)}

    assert len(found) > 50
    assert {kind.__name__: number for kind, number in found.items() if number > MOST} == {}


def test_no_object_of_a_consumer_has_a_getattr_or_a_setattr() -> None:
    """With one of them in its class, Python reads, or sets, no attribute of it quickly. (The
    consumer itself has a `__setattr__`; see below.)"""
    with World() as world:
        kinds = {type(one) for one in parts(world.consumer(group_id="g"))}

    slow = ("__getattr__", "__getattribute__", "__setattr__")
    assert {
        (kind.__name__, name)
        for kind in kinds
        for name in slow
        if any(name in vars(base) for base in kind.__mro__ if base.__module__.startswith("aktor"))
    } == {("KafkaConsumer", "__setattr__")}


def test_what_reads_records_sets_no_attribute_of_the_consumer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its `__setattr__` would cost there."""
    were_set: list[str] = []
    with World() as world:
        world.cluster.create_topic("orders")
        world.cluster.fill("orders", 60)
        consumer = world.consumer("orders", group_id="g", auto_offset_reset="earliest")
        while not consumer.poll(1000, max_records=1):
            pass
        monkeypatch.setattr(
            Inside, "__setattr__", lambda _self, name, _value: were_set.append(name)
        )
        next(consumer)
        for _ in range(5):
            consumer.poll(0, max_records=10)
        consumer.commit()
        monkeypatch.undo()

    # (`_gone`: only where no thread of its own runs, as in this world.)
    assert {*were_set} == {"_gone"}


def parts(consumer: object) -> Iterator[object]:
    """The consumer, and all objects of its two halves that it leads to and that have a
    `__dict__`."""
    seen, left = set[int](), [consumer]
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        kind = type(one)
        if isinstance(one, list | tuple):
            left += one
        elif isinstance(one, dict):
            left += one.values()
        elif kind.__module__.startswith(("aktor.", "tests.scenarios.")):
            slots = {slot for base in kind.__mro__ for slot in vars(base).get("__slots__", ())}
            left += [getattr(one, slot, None) for slot in slots]
            if hasattr(one, "__dict__"):
                left += vars(one).values()
                if kind.__module__.startswith(("aktor.actors", "aktor.managers", "aktor.consumer")):
                    yield one
