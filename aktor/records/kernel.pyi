"""What `kernel.pyx` offers."""

from collections.abc import Sequence

from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError

from aktor.records import columns
from aktor.records.reader import Deserialize

class Columns(columns.Columns): ...

class RecordReader:
    @property
    def next_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def error(self) -> KafkaError | None: ...
    @property
    def exhausted(self) -> bool: ...
    @property
    def next_timestamp(self) -> int: ...
    def __init__(
        self,
        data: memoryview | bytes,
        *,
        topic: str,
        partition: int,
        fetch_offset: int,
        check_crcs: bool = True,
        read_committed: bool = False,
        aborted: Sequence[tuple[int, int]] = (),
        deserialize_key: Deserialize | None = None,
        deserialize_value: Deserialize | None = None,
        max_batch_bytes: int = ...,
    ) -> None: ...
    def take(self, limit: int) -> list[ConsumerRecord]: ...
    def skip_to(self, offset: int) -> bool: ...
    def fill(self, columns: columns.Columns) -> int: ...
