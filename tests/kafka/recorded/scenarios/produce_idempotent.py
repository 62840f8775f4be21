"""Idempotent producers: ids, epochs, and sequence numbers that must have no gap."""

from __future__ import annotations

from tests.kafka.recorded.batches import batch
from tests.kafka.recorded.world import World


def _producer(world: World) -> int:
    # A broker that was just started has to fetch a block of ids first.
    answer = world.client.settled(
        "InitProducerId", 4, transactional_id=None, transaction_timeout_ms=0
    )
    return int(answer.producer_id)


def a_producer_id_for_an_idempotent_producer(world: World) -> None:
    _producer(world)
    for version in range(5):
        world.see(
            f"v{version}",
            "InitProducerId",
            version,
            transactional_id=None,
            transaction_timeout_ms=60_000,
        )
    answer = world.ask("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=60_000)
    next_one = world.ask("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=60_000)
    world.note("the next one is one more", next_one.producer_id - answer.producer_id)


def sequences_in_order_are_taken(world: World) -> None:
    topic, producer = world.topic(), _producer(world)
    world.note("0, 1", world.produce(topic, batch("a", "b", producer=(producer, 0), sequence=0)))
    world.note("2", world.produce(topic, batch("c", producer=(producer, 0), sequence=2)))
    world.note("fetch", world.fetch(topic))


def a_repeated_batch_is_confirmed_and_not_appended(world: World) -> None:
    topic, producer = world.topic(), _producer(world)
    first = batch("a", "b", producer=(producer, 0), sequence=0)
    second = batch("c", producer=(producer, 0), sequence=2)
    for label, data in (("first", first), ("second", second), ("first again", first)):
        world.note(label, world.produce(topic, data))
    world.note("second again", world.produce(topic, second))
    world.ends("after", topic)


def five_batches_are_remembered_and_the_sixth_last_is_not(world: World) -> None:
    topic, producer = world.topic(), _producer(world)
    for sequence in range(6):
        world.produce(topic, batch("a", producer=(producer, 0), sequence=sequence))
    for sequence in (1, 0):
        again = batch("a", producer=(producer, 0), sequence=sequence)
        world.note(f"sequence {sequence} again", world.produce(topic, again))
    world.ends("after", topic)


def gaps_are_refused(world: World) -> None:
    topic, producer = world.topic(), _producer(world)
    world.note("first is 5", world.produce(topic, batch("a", producer=(producer, 0), sequence=5)))
    world.note("then 0", world.produce(topic, batch("a", producer=(producer, 0), sequence=0)))
    world.note("then 6", world.produce(topic, batch("a", producer=(producer, 0), sequence=6)))
    world.note("then 7", world.produce(topic, batch("a", producer=(producer, 0), sequence=7)))
    world.note("then 9", world.produce(topic, batch("a", producer=(producer, 0), sequence=9)))
    world.ends("after", topic)


def a_part_of_a_remembered_batch_is_no_duplicate(world: World) -> None:
    topic, producer = world.topic(), _producer(world)
    world.produce(topic, batch("a", "b", "c", producer=(producer, 0), sequence=0))
    world.note("1", world.produce(topic, batch("b", producer=(producer, 0), sequence=1)))
    world.note("0", world.produce(topic, batch("a", producer=(producer, 0), sequence=0)))
    world.ends("after", topic)


def a_new_epoch_starts_at_zero_and_fences_the_old_one(world: World) -> None:
    topic, producer = world.topic(), _producer(world)
    world.produce(topic, batch("a", producer=(producer, 0), sequence=0))
    world.note(
        "epoch 1, sequence 1", world.produce(topic, batch("b", producer=(producer, 1), sequence=1))
    )
    world.note(
        "epoch 1, sequence 0", world.produce(topic, batch("b", producer=(producer, 1), sequence=0))
    )
    world.note("epoch 0", world.produce(topic, batch("c", producer=(producer, 0), sequence=1)))
    world.note(
        "epoch 0, duplicate", world.produce(topic, batch("a", producer=(producer, 0), sequence=0))
    )
    world.ends("after", topic)


def a_producer_id_that_was_never_given_out_is_taken(world: World) -> None:
    topic = world.topic()
    world.note("produce", world.produce(topic, batch("a", producer=(987654321, 3), sequence=0)))
    world.note(
        "sequence 4 first", world.produce(topic, batch("a", producer=(987654322, 3), sequence=4))
    )


def producer_fields_must_fit_together(world: World) -> None:
    topic = world.topic()
    world.note("no epoch", world.produce(topic, batch("a", producer_id=5, base_sequence=0)))
    world.note("no sequence", world.produce(topic, batch("a", producer_id=5, producer_epoch=0)))
    world.note("sequence alone", world.produce(topic, batch("a", base_sequence=0)))
    world.note("epoch alone", world.produce(topic, batch("a", producer_epoch=0)))
    world.note("transactional without id", world.produce(topic, batch("a", attributes=0x10)))
    world.ends("after", topic)


def sequences_wrap_around(world: World) -> None:
    topic, producer = world.topic(), _producer(world)
    last = 2**31 - 1
    world.produce(topic, batch("a", producer=(producer, 0), sequence=0))
    other = world.topic()
    world.note("first", world.produce(other, batch("a", producer=(producer, 0), sequence=last)))
    world.note("wrapped", world.produce(other, batch("b", producer=(producer, 0), sequence=0)))
    world.note("gap", world.produce(topic, batch("b", producer=(producer, 0), sequence=last)))


def producers_of_a_partition_are_described(world: World) -> None:
    topic, producer = world.topic(), _producer(world)
    world.produce(topic, batch("a", "b", producer=(producer, 0), sequence=0))
    world.see(
        "describe",
        "DescribeProducers",
        0,
        topics=[
            {"name": topic.name, "partition_indexes": [0, 1]},
            {"name": world.name("nowhere"), "partition_indexes": [0]},
        ],
    )
