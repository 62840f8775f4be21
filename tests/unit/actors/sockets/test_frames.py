"""Rules of the frame cutter, given bytes in all kinds of pieces."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aktor.actors.sockets import frames
from aktor.actors.sockets.frames import BadLength, FrameCutter, GrowingFrame


class Stream:
    """A socket's receiving end, which gives out what it holds in pieces of this size."""

    def __init__(self, data: bytes, piece: int) -> None:
        self.data = memoryview(data)
        self.piece = piece

    def recv_into(self, space: memoryview) -> int:
        count = min(self.piece, len(space), len(self.data))
        space[:count] = self.data[:count]
        self.data = self.data[count:]
        return count


@pytest.fixture(
    autouse=True, params=["python", "compiled"] if frames._made is not GrowingFrame else ["python"]
)
def _each_kind_of_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(frames, "_made", GrowingFrame)


def resident() -> int:
    """The bytes of memory that this process has touched and not given back."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def framed(*contents: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(one)) + one for one in contents)


def cut(data: bytes, piece: int, *, scratch: int = 64, limit: int = 10_000_000) -> list[bytes]:
    cutter, stream = FrameCutter(limit, bytearray(scratch)), Stream(data, piece)
    while stream.data:
        cutter.receive(stream.recv_into)
    return [bytes(one) for one in cutter.frames]


@pytest.mark.parametrize("piece", [1, 2, 3, 4, 5, 7, 63, 64, 65, 10_000_000])
def test_frames_come_out_whole_whatever_the_pieces(piece: int) -> None:
    rng = random.Random(piece)
    sizes = [0, 1, 3, 4, 59, 60, 61, 64, 500, 0, 0, 7]
    contents = [rng.randbytes(size) for size in sizes]

    assert cut(framed(*contents), piece) == contents


def test_it_tells_whether_a_frame_is_arriving_or_has_come_to_a_halt() -> None:
    cutter, stream = FrameCutter(10_000, bytearray(64)), Stream(framed(b"x" * 1000), 100)

    cutter.receive(stream.recv_into)
    assert cutter.has_heard()
    assert not cutter.has_heard(), "nothing came since"
    while stream.data:
        cutter.receive(stream.recv_into)

    assert not cutter.has_heard(), "the frame is complete"


def test_a_frame_of_which_as_much_has_come_as_of_the_one_before_is_arriving() -> None:
    stream = Stream(framed(b"x" * 2000, b"y" * 2000), 1002)
    cutter = FrameCutter(10_000, bytearray(4096))

    cutter.receive(stream.recv_into)
    assert cutter.has_heard()
    cutter.receive(stream.recv_into)  # the rest of the first
    cutter.receive(stream.recv_into)

    assert cutter.has_heard()


def test_a_frame_longer_than_the_first_allocation_grows_as_it_arrives() -> None:
    content = random.Random(1).randbytes(5_000_000)

    assert cut(framed(b"before", content, b"after"), 300_000) == [b"before", content, b"after"]


def test_an_announced_length_is_not_believed_before_the_bytes_are_there() -> None:
    cutter = FrameCutter(100_000_000, bytearray(64))
    stream = Stream(struct.pack(">i", 99_000_000) + bytes(100), 1000)
    before = resident()

    while stream.data:
        cutter.receive(stream.recv_into)

    assert resident() - before < 3_000_000
    assert cutter.mid_frame


@pytest.mark.parametrize("length", [-1, 101, 2**31 - 1])
def test_an_impossible_length_is_refused_and_what_came_before_is_kept(length: int) -> None:
    cutter = FrameCutter(100, bytearray(64))

    with pytest.raises(BadLength) as refusal:
        cutter.receive(Stream(framed(b"well") + struct.pack(">i", length), 1000).recv_into)

    assert [bytes(one) for one in cutter.frames] == [b"well"]
    assert refusal.value.head == struct.pack(">i", length)


def test_frames_cannot_be_written_to() -> None:
    cutter = FrameCutter(1000, bytearray(64))
    stream = Stream(framed(b"short", bytes(200)), 1000)
    while stream.data:
        cutter.receive(stream.recv_into)

    assert [one.readonly for one in cutter.frames] == [True, True]


def test_cutters_can_share_the_scratch_buffer() -> None:
    scratch = bytearray(64)
    cutters = [FrameCutter(1000, scratch) for _ in range(2)]
    contents = [bytes([65 + i]) * 150 for i in range(2)]
    streams = [Stream(framed(content), 10) for content in contents]

    for _ in range(20):
        for cutter, stream in zip(cutters, streams, strict=True):
            cutter.receive(stream.recv_into)

    assert [bytes(cutter.frames[0]) for cutter in cutters] == contents


# -- from a plain socket, at one go


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def a_memory(length: int) -> Any:
    made = pytest.importorskip("aktor.actors.sockets.frame_memory", reason="nothing is compiled")
    return made.FrameMemory(length, memoryview(b"begun"))


def test_the_rest_of_a_frame_comes_at_one_go_and_nothing_of_the_next_one(pair: Any) -> None:
    ours, theirs = pair
    memory = a_memory(100_005)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)
    content = random.Random(2).randbytes(100_000)
    theirs.sendall(content + b"next")

    assert memory.fill(ours.fileno()) == (100_000, 100_000)
    assert memory.content() == b"begun" + content
    assert memory.content().readonly
    assert ours.recv(100) == b"next"


def test_a_silence_ends_it(pair: Any) -> None:
    ours, theirs = pair
    memory = a_memory(1000)
    theirs.sendall(b"a little")

    assert memory.fill(ours.fileno()) == (8, 995)
    with pytest.raises(BlockingIOError):
        memory.fill(ours.fileno())
    assert (memory.filled, memory.length) == (13, 1000)


def test_a_peer_that_never_stops_sending_does_not_keep_it(pair: Any) -> None:
    ours, theirs = pair
    memory = a_memory(2**31)

    def flood() -> None:
        with contextlib.suppress(OSError):
            while True:
                theirs.sendall(bytes(100_000))

    sending = threading.Thread(target=flood, daemon=True)
    sending.start()
    received = 0
    while not received:
        with contextlib.suppress(BlockingIOError):
            received, _ = memory.fill(ours.fileno())
    ours.close()
    sending.join()

    assert 0 < received < 2**31 - 5


def test_the_end_and_an_error_of_the_socket_are_told(pair: Any) -> None:
    ours, theirs = pair
    memory = a_memory(1000)
    theirs.sendall(b"last words")
    theirs.close()

    assert memory.fill(ours.fileno())[0] == 10
    assert memory.fill(ours.fileno())[0] == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        memory.fill(-1)


def test_an_incomplete_frame_is_not_given_out() -> None:
    with pytest.raises(AssertionError):
        a_memory(1000).content()
