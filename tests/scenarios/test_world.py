"""The world of the scenarios itself."""

from __future__ import annotations

import gc
import weakref

from tests.scenarios.world import World


def test_a_world_that_is_over_leaves_nothing_behind() -> None:
    """Else thousands of them are looked at each time that garbage is collected."""
    with World() as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 10)
        consumer = world.consumer("orders", group_id="g", auto_offset_reset="earliest")
        consumer.poll(timeout_ms=1000)
    gone = weakref.ref(world), weakref.ref(consumer)

    del world, consumer
    gc.collect()

    assert [one() for one in gone] == [None, None]
