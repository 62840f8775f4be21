"""What the header of a batch must say, and what a broken one is called."""

from __future__ import annotations

import pytest

from aktor.errors import CorruptBatchError
from tests.unit.records.building import a_batch, a_reader, a_record, take_all, values


def test_a_wrong_checksum_is_refused_with_coordinates() -> None:
    reader = a_reader(a_batch(base_offset=40, crc=1), fetch_offset=40)

    with pytest.raises(CorruptBatchError, match=r"checksum .* offsets 40 to 40") as caught:
        reader.take(1)

    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 3, 40)


def test_a_wrong_checksum_is_not_looked_at_without_check_crcs() -> None:
    reader = a_reader(a_batch(crc=1), check_crcs=False)

    assert [record.value for record in reader.take(1)] == [b"value"]


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_an_unknown_magic_is_refused(magic: int) -> None:
    reader = a_reader(a_batch(magic=magic))

    with pytest.raises(CorruptBatchError, match="unknown message format"):
        reader.take(1)


@pytest.mark.few_cases
@pytest.mark.parametrize("check_crcs", [True, False])
@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(a_batch(count=2), id="more records than there are"),
        pytest.param(a_batch(values(b"a", b"b"), count=1), id="fewer records than there are"),
        pytest.param(a_batch(count=-1, last_offset_delta=0), id="a negative count"),
        pytest.param(a_batch(count=2, last_offset_delta=0), id="more records than offsets"),
        pytest.param(a_batch(last_offset_delta=-1), id="a negative last offset"),
        pytest.param(a_batch(base_offset=-1), id="a negative base offset"),
        pytest.param(a_batch(count=2**31 - 1), id="an absurd count"),
        pytest.param(a_batch([a_record(), b"garbage"], count=1), id="garbage after the records"),
        pytest.param(a_batch([b"garbage"], count=0, last_offset_delta=9), id="garbage alone"),
        pytest.param(a_batch()[:8] + b"\xff" * 4 + a_batch()[12:], id="a negative length"),
        pytest.param(a_batch()[:8] + b"\0\0\0\x20" + a_batch()[12:], id="shorter than a header"),
        pytest.param(bytes(12), id="no length"),
    ],
)
def test_an_inconsistent_batch_is_refused(batch: bytes, check_crcs: bool) -> None:
    reader = a_reader(batch, check_crcs=check_crcs)

    with pytest.raises(CorruptBatchError):
        take_all(reader)


@pytest.mark.parametrize(
    ("count", "last_offset_delta"), [(-1, 1), (3, 1), (1000, 999), (2**31 - 1, 2**31 - 1)]
)
def test_an_impossible_count_is_refused_before_anything_is_delivered(
    count: int, last_offset_delta: int
) -> None:
    batch = a_batch(values(b"a", b"b"), count=count, last_offset_delta=last_offset_delta)

    with pytest.raises(CorruptBatchError, match=f"{count} records in"):
        a_reader(batch).take(1)


def test_batches_that_step_back_are_refused_rather_than_delivered_twice() -> None:
    reader = a_reader(a_batch(base_offset=10) + a_batch(base_offset=10), fetch_offset=10)

    assert [record.offset for record in reader.take(5)] == [10]

    with pytest.raises(CorruptBatchError, match="after those before 11"):
        reader.take(5)


def test_a_batch_that_was_cut_off_by_the_broker_does_not_count() -> None:
    whole, cut = a_batch(base_offset=0), a_batch(base_offset=1)[:-1]
    reader = a_reader(whole + cut)

    assert [record.offset for record in reader.take(5)] == [0]

    assert reader.exhausted
    assert reader.take(5) == []
    assert reader.next_offset == 1
