"""The single records in a batch, as the broker reads them."""

from __future__ import annotations

import pytest

from aktor.broker.log.batches import BatchHeader
from aktor.broker.log.records import records_in
from tests.unit.records.building import a_batch, compressor, lz4_of_kafka, values


@pytest.mark.parametrize("framing", ["gzip", "lz4 of kafka", "snappy", "zstd"])
def test_what_follows_a_compressed_stream_does_not_matter(framing: str) -> None:
    """As in Apache Kafka: it stores such a batch."""
    codec = framing.split()[0]

    def with_zeros(data: bytes) -> bytes:
        compress = lz4_of_kafka if framing == "lz4 of kafka" else compressor(codec)
        return compress(data) + bytes(99)

    batch = a_batch(values(b"a", b"b"), codec=codec, compress=with_zeros)

    records = records_in(BatchHeader.read(batch), batch)

    assert [record.value for record in records] == [b"a", b"b"]
