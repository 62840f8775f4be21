"""Decompression that never gives more bytes than it is allowed to.

gzip comes from the standard library, the others from cramjam (the extra `codecs`),
imported when first needed.

Bytes that follow the stream in its batch, and do not continue it, are ignored, as Java does: Apache
Kafka stores such batches. If records are missing, the count in the batch tells.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable
from typing import Any, Final

import kafka.codec

from aktor.records.faults import CodecUnavailable, Malformed, Oversized

NAMES: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

#: Up to here a buffer is copied to `bytes`, which are faster to read record by record; beyond,
#: the time of the copy is not worth having the batch in memory twice.
COPY_AT_MOST: Final = 16 * 1024 * 1024

#: How many bytes one batch may decompress to. By default producers make batches of at most 1 MB
#: before compression (`max.request.size`), which is far below this limit. A batch is decompressed
#: as a whole, because the zstd binding that we use cannot decompress piece by piece. So a hostile
#: batch costs this much memory before it is refused. The consumer then takes at most
#: `max_buffered_bytes` and 64 MB: this limit, and what a decoder takes for itself (lz4: 9 MB).
MAX_BATCH_BYTES: Final = 48 * 1024 * 1024

#: How much one step of gzip takes in and gives out.
_STEP = 256 * 1024


def a_room(size: int) -> Any:
    """Room to decompress so many bytes into. A big one is only taken where it is written."""
    return bytearray(size) if size <= COPY_AT_MOST else mmap.mmap(-1, size)


def decompress(
    codec: int, data: memoryview, limit: int, room: Callable[[int], Any] = a_room
) -> Any:
    """The decompressed `data`, as whatever has the buffer protocol.

    `room` makes what it is decompressed into, of a size that it will probably not fill; gzip has
    its own. Raises `Oversized` beyond `limit` bytes, `Malformed` if `data` is not of this codec,
    and `CodecUnavailable` if the codec is unknown or not installed.
    """
    try:
        decoder = _DECODERS[codec]
    except KeyError:
        raise CodecUnavailable(
            f"compressed with codec {codec}, which this version does not know; upgrade aktor"
        ) from None
    return decoder(data, limit, room)


def readable(buffer: Any) -> bytes | memoryview:
    """`buffer` in the form which is fastest to read, without a second copy of a big one."""
    return bytes(buffer) if len(buffer) <= COPY_AT_MOST else memoryview(buffer)


def _gunzip(data: memoryview, limit: int, _room: Callable[[int], Any]) -> Any:
    # Python always has gzip. Tests of programs, and kafka-python's own, replace this function to
    # see what happens without a codec.
    if not kafka.codec.has_gzip():
        text = "Libraries for gzip compression codec not found"  # as kafka-python says it
        raise CodecUnavailable(f"compressed with gzip: {text}")
    out = bytearray()
    rest = _gunzip_member(data, out, limit)
    while rest:  # a stream may have several members (RFC 1952)
        sound = len(out)
        try:
            rest = _gunzip_member(rest, out, limit)
        except Malformed:
            del out[sound:]
            break
    return out


def _gunzip_member(data: bytes | memoryview, out: bytearray, limit: int) -> bytes | memoryview:
    """Append one member to `out` and return what follows it."""
    member = zlib.decompressobj(wbits=31)
    taken = 0
    pending: bytes | memoryview = b""
    while not member.eof:
        if not pending:
            pending = data[taken : taken + _STEP]
            taken += len(pending)
            at_end = not pending
        try:
            piece = member.decompress(pending, _STEP)
        except zlib.error as fault:
            raise Malformed(f"not a gzip stream: {fault}") from None
        if at_end and not piece and not member.eof:
            raise Malformed("the gzip stream ends early")
        pending = member.unconsumed_tail
        out += piece
        if len(out) > limit:
            raise Oversized
    return data[taken - len(member.unused_data) :]


#: What the Java client's stream (xerial) starts with, before two int32 of versions, which some
#: writers give in the wrong byte order and nobody needs.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
#: Zeros are not a block: even no bytes at all are compressed to one byte.
_NO_BLOCK = bytes(4)


def _unsnappy(data: memoryview, limit: int, room: Callable[[int], Any]) -> Any:
    snappy = _cramjam("snappy").snappy
    blocks = _xerial_blocks(data) if data[:8] == _XERIAL_MAGIC else [data]
    sizes = [_snappy_size(block) for block in blocks]
    total = sum(sizes)
    if total > limit:
        raise Oversized

    out = rest = memoryview(room(total))[:total]
    for block, size in zip(blocks, sizes, strict=True):
        _checked("snappy", snappy.decompress_raw_into, block, rest[:size])
        rest = rest[size:]
    return out


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    """Blocks of raw snappy, each after its int32 length. There is nothing that ends a stream:
    Java ignores what is shorter than a length, and begins anew at another header."""
    if len(data) < _XERIAL_HEADER:
        raise Malformed("a snappy stream ends within its header")
    blocks = []
    pos = _XERIAL_HEADER
    while len(data) - pos >= 4 and data[pos : pos + 4] != _NO_BLOCK:
        if data[pos : pos + 8] == _XERIAL_MAGIC:
            pos += _XERIAL_HEADER
            continue
        start = pos + 4
        pos = start + int.from_bytes(data[pos:start], "big", signed=True)
        if not start < pos <= len(data):
            raise Malformed("a snappy block runs beyond its batch")
        blocks.append(data[start:pos])
    return blocks


def _snappy_size(block: memoryview) -> int:
    """The uncompressed length that a block of raw snappy starts with (a varint of 32 bits)."""
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise Malformed("a snappy block without a length")


_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_SIZES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
#: No byte of an LZ4 block stands for more than 255 bytes.
_LZ4_RATIO = 255


def _unlz4(data: memoryview, limit: int, room: Callable[[int], Any]) -> Any:
    lz4 = _cramjam("lz4").lz4
    end, bound = _lz4_frame(data)
    return _decompress_into("lz4", lz4, data[:end], bound, limit, room)


def repair_lz4_header(data: memoryview) -> memoryview:
    """`data` with the right header checksum.

    Kafka's first LZ4 writer, and so everything in format v0, took the checksum of the frame's
    magic too; decoders that know the frame format refuse that (KIP-57).
    """
    if data[:4] != _LZ4_MAGIC:
        raise Malformed("not an lz4 frame")
    size = _lz4_header_size(data)
    if len(data) <= size:
        raise Malformed("an lz4 frame ends within its header")
    checksum = lz4_header_checksum(bytes(data[4 : size - 1]))
    return memoryview(b"".join((data[: size - 1], bytes((checksum,)), data[size:])))


def lz4_header_checksum(header: bytes) -> int:
    """The checksum of a frame's header, which begins behind the magic."""
    return _xxh32_short(header) >> 8 & 0xFF


def _lz4_header_size(data: memoryview) -> int:
    if len(data) < 7:
        raise Malformed("an lz4 frame ends within its header")
    flags = data[4]
    return 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)


def _lz4_frame(data: memoryview) -> tuple[int, int]:
    """Where the frame ends, and the most bytes that it can decompress to, from the lengths of its
    blocks. Java reads one frame only, whatever follows it."""
    if data[:4] != _LZ4_MAGIC:
        raise Malformed("not an lz4 frame")
    block_size = _LZ4_BLOCK_SIZES.get((data[5] >> 4) & 0x07) if len(data) > 5 else None
    if block_size is None:
        raise Malformed("an lz4 frame of unknown block size")
    flags = data[4]
    bound, pos = 0, _lz4_header_size(data)
    while size := int.from_bytes(data[pos : pos + 4], "little"):
        stored = size & 0x7FFF_FFFF
        bound += min(block_size, stored * _LZ4_RATIO)
        pos += 4 + stored + (4 if flags & 0x10 else 0)
        if pos > len(data):
            raise Malformed("an lz4 block runs beyond its batch")
    return pos + 4 + (4 if flags & 0x04 else 0), bound


def _xxh32_short(data: bytes) -> int:
    """The xxHash32 of less than 16 bytes, seed 0: all that an LZ4 header needs."""
    mask = 0xFFFF_FFFF
    state = (374_761_393 + len(data)) & mask
    words = len(data) // 4 * 4
    for at in range(0, words, 4):
        word = int.from_bytes(data[at : at + 4], "little")
        state = (state + word * 3_266_489_917) & mask
        state = (state << 17 | state >> 15) * 668_265_263 & mask
    for byte in data[words:]:
        state = (state + byte * 374_761_393) & mask
        state = (state << 11 | state >> 21) * 2_654_435_761 & mask
    state = (state ^ state >> 15) * 2_246_822_519 & mask
    state = (state ^ state >> 13) * 3_266_489_917 & mask
    return state ^ state >> 16


_ZSTD_MAGIC = 0xFD2F_B528
_ZSTD_SKIPPABLE = 0x184D_2A50
_ZSTD_BLOCK = 128 * 1024


def _unzstd(data: memoryview, limit: int, room: Callable[[int], Any]) -> Any:
    zstd = _cramjam("zstd").zstd
    end, bound = _zstd_frames(data)
    return _decompress_into("zstd", zstd, data[:end], bound, limit, room)


def _zstd_frames(data: memoryview) -> tuple[int, int]:
    """Where the last frame ends, and the most bytes that the frames can decompress to, from their
    blocks (RFC 8878)."""
    bound = pos = 0
    while pos < len(data):
        magic = int.from_bytes(data[pos : pos + 4], "little")
        if magic & 0xFFFF_FFF0 != _ZSTD_SKIPPABLE:
            try:
                end, size = _zstd_frame(data, pos)
            except Malformed:
                if not bound:
                    raise
                break  # the bytes after the last frame
            pos, bound = end, bound + size
        elif (end := pos + 8 + int.from_bytes(data[pos + 4 : pos + 8], "little")) <= len(data):
            pos = end
        elif bound:
            break
        else:
            raise Malformed("a zstd frame runs beyond its batch")
    return pos, bound


def _zstd_frame(data: memoryview, pos: int) -> tuple[int, int]:
    """The same of the frame at `pos`."""
    if int.from_bytes(data[pos : pos + 4], "little") != _ZSTD_MAGIC or len(data) - pos < 6:
        raise Malformed("not a zstd frame")
    bound, descriptor = 0, data[pos + 4]
    pos += 5 + _zstd_header_rest(descriptor)
    last = False
    while not last:
        block = int.from_bytes(data[pos : pos + 3], "little")
        last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        bound += _ZSTD_BLOCK if kind == 2 else size
        pos += 3 + (1 if kind == 1 else size)
        if pos > len(data):
            raise Malformed("a zstd block runs beyond its batch")
    return pos + (4 if descriptor & 0x04 else 0), bound


def _zstd_header_rest(descriptor: int) -> int:
    """How many bytes of a frame's header follow its descriptor."""
    single_segment = descriptor >> 5 & 1
    window = 0 if single_segment else 1
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    content_size = (single_segment, 2, 4, 8)[descriptor >> 6]
    return window + dictionary + content_size


def _decompress_into(
    name: str,
    codec: Any,
    data: memoryview,
    bound: int,
    limit: int,
    room: Callable[[int], Any],
) -> Any:
    """Decompress `data` into at most `limit` bytes.

    `bound` is the most that its blocks can give. It may be above `limit` although the data is not:
    a writer may leave blocks half full. So `Oversized` is raised only when decompression fails.
    """
    space = room(max(1, min(bound, limit)))
    try:
        size = _checked(name, codec.decompress_into, data, memoryview(space)[: min(bound, limit)])
    except Malformed as fault:
        if bound <= limit:
            raise
        raise Oversized from fault
    return memoryview(space)[:size]


def _checked(name: str, decode: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return decode(*arguments)
    except _cramjam(name).DecompressionError as fault:
        raise Malformed(f"not a sound {name} stream: {fault}") from None


def _cramjam(name: str) -> Any:
    try:
        import cramjam
    except ImportError:
        raise CodecUnavailable(
            f"compressed with {name}, which needs cramjam; pip install cramjam"
        ) from None
    return cramjam


_DECODERS: Final[dict[int, Callable[[memoryview, int, Callable[[int], Any]], Any]]] = {
    1: _gunzip,
    2: _unsnappy,
    3: _unlz4,
    4: _unzstd,
}
