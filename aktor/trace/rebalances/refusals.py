"""What brokers refused to a member besides its commits: its login, the group, or a topic; and that
it could not reach any of them.

Such a member may never get into its group, so that no rebalance and no silence tells of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from aktor.trace.alike import without_numbers
from aktor.trace.rebalances.holds import called, of_group, seconds
from aktor.trace.rebalances.parts import Name, milliseconds
from aktor.trace.rebalances.rows import At, Refusal

__all__ = ["BROKERS", "GROUP", "LOGIN", "TOPIC", "Refusals", "is_login"]

#: What was refused.
LOGIN: Final = "login"
GROUP: Final = "group"
TOPIC: Final = "topic"
#: No broker could be reached that might have refused it something.
BROKERS: Final = "brokers"
_WORDS: Final = {
    LOGIN: "was refused the login",
    GROUP: "was refused the group",
    TOPIC: "was refused a topic",
    BROKERS: "could not reach any broker",
}

#: The same again after so many seconds is another row.
AGAIN: Final = 60.0


def is_login(because: str | None) -> bool:
    """Whether a connection failed because the user or the certificate was refused."""
    return because is not None and because.startswith("AuthenticationError")


@dataclass(slots=True, eq=False)
class _Refused:
    """What a member was refused, and how often."""

    name: Name
    began: float
    last: float
    because: str
    times: int = 1


@dataclass(slots=True, eq=False)
class Refusals:
    """Knows what the members of one group were refused last."""

    group: str
    _refused: dict[tuple[str, str], _Refused] = field(default_factory=dict)

    def tell(
        self, source: str, name: Name, what: str, at: float, because: str | None
    ) -> Refusal | None:
        """It was refused (one of `_WORDS`). Returns the row of what was refused
        before, if this is something else."""
        words = because or "its trace does not say why"
        before = self._refused.get((source, what))
        if (
            before is not None
            and at - before.last <= AGAIN
            and without_numbers(words) == without_numbers(before.because)
        ):
            before.times += 1
            before.last = max(before.last, at)
            return None
        self._refused[source, what] = _Refused(name, at, at, words)
        return None if before is None else self._row(what, before)

    def close(self, sources: Collection[str]) -> Iterator[Refusal]:
        """These traces end."""
        for source, what in sorted(key for key in self._refused if key[0] in sources):
            yield self._row(what, self._refused.pop((source, what)))

    def _row(self, what: str, refused: _Refused) -> Refusal:
        times, lasted = refused.times, milliseconds(refused.began, refused.last)
        again = "" if times == 1 else f" {times} times within {seconds(lasted)}"
        return Refusal(
            group=self.group,
            began=At(refused.began),
            ended=At(refused.last),
            consumer=refused.name[0],
            host=refused.name[1],
            refused=what,
            times=times,
            because=refused.because,
            sentence=f"{of_group(self.group)}: {called(refused.name)} {_WORDS[what]}{again}:"
            f" {refused.because.rstrip('.')}.",
        )
