"""kafka-python's `kafka.codec`, for programs that ask which codecs there are.

They are its producer's. Our consumer has its own (`aktor.records.codecs`), from the same packages.
"""

from __future__ import annotations

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.codec import (
    gzip_decode,
    gzip_encode,
    has_gzip,
    has_lz4,
    has_snappy,
    has_zstd,
    lz4_decode_old_kafka,
    lz4_encode,
    lz4_encode_old_kafka,
    lz4f_decode,
    snappy_decode,
    snappy_encode,
    zstd_decode,
    zstd_encode,
)

__all__ = [
    "gzip_decode",
    "gzip_encode",
    "has_gzip",
    "has_lz4",
    "has_snappy",
    "has_zstd",
    "lz4_decode_old_kafka",
    "lz4_encode",
    "lz4_encode_old_kafka",
    "lz4f_decode",
    "snappy_decode",
    "snappy_encode",
    "zstd_decode",
    "zstd_encode",
]
