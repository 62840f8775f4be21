"""LZ4 as Kafka's clients write it, which the compiled reader decompresses itself."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.records.builders_twins import assert_alike
from tests.unit.records.building import (
    READERS,
    a_batch,
    a_reader,
    a_record,
    lz4_frame_of,
    lz4_of_kafka,
    values,
)

KIB = 1024
WORDS = b"to be read as it was written, "
CONTENTS: dict[str, Callable[[], bytes]] = {
    "words": lambda: WORDS * 9000,
    "one byte": lambda: b"x" * 300_000,
    "noise": lambda: random.Random(1).randbytes(200_000),
    "noise among words": lambda: b"".join(
        WORDS[: index % 30] + random.Random(index).randbytes(index % 50) for index in range(9000)
    ),
    "digits": lambda: b"".join(b"%d," % (index * index) for index in range(40_000)),
    "little": lambda: b"a",
}


@pytest.mark.few_cases
@pytest.mark.parametrize("block_size", [64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB])
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("reader", READERS)
def test_what_went_in_comes_out(reader: str, content: str, block_size: int) -> None:
    value = CONTENTS[content]()
    batch = a_batch(
        values(value, b"last"),
        codec="lz4",
        compress=lambda data: lz4_of_kafka(data, block_size),
    )

    assert [record.value for record in a_reader(batch, reader=reader).take(9)] == [value, b"last"]


@pytest.mark.skipif("compiled" not in READERS, reason="there is no compiled reader here")
def test_the_compiled_reader_needs_no_library_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = a_batch(values(WORDS * 99), codec="lz4", compress=lz4_of_kafka)
    monkeypatch.setitem(sys.modules, "cramjam", None)

    assert [record.value for record in a_reader(batch, reader="compiled").take(1)] == [WORDS * 99]


@pytest.mark.parametrize("reader", READERS)
def test_batches_one_after_the_other_do_not_mix(reader: str) -> None:
    """The second and the third are decompressed into the room of the first."""
    sizes = [200_000, 50_000, 300_000, 5_000_000, 10]
    batches = [
        a_batch(
            values(bytes([number]) * size, b"end"),
            base_offset=number * 2,
            codec="lz4",
            compress=lz4_of_kafka,
        )
        for number, size in enumerate(sizes)
    ]
    made = a_reader(b"".join(batches), reader=reader)

    given = [made.take(1)[0].value for _ in range(2 * len(sizes))]

    assert given[::2] == [bytes([number]) * size for number, size in enumerate(sizes)]
    assert set(given[1::2]) == {b"end"}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([WORDS, b"x" * 70]), max_size=12),
    st.lists(st.tuples(st.integers(0), st.binary(min_size=1, max_size=3)), max_size=3),
    st.integers(0, 4),
)
def test_damaged_frames(parts: list[bytes], damage: list[tuple[int, bytes]], cut: int) -> None:
    def compress(data: bytes) -> bytes:
        frame = bytearray(lz4_of_kafka(data))
        for place, wrong in damage:
            start = place % len(frame)
            frame[start : start + len(wrong)] = wrong
        return bytes(frame[: len(frame) - cut])

    batch = a_batch(values(*parts), codec="lz4", compress=compress)
    for limit in (1 << 20, 200, 64):
        assert_alike(batch, max_batch_bytes=limit)


@st.composite
def sequences(draw: st.DrawFn) -> bytes:
    """A block of literals and matches, near and far, sound or not."""
    out = b""
    for _ in range(draw(st.integers(0, 5))):
        literals = draw(st.binary(max_size=40))
        distance = draw(st.integers(0, 3) | st.integers(0, 45) | st.just(70_000 % 65_536))
        length = draw(st.integers(4, 30) | st.sampled_from([18, 19, 273, 274, 529, 70_000]))
        out += _sequence(literals, length) + distance.to_bytes(2, "little") + _rest(length - 4)
    return out + _sequence(draw(st.binary(max_size=30)), 4)


def _sequence(literals: bytes, length: int) -> bytes:
    token = min(15, len(literals)) << 4 | min(15, length - 4)
    return bytes((token,)) + _rest(len(literals)) + literals


def _rest(length: int) -> bytes:
    if length < 15:
        return b""
    return b"\xff" * ((length - 15) // 255) + bytes(((length - 15) % 255,))


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(sequences(), st.booleans()), min_size=1, max_size=3))
def test_any_sequences(blocks: list[tuple[bytes, bool]]) -> None:
    def compress(data: bytes) -> bytes:
        return lz4_frame_of([(data, True), *blocks])

    batch = a_batch([a_record(0, b"v")], count=2, codec="lz4", compress=compress)
    assert_alike(batch)  # what they give is the second record


@pytest.mark.parametrize("reader", READERS)
def test_a_match_may_repeat_what_it_writes(reader: str) -> None:
    for distance in range(1, 40):
        seed = bytes(range(distance))
        content = (seed * 99)[: distance + 1000]
        block = _sequence(seed, 995) + distance.to_bytes(2, "little") + _rest(995 - 4)
        block += _sequence(content[-5:], 4)

        def compress(data: bytes, block: bytes = block, content: bytes = content) -> bytes:
            before, behind = data.split(content)
            return lz4_frame_of([(before, True), (block, False), (behind, True)])

        batch = a_batch(values(content), codec="lz4", compress=compress)
        assert a_reader(batch, reader=reader).take(1)[0].value == content
