"""The example that moves a group, on the embedded Kafka, with records coming all the time."""

from __future__ import annotations

import threading

import pytest
from kafka import KafkaProducer

from aktor.broker import EmbeddedKafka
from examples import moving_a_group


def write_until(stop: threading.Event, bootstrap: str) -> None:
    """A record every few milliseconds, to one partition after the other."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    number = 0
    while not stop.wait(0.005):
        producer.send("orders", b"%d" % number, partition=number % 6)
        number += 1
    producer.close()


@pytest.mark.gate
def test_a_group_that_is_moved_there_and_back_reads_every_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stop = threading.Event()
    with EmbeddedKafka(topics={"orders": 6}) as kafka:
        writer = threading.Thread(target=write_until, args=(stop, kafka.bootstrap_servers))
        writer.start()
        read = moving_a_group.main(kafka.bootstrap_servers, "orders", "g", rest_s=0.5)
        stop.set()
        writer.join()
        written = {
            (partition, offset)
            for partition in range(6)
            for offset in range(kafka.end_offset("orders", partition))
        }
        kept = kafka.committed("g")

    # What came after the last poll is there for whoever goes on in the group.
    left = {(place, at) for place, at in written if at >= kept["orders", place]}
    assert {place for place, _ in read} == set(range(6))
    assert written == read.keys() | left
    assert capsys.readouterr().out.count("speaks the consumer protocol") == 3
