"""What `flat_json.pyx` offers."""

from collections.abc import Iterable

class FlatReader:
    def __init__(self, names: Iterable[str], kinds: str) -> None: ...
    def read(
        self, data: memoryview, ends: memoryview[int], first: int, rows: int
    ) -> list[tuple[int, list[bytes | None]]] | None: ...
