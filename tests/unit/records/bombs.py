"""Small batches that would become large: one record of zeros, by each codec."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import cramjam

from aktor.records.codecs import lz4_header_checksum
from tests.unit.records.building import CODECS, a_batch, varint

__all__ = ["BOMBS", "a_bomb"]

MIB: Final = 1024 * 1024

_LZ4_BLOCK: Final = 4 * MIB
_ZSTD_BLOCK: Final = 128 * 1024


def a_bomb(kind: str, size: int) -> bytes:
    """A v2 batch with one record, whose value has `size` zeros, a multiple of 4 MiB."""
    body = b"\0" + varint(0) + varint(0) + varint(-1) + varint(size)
    start = varint(len(body) + size + 1) + body
    codec = kind.split()[0]
    payload = BOMBS[kind](start, size)
    return a_batch(flags=CODECS[codec], count=1, compress=lambda data: payload)


def _gzip(start: bytes, size: int) -> bytes:
    stream = zlib.compressobj(9, wbits=31)
    parts = [stream.compress(start)]
    parts += [stream.compress(bytes(MIB)) for _ in range(size // MIB)]
    return b"".join([*parts, stream.compress(b"\0"), stream.flush()])


def _snappy(start: bytes, size: int) -> bytes:
    """Blocks as the Java client writes them; snappy makes nothing smaller than a 21st of it."""
    zeros = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    blocks = [
        bytes(cramjam.snappy.compress_raw(start)),
        *[zeros] * (size // MIB),
        bytes(cramjam.snappy.compress_raw(b"\0")),
    ]
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed


def _lz4(start: bytes, size: int) -> bytes:
    """Independent blocks of 4 MiB, in a frame that does not say its size."""
    header = bytes((0x60, 0x70))
    zeros = bytes(cramjam.lz4.compress_block(bytes(_LZ4_BLOCK), store_size=False))
    blocks = [
        *_stored(start),
        *[struct.pack("<I", len(zeros)), zeros] * (size // _LZ4_BLOCK),
        *_stored(b"\0"),
    ]
    checksum = bytes((lz4_header_checksum(header),))
    return b"".join([b"\x04\x22\x4d\x18", header, checksum, *blocks, bytes(4)])


def _stored(data: bytes) -> Iterator[bytes]:
    yield struct.pack("<I", len(data) | 1 << 31)
    yield data


def _zstd(start: bytes, size: int) -> bytes:
    """Blocks of one byte each that stands for 128 KiB, in a frame that does not say its size."""
    zeros = _zstd_block(_ZSTD_BLOCK, kind=1) + b"\0"
    blocks = [
        _zstd_block(len(start), kind=0) + start,
        *[zeros] * (size // _ZSTD_BLOCK),
        _zstd_block(1, kind=0, last=True) + b"\0",
    ]
    return b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(blocks)


def _zstd_block(size: int, *, kind: int, last: bool = False) -> bytes:
    return struct.pack("<I", size << 3 | kind << 1 | last)[:3]


def _zstd_of_known_size(start: bytes, size: int) -> bytes:
    return bytes(cramjam.zstd.compress(start + bytes(size + 1)))


BOMBS: Final[Mapping[str, Callable[[bytes, int], bytes]]] = {
    "gzip": _gzip,
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": _zstd,
    "zstd of known size": _zstd_of_known_size,
}
