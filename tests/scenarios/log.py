"""One partition's log: real v2 record batches, made with kafka-python's builder."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

#: Any moment will do, if it is always the same.
EPOCH_MS = 1_700_000_000_000

_LENGTH = struct.Struct(">i")


class Log:
    """Owns the batches of one partition, and who leads it."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.leader_epoch = 0
        self.start = 0
        self.end = 0
        self._batches: list[tuple[int, int, bytes]] = []
        #: Where each leader epoch begins.
        self._epochs = {0: 0}

    def lead(self, node: int) -> None:
        """This broker is elected. It has the whole log; if it has not, cut the log off before."""
        self.leader = node
        self.leader_epoch += 1
        self._epochs[self.leader_epoch] = self.end

    def truncate(self, offset: int) -> None:
        """The next leader has the log up to this offset; it must be the end of a batch."""
        self._batches = [one for one in self._batches if one[1] < offset]
        self._epochs = {epoch: at for epoch, at in self._epochs.items() if at < offset}
        self.end = offset

    def end_of(self, epoch: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch: the last epoch up to this one, and where it ends (KIP-320)."""
        if epoch == self.leader_epoch:
            return epoch, self.end
        later = [one for one in self._epochs if one > epoch]
        if not later or epoch < 0:
            return -1, -1
        known = [one for one in self._epochs if one <= epoch]
        return max(known, default=epoch), self._epochs[min(later)]

    def append(self, values: Iterable[bytes]) -> None:
        """One batch with these values."""
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 20,
        )
        count = 0
        for count, value in enumerate(values, 1):
            builder.append(
                count - 1,
                timestamp=EPOCH_MS + self.end + count - 1,
                key=None,
                value=value,
                headers=[],
            )
        batch = bytearray(builder.build())
        struct.pack_into(">q", batch, 0, self.end)
        struct.pack_into(">i", batch, 12, self.leader_epoch)
        self._batches.append((self.end, self.end + count - 1, bytes(batch)))
        self.end += count

    def corrupt(self, offset: int) -> None:
        """Flip a bit in the records of the batch that holds this offset."""
        for index, (first, last, data) in enumerate(self._batches):
            if first <= offset <= last:
                spoilt = bytearray(data)
                spoilt[-1] ^= 1
                self._batches[index] = (first, last, bytes(spoilt))

    def name_codec(self, offset: int, codec: int) -> None:
        """The batch that holds this offset says that it is compressed with this codec."""
        for index, (first, last, data) in enumerate(self._batches):
            if first <= offset <= last:
                other = bytearray(data)
                struct.pack_into(">h", other, 21, codec)
                struct.pack_into(">I", other, 17, calc_crc32c(other[21:]))
                self._batches[index] = (first, last, bytes(other))

    def delete_before(self, offset: int) -> None:
        """Retention: the log starts here now."""
        self.start = offset
        self._batches = [one for one in self._batches if one[1] >= offset]

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        """Whole batches from the one that holds `offset`; the last may be cut off (KIP-74)."""
        data = bytearray()
        for _first, last, batch in self._batches:
            if last < offset:
                continue
            if len(data) + len(batch) > max_bytes:
                if not data and at_least_one:
                    data += batch
                else:
                    data += batch[: max(0, max_bytes - len(data))]
                break
            data += batch
        return bytes(data)

    def offset_at(self, timestamp: int) -> tuple[int, int]:
        """ListOffsets: (offset, timestamp); -2 is the start, -1 the end; (-1, -1) is none."""
        if timestamp == -2:
            return self.start, -1
        if timestamp == -1:
            return self.end, -1
        offset = max(self.start, timestamp - EPOCH_MS)
        return (offset, EPOCH_MS + offset) if offset < self.end else (-1, -1)
