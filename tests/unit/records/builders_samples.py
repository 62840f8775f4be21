"""A sound batch of each kind that brokers write."""

from __future__ import annotations

from tests.unit.records.building import CODECS, a_batch, a_message, a_record, a_wrapper

RECORDS = [
    a_record(0, b"first", key=b"key", headers=[("h", b"x"), ("i", None)], timestamp_delta=5),
    a_record(1, b"second" * 12),
    a_record(3, None, timestamp_delta=-900),
]
SAMPLES = {
    **{
        codec: a_batch(RECORDS, base_offset=9, last_offset_delta=3, codec=codec) for codec in CODECS
    },
    "v0": b"".join(a_message(offset, b"v%d" % offset, magic=0) for offset in (9, 10)),
    "v1": b"".join(a_message(offset, b"v%d" % offset, key=b"k") for offset in (9, 10)),
    **{
        f"v1 {codec}": a_wrapper([a_message(0, b"a"), a_message(1, b"b" * 40)], 10, codec=codec)
        for codec in ("gzip", "snappy", "lz4")
    },
}
