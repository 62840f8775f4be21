"""Two loops for the same work, in transactions: one commits its offsets outside of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from aktor import KafkaConsumer

__all__ = ["commit_inside", "commit_outside"]


def commit_outside(bootstrap: Sequence[str], transactional_id: str) -> None:
    """The bug: whoever dies between the two commits has billed orders that are billed again."""
    _begin_anew(bootstrap, transactional_id, inside=False)


def commit_inside(bootstrap: Sequence[str], transactional_id: str) -> None:
    """Mended: invoices and offsets are committed together, or not at all."""
    _begin_anew(bootstrap, transactional_id, inside=True)


def _begin_anew(bootstrap: Sequence[str], transactional_id: str, *, inside: bool) -> None:
    """After an error nobody knows what was committed: a new producer makes an end of what the old
    one left open, and a new consumer begins where the group has come to."""
    while True:
        try:
            _bill(bootstrap, transactional_id, inside=inside)
        except KafkaError:
            time.sleep(0.5)


def _bill(bootstrap: Sequence[str], transactional_id: str, *, inside: bool) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id=transactional_id,
        transaction_timeout_ms=10_000,
        delivery_timeout_ms=10_000,
        request_timeout_ms=5_000,
        max_block_ms=10_000,
    )
    try:
        producer.init_transactions()
        with KafkaConsumer(
            "orders",
            bootstrap_servers=bootstrap,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=6000,
        ) as consumer:
            while True:
                batches = consumer.poll(timeout_ms=500)
                if not batches:
                    continue
                producer.begin_transaction()
                sent = [
                    producer.send("invoices", b"invoice for " + record.value)
                    for records in batches.values()
                    for record in records
                ]
                for one in sent:
                    one.get(timeout=15)  # kafka-python may commit without what it could not send
                if inside:
                    read = {
                        partition: OffsetAndMetadata(records[-1].offset + 1, "", -1)
                        for partition, records in batches.items()
                    }
                    producer.send_offsets_to_transaction(read, consumer.group_metadata())
                producer.commit_transaction()
                if not inside:
                    consumer.commit()
    finally:
        producer.close(timeout=1)
