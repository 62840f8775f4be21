"""The tables that traces give, as plain rows, or as pandas and Polars have them."""

from __future__ import annotations

import importlib
import typing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aktor.trace.rebalances.rows import (
    At,
    Downtime,
    MemberPart,
    MemberTotal,
    OwnedPartition,
    Rebalance,
    Refusal,
    RefusedCommit,
    Reset,
    Row,
    Silence,
    Span,
    Storm,
)

__all__ = ["DRAWN", "TABLES", "Tables", "to_pandas", "to_polars"]

#: The tables by their names.
TABLES: Final[Mapping[str, type[Row]]] = {
    "rebalances": Rebalance,
    "parts": MemberPart,
    "downtimes": Downtime,
    "silences": Silence,
    "refusals": Refusal,
    "refused_commits": RefusedCommit,
    "resets": Reset,
    "storms": Storm,
    "members": MemberTotal,
    "spans": Span,
    "owned_partitions": OwnedPartition,
}

#: The tables that say nothing new to people: pictures are drawn from them.
DRAWN: Final = frozenset({"spans", "owned_partitions"})

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Table(list[Row]):
    """The rows of one table. Also of an empty one it is known which columns it has."""

    def __init__(self, kind: type[Row]) -> None:
        super().__init__()
        self.kind = kind


class Tables:
    """The rows of each table, in the order of their times.

    `counts` says how many lines were read ("lines"), and how many of them were not understood, by
    the reason ("torn", "no time", "no group", "another event", "late", "repeated"). A file that has
    no line of a trace counts as one "not a trace: <file>".
    """

    def __init__(self, rows: Iterable[Row] = (), counts: Mapping[str, int] | None = None) -> None:
        self.counts: Counter[str] = Counter(counts or {})
        self._rows: dict[type[Row], _Table] = {kind: _Table(kind) for kind in TABLES.values()}
        for row in rows:
            self._rows[type(row)].append(row)
        for kind, of_kind in self._rows.items():
            if kind is not MemberTotal:
                of_kind.sort(key=_time)

    def __getitem__(self, table: str) -> list[Row]:
        """The rows of the table of this name (a key of `TABLES`)."""
        return self._rows[TABLES[table]]

    @property
    def rebalances(self) -> list[Rebalance]:
        """A row for each rebalance: what triggered it, whom it waited for, what moved."""
        return typing.cast(list[Rebalance], self["rebalances"])

    @property
    def parts(self) -> list[MemberPart]:
        """A row for each member's part in a rebalance."""
        return typing.cast(list[MemberPart], self["parts"])

    @property
    def downtimes(self) -> list[Downtime]:
        """A row for each partition that got an owner again: how long nothing was delivered."""
        return typing.cast(list[Downtime], self["downtimes"])

    @property
    def silences(self) -> list[Silence]:
        """A row for each time that an owner was given nothing although there were records."""
        return typing.cast(list[Silence], self["silences"])

    @property
    def refusals(self) -> list[Refusal]:
        """A row for each login, group and topic that brokers refused to a member, and for each time
        that its coordinator did not answer it."""
        return typing.cast(list[Refusal], self["refusals"])

    @property
    def refused_commits(self) -> list[RefusedCommit]:
        """A row for each commit that ended in an error."""
        return typing.cast(list[RefusedCommit], self["refused_commits"])

    @property
    def resets(self) -> list[Reset]:
        """A row for each position that was reset."""
        return typing.cast(list[Reset], self["resets"])

    @property
    def storms(self) -> list[Storm]:
        """A row for many rebalances that followed each other closely."""
        return typing.cast(list[Storm], self["storms"])

    @property
    def members(self) -> list[MemberTotal]:
        """A row for each client id on a host: all that it did in a group."""
        return typing.cast(list[MemberTotal], self["members"])

    @property
    def spans(self) -> list[Span]:
        """A row for each state of a member, each callback and each wait: from when to when."""
        return typing.cast(list[Span], self["spans"])

    @property
    def owned_partitions(self) -> list[OwnedPartition]:
        """A row for each owner of each partition."""
        return typing.cast(list[OwnedPartition], self["owned_partitions"])


def _time(row: Any) -> float:
    owned = isinstance(row, Downtime | OwnedPartition)
    at: float | None = row.assigned if owned else getattr(row, "began", None)
    return float(row.at if at is None else at)


def times_of(kind: type[Row]) -> frozenset[str]:
    """The fields of a row that are times."""
    hints = typing.get_type_hints(kind)
    return frozenset(
        name for name, hint in hints.items() if hint is At or At in typing.get_args(hint)
    )


def _kind(rows: Sequence[Row], kind: type[Row] | None) -> type[Row]:
    """Of which table these rows are. Raises ValueError if nothing says it."""
    kind = rows.kind if kind is None and isinstance(rows, _Table) else kind
    kinds = {type(row) for row in rows} or ({kind} if kind is not None else set())
    if len(kinds) != 1:
        raise ValueError("the rows of one table are wanted, and of an empty one its kind")
    return kinds.pop()


def _columns(rows: Sequence[Row], kind: type[Row]) -> dict[str, list[Any]]:
    times = times_of(kind)
    records = [asdict(row) for row in rows]
    return {
        field.name: [
            _moment(record[field.name]) if field.name in times else record[field.name]
            for record in records
        ]
        for field in fields(kind)
    }


def _types(kind: type[Row]) -> Iterator[tuple[str, Any, bool]]:
    """The columns of a table: each with its type, and whether a row may have None there."""
    for name, hint in typing.get_type_hints(kind).items():
        (of_values,) = set(typing.get_args(hint) or (hint,)) - {type(None)}
        yield name, of_values, type(None) in typing.get_args(hint)


def _moment(at: float | None) -> datetime | None:
    return None if at is None else _EPOCH + timedelta(microseconds=round(at * 1e6))


#: What a column is in pandas, by its type, and if a row may have None there.
_PANDAS: Final[Mapping[tuple[Any, bool], str]] = {
    **{(str, none): "object" for none in (False, True)},
    **{(float, none): "float64" for none in (False, True)},
    **{(At, none): "datetime64[us, UTC]" for none in (False, True)},
    (int, False): "int64",
    (int, True): "Int64",
    (bool, False): "bool",
    (bool, True): "boolean",
}


def to_pandas(rows: Sequence[Row], kind: type[Row] | None = None) -> Any:
    """A DataFrame of these rows of one table; times in UTC. The types of its columns are those of
    the table, whatever the rows hold, and if there are none. An empty list that is no table of
    `Tables` needs `kind`, the class of its rows. Raises ModuleNotFoundError without pandas,
    ValueError for rows of several tables."""
    pandas = importlib.import_module("pandas")  # it has no types, and need not be installed
    kind = _kind(rows, kind)
    columns = _columns(rows, kind)
    return pandas.DataFrame(
        {
            name: pandas.Series(columns[name], dtype=_PANDAS[of_values, none])
            for name, of_values, none in _types(kind)
        }
    )


def to_polars(rows: Sequence[Row], kind: type[Row] | None = None) -> Any:
    """As `to_pandas`, for Polars."""
    polars = importlib.import_module("polars")
    of_types = {
        str: polars.String,
        int: polars.Int64,
        float: polars.Float64,
        bool: polars.Boolean,
        At: polars.Datetime("us", "UTC"),
    }
    kind = _kind(rows, kind)
    schema = {name: of_types[of_values] for name, of_values, _ in _types(kind)}
    return polars.DataFrame(_columns(rows, kind), schema=schema)
