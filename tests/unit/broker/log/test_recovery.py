"""A log in files after its process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aktor.broker.codes import Code, Refused
from aktor.broker.log.log import LogConfig, PartitionLog
from aktor.broker.log.store import FileStore
from aktor.records.batch import BatchHeader
from tests.unit.broker.log.building import (
    NOW,
    a_batch,
    end_transaction,
    in_transaction,
    offsets,
    values,
    write,
    write_each,
)


def opened(folder: Path, *, start_offset: int = 0, **config: Any) -> PartitionLog:
    return PartitionLog(
        config=LogConfig(**config),
        store=FileStore(folder, segment_bytes=1000),
        start_offset=start_offset,
    )


def the_same(one: PartitionLog, other: PartitionLog) -> bool:
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("start_offset", "end_offset", "latest_epoch", "last_stable_offset")
    ) and (
        one.active_producers() == other.active_producers()
        and one.aborted(0, one.end_offset) == other.aborted(0, other.end_offset)
        and values(one) == values(other)
        and values(one, read_committed=True) == values(other, read_committed=True)
    )


def test_everything_is_there_again(tmp_path: Path) -> None:
    log = opened(tmp_path)
    write(log, a_batch(b"a", b"b"), epoch=3)
    write(log, in_transaction(7, 0, b"c"), epoch=3)
    end_transaction(log, 7, commit=False)
    write(log, in_transaction(7, 1, b"d"), epoch=4)
    write_each(log, *[b"x" * 100] * 20)

    again = opened(tmp_path)

    assert the_same(log, again)
    assert again.high_watermark == again.end_offset
    assert again.in_transaction(7)
    assert write(again, in_transaction(7, 1, b"d")).duplicate
    assert again.end_offset_for_epoch(3) == log.end_offset_for_epoch(3)


@pytest.mark.parametrize("left", [1, 40, 61, 69])
def test_a_torn_end_is_cut_off(tmp_path: Path, left: int) -> None:
    log = opened(tmp_path)
    write_each(log, b"a", b"b")
    store = FileStore(tmp_path)
    store.append(a_batch(b"torn")[:left])

    again = opened(tmp_path)

    assert values(again) == [b"a", b"b"]
    write_each(again, b"c")
    assert values(opened(tmp_path)) == [b"a", b"b", b"c"]


def test_a_corrupt_batch_and_all_after_it_are_cut_off(tmp_path: Path) -> None:
    log = opened(tmp_path)
    write_each(log, *[b"x" * 100] * 30)
    second = sorted(tmp_path.iterdir())[1]
    data = bytearray(second.read_bytes())
    data[-1] ^= 1
    second.write_bytes(data)

    again = opened(tmp_path)

    assert offsets(again) == list(range(again.end_offset))
    assert 5 < again.end_offset < 30
    write_each(again, b"y")
    assert values(opened(tmp_path)) == values(again)


def test_the_start_is_kept_by_who_is_told(tmp_path: Path) -> None:
    starts: list[int] = []
    log = PartitionLog(store=FileStore(tmp_path, segment_bytes=1000), on_start=starts.append)
    write(log, a_batch(b"a", b"b", b"c"))
    write_each(log, *[b"x" * 100] * 20)

    log.delete_before(1)
    assert starts == [1]
    again = opened(tmp_path, start_offset=1)
    assert the_same(log, again)
    assert values(again)[0] == b"b"

    again.delete_before(23)
    last = opened(tmp_path, start_offset=23)
    assert (last.start_offset, last.end_offset) == (23, 23)
    write_each(last, b"z")
    assert offsets(opened(tmp_path, start_offset=23)) == [23]


def test_a_cleaned_log_is_there_again(tmp_path: Path) -> None:
    log = opened(tmp_path, cleanup_policy=frozenset({"compact"}))
    for number in range(30):
        write(log, a_batch(b"%d" % number, keys=[b"%d" % (number % 3)]))

    log.compact(NOW, force=True)

    again = opened(tmp_path)
    assert the_same(log, again)
    assert offsets(again) == [27, 28, 29]


def test_a_full_disk_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    write_each(log, b"a")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(Refused) as caught:
        write(log, in_transaction(7, 0, b"b"))
    monkeypatch.undo()

    assert caught.value.code == Code.KAFKA_STORAGE_ERROR
    assert (log.end_offset, log.last_stable_offset, log.active_producers()) == (1, 1, [])
    assert not write(log, in_transaction(7, 0, b"b")).duplicate


WRITER = """
import sys
from aktor.broker.log.log import PartitionLog
from aktor.broker.log.store import FileStore
from tests.unit.broker.log.building import NOW, a_batch
log = PartitionLog(store=FileStore(sys.argv[1]))
while True:
    print(log.append(a_batch(b"value"), leader_epoch=0, now=NOW).last_offset, flush=True)
"""


def test_every_answered_record_outlives_a_killed_process(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process, process.stdout:
        answered = [int(process.stdout.readline()) for _ in range(300)][-1]
        process.send_signal(signal.SIGKILL)
        process.wait(30)

    log = opened(tmp_path)

    assert log.end_offset > answered
    assert set(values(log)) == {b"value"}


def checked_bytes(data: bytes | bytearray) -> list[int]:
    """Where a change is found: neither in a base offset nor in a leader epoch."""
    found, at = [], 0
    while at < len(data):
        size = BatchHeader.read(data, at).size
        found += [*range(at + 8, at + 12), *range(at + 16, at + size)]
        at += size
    return found


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=20),
    where=st.integers(0, 10**9),
    cut=st.booleans(),
)
def test_whatever_happens_to_a_file_a_sound_beginning_is_left(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], where: int, cut: bool
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = opened(folder)
    contents = [bytes([index]) * size for index, size in enumerate(sizes)]
    write_each(log, *contents)
    log.close()
    paths = sorted(folder.iterdir())
    path = paths[where % len(paths)]
    data = bytearray(path.read_bytes())
    if cut:
        os.truncate(path, where % len(data))
    else:
        places = checked_bytes(data)
        data[places[where % len(places)]] ^= 0xFF
        path.write_bytes(data)

    again = opened(folder)

    left = values(again)
    assert left == contents[: len(left)]
    assert again.end_offset == len(left) < len(contents)
