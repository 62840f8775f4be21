"""The public names, as docs/api.md shows them: python -m tests.api_table writes the page anew."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parent.parent / "docs" / "api.md"

#: The modules whose `__all__` is public, and what for.
PUBLIC: Final = {
    "aktor": "The consumer, and the types that its methods take and return.",
    "aktor.aio": "The consumer for asyncio. [asyncio](asyncio.md).",
    "aktor.errors": "What a consumer raises besides the errors of `kafka.errors`.",
    "aktor.structs": "What methods take and return.",
    "aktor.serializer": "The base classes of deserializers.",
    "aktor.coordinator.assignors": "For `partition_assignment_strategy`.",
    "aktor.metrics": "For `metric_reporters`. [Metrics](metrics.md).",
    "aktor.metrics.metrics_reporter": "The base class of reporters.",
    "aktor.net.sasl.oauth": "Providers of tokens, for OAUTHBEARER: their base class, and one.",
    "aktor.partitioner": "Which partition a key is in.",
    "aktor.future": "What `commit_async` returns.",
    "aktor.cluster": "For programs that make a `ClusterMetadata` of their own.",
    "aktor.codec": "Which codecs there are: kafka-python's own.",
    "aktor.admin": "kafka-python's own admin client.",
    "aktor.producer": "kafka-python's own producer.",
    "aktor.deserializers": "Deserializers that say what they make. [Types](types.md).",
    "aktor.processing": "For `KafkaConsumer.process`. [Processing](processing.md).",
    "aktor.trace": "Events of a consumer. [Trace](trace.md) lists them.",
    "aktor.trace.pictures": "Pictures of rebalances. [In pictures](rebalances.md).",
    "aktor.trace.rebalances": "What traces say of rebalances. [Rebalances](spark_rebalances.md).",
    "aktor.broker": "A Kafka cluster for tests. [Embedded cluster](embedded.md).",
    "aktor.broker.control": "Its control port.",
    "aktor.testing.plugin": "The fixtures of pytest; nothing has to be imported.",
    "aktor.simulation": "Your loop in virtual time. [Simulation](simulation.md).",
    "aktor.spark": "The data source of PySpark. [Spark](spark.md).",
    "aktor.spark.rebalances": "The analysis of traces in Spark. [Rebalances](spark_rebalances.md).",
}

#: Modules that have all names of one of kafka-python's: a program need only replace the name of the
#: package. (The modules below `aktor.coordinator.assignors` have one of its names each.)
MIRRORS: Final = (
    *("errors", "structs", "serializer", "coordinator.assignors", "admin", "producer"),
    *("metrics", "metrics.metrics_reporter", "net.sasl.oauth", "partitioner", "codec"),
)

_HEAD: Final = """\
# Public names

A name is public if it stands on this page, as an attribute of the module above its table.
[Support](support.md#versions) says what that promises. These are public, too:

- methods, properties and arguments of these classes and functions, unless their names begin with an
  underscore, and their documented behaviour;
- the settings of `KafkaConsumer` ([Settings](configuration.md)), the options of the Spark source
  ([Spark](spark.md)), the names of metrics ([Metrics](metrics.md));
- the names and keys of trace events ([Trace](trace.md)), and the columns of `poll_arrow`
  ([Columns](columns.md));
- the command `aktor`: its subcommands, options and exit codes.

Every other module and name is internal, also without an underscore (`aktor.consumer.core`,
`aktor.managers`, ...), and may change in any version. So may the texts of errors and of log lines.
"""

#: What has no docstring.
_TOLD: Final = {
    "Json": "For type checkers: what `json.loads` returns.",
    "__version__": "The version of this package, a str.",
}


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for name, what in PUBLIC.items():
        module = importlib.import_module(name)
        parts += [f"\n## {name}\n\n{what}{_mirrored(name)}\n"]
        names = [one for one in sorted(module.__all__) if not _is_mirrored(module, one)]
        if names:
            parts += ["\n| name | is |\n|---|---|\n"]
        parts += [f"| `{one}` | {_sentence(module, one)} |\n" for one in names]
    return "".join(parts)


def _mirrored(name: str) -> str:
    """What is said of the names that are kafka-python's."""
    module = name.removeprefix("aktor.")
    if module not in MIRRORS:
        return ""
    return f" All names of kafka-python's `kafka.{module}` are here, too: the same objects."


def _is_mirrored(module: Any, name: str) -> bool:
    theirs = getattr(module, name)
    is_theirs = getattr(theirs, "__module__", "").partition(".")[0] == "kafka"
    return module.__name__.removeprefix("aktor.") in MIRRORS and is_theirs


def _sentence(module: Any, name: str) -> str:
    """The first sentence of what the name's docstring says."""
    if name in _TOLD:
        return _TOLD[name]
    thing = getattr(module, name)
    thing = getattr(thing, "__wrapped__", thing)  # a fixture
    if getattr(thing, "__module__", "").partition(".")[0] == "kafka":
        return f"kafka-python's `{thing.__module__}.{name}`."
    if not (inspect.isclass(thing) or callable(thing) or inspect.ismodule(thing)):
        return f"A constant, {'a tuple' if isinstance(thing, tuple) else type(thing).__name__}."
    text = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:])(?= [A-Z])", text)[0]
    return sentence.replace("|", "\\|").rstrip(":.") + "."


if __name__ == "__main__":
    PAGE.write_text(page())
