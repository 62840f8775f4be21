"""What `record_iterator.pyx` offers."""

from collections.abc import Callable, Sized
from typing import Any

from aktor.consumer.core import batch
from aktor.consumer.core.iteration import Iteration

class Batch(batch.Batch): ...
class Attention(batch.Attention): ...

class RecordIterator:
    def __init__(
        self,
        next_record: Callable[[], Any],
        iteration: Iteration,
        attention: batch.Attention,
        events: Sized,
        clock: Callable[[], float] | None = None,
    ) -> None: ...
    def __iter__(self) -> RecordIterator: ...
    def __next__(self) -> Any: ...
