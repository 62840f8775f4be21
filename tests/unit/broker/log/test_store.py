"""Bytes in memory and in files."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aktor.broker.codes import Code, Refused
from aktor.broker.log.store import FileStore, MemoryStore, Store

MakeStore = Callable[[], Store]


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else FileStore(tmp_path, segment_bytes=100)


def everything(store: Store) -> bytes:
    return bytes(store.read(store.start, store.end - store.start))


@pytest.mark.parametrize("size", [1, 60, 5_000, 40_000])
def test_what_was_appended_is_read(store: Store, size: int) -> None:
    parts = [bytes([number]) * size for number in range(10)]

    positions = [store.append(part) for part in parts]

    assert positions == list(range(0, 10 * size, size))
    assert everything(store) == b"".join(parts)
    assert store.read(size, size) == parts[1]
    assert store.read(10 * size, 5) == b""


def test_a_cut_off_end_is_written_anew(store: Store) -> None:
    for part in (b"a" * 60, b"b" * 60, b"c" * 60):
        store.append(part)

    store.truncate(90)

    assert store.append(b"d") == 90
    assert everything(store) == b"a" * 60 + b"b" * 30 + b"d"


def test_what_is_before_the_start_goes(store: Store) -> None:
    for _ in range(5):
        store.append(b"x" * 60_000)

    store.drop_before(150_000)

    assert 60_000 < store.start <= 150_000
    assert store.end == 300_000
    assert store.read(150_000, 10) == b"x" * 10


def test_an_emptied_store_keeps_its_position(store: Store) -> None:
    store.append(b"x" * 60)

    store.drop_before(60)

    assert (store.start, store.end) == (60, 60)
    assert store.append(b"y") == 60
    assert everything(store) == b"y"


def test_a_replacement_begins_at_zero(store: Store) -> None:
    for _ in range(3):
        store.append(b"x" * 60)
    store.drop_before(60)

    store.replace(bytes(part) for part in [b"a", store.read(60, 2)])

    assert (store.start, store.end) == (0, 3)
    assert everything(store) == b"axx"
    assert store.append(b"b") == 3


def test_memory_is_given_back_and_hardly_wasted() -> None:
    store = MemoryStore()
    big, small = b"x" * 40_000, b"y" * 100

    tracemalloc.start()
    for _ in range(50):
        store.append(bytes(bytearray(big)))
        for _ in range(100):
            store.append(small)
    size = tracemalloc.get_traced_memory()[0]
    store.drop_before(store.end)
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert store.end <= size < 1.3 * store.end
    assert left < 0.05 * store.end


# -- files


def test_files_are_found_again(tmp_path: Path) -> None:
    store = FileStore(tmp_path, segment_bytes=100)
    for number in range(5):
        store.append(bytes([number]) * 60)
    store.drop_before(130)

    again = FileStore(tmp_path, segment_bytes=100)

    assert (again.start, again.end) == (store.start, store.end) == (120, 300)
    assert everything(again) == everything(store)


def test_what_was_appended_is_in_the_file_at_once(tmp_path: Path) -> None:
    store = FileStore(tmp_path)

    store.append(b"record")

    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == b"record"


def test_an_emptied_file_store_keeps_its_position_over_a_restart(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.append(b"x" * 60)
    store.drop_before(60)

    assert FileStore(tmp_path).end == 60


def test_a_finished_replacement_is_put_in_place_after_a_crash(tmp_path: Path) -> None:
    FileStore(tmp_path).append(b"old")
    (tmp_path / "replacement.finished").write_bytes(b"new")

    assert everything(FileStore(tmp_path)) == b"new"
    assert everything(FileStore(tmp_path)) == b"new"


def test_an_unfinished_replacement_is_thrown_away_after_a_crash(tmp_path: Path) -> None:
    FileStore(tmp_path).append(b"old")
    (tmp_path / "replacement.unfinished").write_bytes(b"ne")

    assert everything(FileStore(tmp_path)) == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_deleted_topic_leaves_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "topic")
    store.append(b"x")

    store.destroy()

    assert not (tmp_path / "topic").exists()


def test_a_full_disk_is_a_storage_error_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path)
    store.append(b"first")
    write = os.pwrite

    def full(descriptor: int, data: bytes, at: int) -> int:
        if len(data) < 4:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:4], at)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(Refused, match="No space left") as caught:
        store.append(b"second")
    monkeypatch.undo()

    assert caught.value.code == Code.KAFKA_STORAGE_ERROR
    assert everything(store) == everything(FileStore(tmp_path)) == b"first"
    assert store.append(b"third") == 5


def test_a_file_that_was_shortened_is_a_storage_error(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.append(b"record")
    (path,) = tmp_path.iterdir()
    os.truncate(path, 3)

    with pytest.raises(Refused) as caught:
        store.read(0, 6)

    assert caught.value.code == Code.KAFKA_STORAGE_ERROR


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 300)),
        st.tuples(st.just("big"), st.integers(MemoryStore.BIG - 1, MemoryStore.BIG + 1)),
        st.tuples(st.just("truncate"), st.integers(0, 100)),
        st.tuples(st.just("drop"), st.integers(0, 100)),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(ACTIONS)
def test_both_are_like_one_row_of_bytes(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int]]
) -> None:
    stores: list[Store] = [
        MemoryStore(),
        FileStore(tmp_path_factory.mktemp("store"), segment_bytes=500),
    ]
    model, needed, fill = b"", 0, 0
    for action, number in actions:
        if action in ("append", "big"):
            fill = (fill + 1) % 256
            for store in stores:
                assert store.append(bytes([fill]) * number) == len(model)
            model += bytes([fill]) * number
        else:
            position = needed + (len(model) - needed) * number // 100
            for store in stores:
                (store.truncate if action == "truncate" else store.drop_before)(position)
            if action == "truncate":
                model = model[:position]
            else:
                needed = position
        for store in stores:
            assert store.start <= needed
            assert store.end == len(model)
            assert store.read(needed, len(model)) == model[needed:]
