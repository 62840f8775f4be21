"""Every codec in every framing that Kafka clients write, and none beyond its limit."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest
from kafka.errors import UnsupportedCodecError

from aktor.errors import BatchTooLargeError, CorruptBatchError
from aktor.records.codecs import decompress
from aktor.records.faults import Malformed, Oversized
from tests.gate import all_but_the_first
from tests.unit.records.bombs import BOMBS, a_bomb
from tests.unit.records.building import (
    CODECS,
    READERS,
    a_batch,
    a_message,
    a_reader,
    compressor,
    lz4_of_kafka,
    take_all,
    values,
    xerial,
)

MIB = 1024 * 1024
COMPRESSED = ("gzip", "snappy", "lz4", "zstd")
TEXT = b"to be read as it was written, " * 9000


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def xerial_of_redpanda(data: bytes) -> bytes:
    """Some writers give xerial's two versions in the wrong byte order."""
    return xerial(data)[:8] + struct.pack("<ii", 1, 1) + xerial(data)[16:]


def gzip_of_two_members(data: bytes) -> bytes:
    return gzip.compress(data[:1000]) + gzip.compress(data[1000:])


def lz4_frame(*flags: int) -> Callable[[bytes], bytes]:
    """A frame of stored blocks with 64 KiB each, as an LZ4 writer makes of what will not shrink."""

    def frame(data: bytes) -> bytes:
        import xxhash

        header = bytes((0x60 | sum(flags), 0x40))
        header += struct.pack("<Q", len(data)) if 0x08 in flags else b""
        out = b"\x04\x22\x4d\x18" + header
        out += bytes((xxhash.xxh32(header).intdigest() >> 8 & 0xFF,))
        for start in range(0, len(data), 1 << 16):
            block = data[start : start + (1 << 16)]
            out += struct.pack("<I", len(block) | 1 << 31) + block
            out += xxhash.xxh32(block).digest()[::-1] if 0x10 in flags else b""
        out += bytes(4)
        return out + (xxhash.xxh32(data).digest()[::-1] if 0x04 in flags else b"")

    return frame


def zstd_after_a_skippable_frame(data: bytes) -> bytes:
    return b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc" + bytes(cramjam.zstd.compress(data))


def zstd_of_two_frames(data: bytes) -> bytes:
    return b"".join(bytes(cramjam.zstd.compress(part)) for part in (data[:5], data[5:]))


def zstd_of_rle_blocks(size: int) -> bytes:
    """Zeros in 4 bytes for every 128 KiB, in a frame that does not say its size."""
    blocks, rest = divmod(size, 128 * 1024)
    rle = struct.pack("<I", 128 * 1024 << 3 | 1 << 1)[:3] + b"\0"
    last = struct.pack("<I", rest << 3 | 1 << 1 | 1)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + rle * blocks + last


@pytest.mark.parametrize(
    ("codec", "compress"),
    [
        *[(codec, compressor(codec)) for codec in COMPRESSED],
        ("gzip", gzip_of_two_members),
        ("snappy", raw_snappy),
        ("snappy", xerial_of_redpanda),
        ("zstd", zstd_after_a_skippable_frame),
        ("zstd", zstd_of_two_frames),
    ],
)
def test_every_framing_gives_back_what_went_in(
    codec: str, compress: Callable[[bytes], bytes]
) -> None:
    for data in (TEXT, os.urandom(100_000), b"x"):
        assert decompress(CODECS[codec], memoryview(compress(data)), MIB) == data


@pytest.mark.parametrize("flags", [(), (0x10,), (0x04,), (0x08,), (0x10, 0x04, 0x08)])
def test_every_option_of_an_lz4_frame_is_read(flags: tuple[int, ...]) -> None:
    pytest.importorskip("xxhash")
    frame = lz4_frame(*flags)(TEXT)

    assert decompress(CODECS["lz4"], memoryview(frame), MIB) == TEXT


@pytest.mark.parametrize("codec", COMPRESSED)
def test_exactly_the_limit_is_allowed_and_a_byte_more_is_not(codec: str) -> None:
    for data in (bytes(300_000), os.urandom(300_000)):
        compressed = memoryview(compressor(codec)(data))

        assert decompress(CODECS[codec], compressed, len(data)) == data

        with pytest.raises(Oversized):
            decompress(CODECS[codec], compressed, len(data) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_batch_above_the_limit_is_refused_with_coordinates(codec: str) -> None:
    batch = a_batch(values(bytes(MIB)), base_offset=7, codec=codec)
    reader = a_reader(batch, max_batch_bytes=MIB)

    for _ in range(2):
        with pytest.raises(BatchTooLargeError) as caught:
            reader.take(1)

    assert (caught.value.topic, caught.value.partition) == ("orders", 3)
    assert (caught.value.offset, caught.value.limit, reader.next_offset) == (7, MIB, 7)


#: Run alone, so that the highest memory it ever had is its own. (`ru_maxrss` is not: Linux begins
#: it with that of the process which started this one, and a growth below that is not seen.)
MEASURE = """
import re, sys
from aktor.records.codecs import decompress
from aktor.records.faults import Oversized
import cramjam

codec, path, limit = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
data = memoryview(open(path, "rb").read())
def highest():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

before = highest()
try:
    decompress(codec, data, limit)
    print("not refused")
except Oversized:
    print(highest() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("codec", all_but_the_first(3, ["zstd of RLE blocks", *COMPRESSED]))
def test_a_bomb_takes_no_more_memory_than_its_limit(codec: str, tmp_path: Path) -> None:
    name = codec.split()[0]
    size = 64 * MIB
    bomb = tmp_path / "bomb"
    bomb.write_bytes(zstd_of_rle_blocks(size) if name != codec else compressor(name)(bytes(size)))

    command = [sys.executable, "-c", MEASURE, str(CODECS[name]), str(bomb), str(MIB)]
    grown_kib = int(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)

    assert grown_kib < 8 * 1024


#: The same for readers of three partitions of a consumer, with its default limit.
MEASURE_READER = """
import re, sys
from aktor.errors import BatchTooLargeError
from aktor.records import RecordReader
import cramjam

data = memoryview(open(sys.argv[1], "rb").read())
def highest():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

before = highest()
readers = [RecordReader(data, topic="t", partition=one, fetch_offset=0) for one in range(3)]
for reader in readers:
    try:
        reader.take(500)
        print("not refused")
    except BatchTooLargeError:
        pass
print(highest() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", all_but_the_first(1, BOMBS))
def test_what_would_become_half_a_gigabyte_costs_less_than_64_megabytes(
    kind: str, tmp_path: Path
) -> None:
    bomb = tmp_path / "bomb"
    bomb.write_bytes(a_bomb(kind, 512 * MIB))

    command = [sys.executable, "-c", MEASURE_READER, str(bomb)]
    grown_kib = int(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)

    assert grown_kib * 1024 < 64_000_000


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_that_is_allowed_is_a_record(kind: str) -> None:
    """So that the bombs of these tests are refused for their size, and for nothing else."""
    reader = a_reader(a_bomb(kind, 4 * MIB), max_batch_bytes=5 * MIB)

    assert [len(record.value) for record in reader.take(1)] == [4 * MIB]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_cut_of_a_stream_is_malformed(codec: str) -> None:
    compressed = compressor(codec)(b"a few words, " * 8)

    for end in range(len(compressed)):
        if codec == "snappy" and 16 <= end < 20:
            continue  # xerial's header alone is a sound stream of nothing; Java ignores the rest
        with pytest.raises(Malformed):
            decompress(CODECS[codec], memoryview(compressed)[:end], MIB)


@pytest.mark.few_cases
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("write", ["batch", "v1", "v0"])
@pytest.mark.parametrize("framing", ["gzip", "snappy", "lz4", "lz4 of kafka", "zstd"])
@pytest.mark.parametrize(
    "what", ["zeros", "one byte", "garbage", "a cut stream", "an empty stream", "skippable"]
)
def test_what_follows_a_stream_does_not_matter(
    what: str, framing: str, write: str, reader: str
) -> None:
    """Apache Kafka stores such batches, and Java reads them: GZIPInputStream ends at what is no
    member, Lz4BlockInputStream after a frame, SnappyInputStream at less than a length. (Of garbage
    after snappy it would take a length, and zstd is refused there; we read it.)"""
    codec = framing.split()[0]
    if (what, codec) == ("garbage", "snappy") or (codec == "zstd" and write != "batch"):
        return  # nothing says where the stream of snappy ends; zstd is younger than these formats
    if (codec, what) == ("snappy", "a cut stream"):
        return  # as any other stream that is cut
    compress = lz4_of_kafka if framing == "lz4 of kafka" else compressor(codec)
    behind = {
        "zeros": bytes(5000),
        "one byte": b"\1",
        "garbage": b"\1garbage" * 9,
        "a cut stream": compress(b"more of it" * 9)[:-9],
        "an empty stream": compress(b""),
        "skippable": b"\x50\x2a\x4d\x18\5\0\0\0bytes" if codec in ("lz4", "zstd") else b"",
    }[what]

    def with_more(data: bytes) -> bytes:
        return compress(data) + behind

    if write == "batch":
        data = a_batch(values(b"a", b"b", b"c"), codec=codec, compress=with_more)
    else:
        magic = int(write[1])
        inner = b"".join(
            a_message(offset, bytes([97 + offset]), magic=magic) for offset in range(3)
        )
        data = a_message(2, with_more(inner), flags=CODECS[codec], magic=magic)

    assert [record.value for record in take_all(a_reader(data, reader=reader))] == [
        b"a",
        b"b",
        b"c",
    ]


@pytest.mark.parametrize("reader", READERS)
def test_of_lz4_only_the_first_frame_is_read(reader: str) -> None:
    """As Java does, whatever follows."""

    def twice(data: bytes) -> bytes:
        return lz4_of_kafka(data) * 2

    data = a_batch(values(b"a", b"b"), codec="lz4", compress=twice)

    assert len(take_all(a_reader(data, reader=reader))) == 2


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("codec", sorted(CODECS))
def test_bytes_after_the_records_in_the_stream_are_corrupt(codec: str, reader: str) -> None:
    """Java refuses them ("Incorrect declared batch size, records still remaining in file"), so that
    no Apache Kafka stores them."""

    def with_more(data: bytes) -> bytes:
        return compressor(codec)(data + bytes(4))

    made = a_reader(a_batch(values(b"a"), codec=codec, compress=with_more), reader=reader)

    with pytest.raises(CorruptBatchError, match="bytes after the last record"):
        take_all(made)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_is_not_of_the_codec_is_a_corrupt_batch(codec: str) -> None:
    reader = a_reader(a_batch(codec=codec, compress=lambda data: b"plainly not compressed"))

    with pytest.raises(CorruptBatchError):
        reader.take(1)


def test_a_snappy_block_that_lies_about_its_length_is_malformed() -> None:
    block = raw_snappy(b"abc")

    for lie in (b"\x02", b"\x04", b"\xff\xff\xff\xff\x00"):
        with pytest.raises((Malformed, Oversized)):
            decompress(CODECS["snappy"], memoryview(lie + block[1:]), MIB)


def test_an_lz4_frame_with_an_absurd_content_size_is_malformed() -> None:
    pytest.importorskip("xxhash")
    frame = lz4_frame(0x08)(TEXT)
    lie = frame[:6] + struct.pack("<Q", 2**62) + frame[14:]

    with pytest.raises(Malformed):
        decompress(CODECS["lz4"], memoryview(lie), MIB)


def test_a_gzip_stream_with_a_wrong_checksum_is_malformed() -> None:
    compressed = gzip.compress(TEXT)
    lie = compressed[:-8] + struct.pack("<I", zlib.crc32(TEXT) ^ 1) + compressed[-4:]

    with pytest.raises(Malformed):
        decompress(CODECS["gzip"], memoryview(lie), MIB)


@pytest.mark.parametrize("reader", READERS)
def test_a_program_can_see_what_happens_without_gzip_as_with_kafka_python(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = a_batch(base_offset=8, codec="gzip")
    monkeypatch.setattr("kafka.codec.has_gzip", lambda: False)

    with pytest.raises(UnsupportedCodecError, match="gzip compression codec not found"):
        take_all(a_reader(batch, reader=reader))


@pytest.mark.parametrize("codec", ["snappy", "lz4", "zstd"])
def test_a_missing_codec_is_named_with_its_remedy(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = a_batch(base_offset=8, codec=codec)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    reader = a_reader(batch)

    with pytest.raises(UnsupportedCodecError) as caught:
        reader.take(1)

    for part in ("orders-3", "offset 8", codec, "pip install cramjam"):
        assert part in str(caught.value)


def test_gzip_needs_nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)

    assert len(a_reader(a_batch(codec="gzip")).take(1)) == 1


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_from_the_future_is_unsupported_not_corrupt(codec: int) -> None:
    reader = a_reader(a_batch(flags=codec))

    with pytest.raises(UnsupportedCodecError, match=f"codec {codec}"):
        reader.take(1)
