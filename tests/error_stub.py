"""`python -m tests.error_stub`: write `aktor/kafka_errors.pyi` anew, from kafka-python's errors."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Final

import kafka.errors

STUB: Final = Path(__file__).parent.parent / "aktor" / "kafka_errors.pyi"

HEAD: Final = '''\
"""What `kafka_errors` has, for type checkers: made by `python -m tests.error_stub`."""

from aktor.structs import OffsetAndMetadata, TopicPartition

'''

#: What the classes have besides what Python's exceptions have.
MEMBERS: Final = {
    "KafkaError": ["retriable: bool", "invalid_metadata: bool"],
    "BrokerResponseError": ["errno: int | None", "message: str | None", "description: str | None"],
    "LogTruncationError": [
        "divergent_offsets: dict[TopicPartition, OffsetAndMetadata | None]",
        "def __init__(",
        "    self,",
        "    divergent_offsets: dict[TopicPartition, OffsetAndMetadata | None],",
        "    *args: object,",
        ") -> None: ...",
    ],
}


def stub() -> str:
    """The whole file."""
    classes = "".join(
        _class(name, value)
        for name, value in vars(kafka.errors).items()
        if inspect.isclass(value) and name[0] != "_"
    )
    text = f"{HEAD}{classes}\ndef for_code(error_code: int) -> type[BrokerResponseError]: ...\n"
    return re.sub("\n{3,}", "\n\n", text)


def _class(name: str, value: type) -> str:
    if value.__name__ != name:
        return f"\n{name} = {value.__name__}\n\n"
    bases = ", ".join(base.__name__ for base in value.__bases__)
    members = MEMBERS.get(name)
    if members is None:
        return f"class {name}({bases}): ...\n"
    return f"\nclass {name}({bases}):\n" + "".join(f"    {one}\n" for one in members) + "\n"


if __name__ == "__main__":
    STUB.write_text(stub())
