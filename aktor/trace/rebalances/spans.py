"""What each member of a group did, from when to when: the rows that pictures are drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field

from aktor.trace.rebalances.assembly import EXPELLED
from aktor.trace.rebalances.lines import DELIVERED, Event
from aktor.trace.rebalances.parts import Life, Part, milliseconds
from aktor.trace.rebalances.rows import At, Span

__all__ = ["AWAY", "CALLBACK", "STATE", "WAIT", "Spans"]

#: The kinds of spans.
STATE, CALLBACK, WAIT, AWAY = "state", "callback", "wait", "away"


@dataclass(slots=True, eq=False)
class _State:
    """The state of a member, and the time of the last event of its trace."""

    what: str | None
    because: str | None
    began: float
    told: float
    #: When the coordinator was seen to have taken it out of the group; None as soon as the member
    #: tells something again.
    expelled: float | None = None


@dataclass(slots=True, eq=False)
class Spans:
    """Knows what each member of one group does now."""

    group: str
    #: Rows that are complete.
    over: list[Span] = field(default_factory=list)
    _states: dict[str, _State] = field(default_factory=dict)

    def tell(self, life: Life, at: float, event: Event) -> None:
        """The next event of this member."""
        state = self._states.get(life.source)
        if state is None:
            state = self._states[life.source] = _State(None, None, at, at)
        if state.expelled is not None:
            # If it delivers, it is there, and does not know yet that it is no member any more.
            if event["event"] != DELIVERED:
                self._end_state(life, state, state.told)
                self._add(life, AWAY, AWAY, state.told, at, EXPELLED)
                state.began = at
            state.expelled = None
        if event["event"] == "membership.moved" and isinstance(event.get("after"), str):
            if state.what is None and isinstance(event.get("before"), str):
                state.what = event["before"]
            self._end_state(life, state, at)
            because = event.get("because")
            state.because = because if isinstance(because, str) else None
            state.what, state.began = event["after"], at
        state.told = at

    def expel(self, life: Life, at: float) -> None:
        """The coordinator has taken it out of the group, and its own trace says nothing of that."""
        state = self._states.get(life.source)
        if state is not None and state.expelled is None:
            state.expelled = at

    def is_expelled(self, life: Life) -> bool:
        """Whether it was taken out, and has told nothing since."""
        state = self._states.get(life.source)
        return state is not None and state.expelled is not None

    def called_back(self, life: Life, call: str, at: float, ms: float) -> None:
        """Its rebalance listener has returned, after so many milliseconds."""
        self._add(life, CALLBACK, call, at - ms / 1000, at)

    def waited(self, life: Life, part: Part) -> None:
        """Its part in a rebalance is over: what it waited for in the application."""
        for what, since, until in part.waited_for:
            if what in ("poll", "commit"):
                self._add(life, WAIT, what, since, until)

    def coordinator_was_away(self, life: Life) -> None:
        """Its coordinator has answered again, or is away anew."""
        for away in life.aways:
            ended = away.began if away.ended is None else away.ended
            self._add(life, WAIT, "coordinator", away.began, ended, away.who)
        life.aways = []

    def end(self, life: Life, last: float) -> float:
        """The traces end, with this event; returns when that of this member does. What a member is
        in that is in a rebalance yet goes on as long as any trace."""
        state = self._states.pop(life.source, None)
        if state is None:  # it has told only that it lives
            return life.told
        goes_on = life.last_part is not None and life.last_part.goes_on
        told = last if goes_on else state.told
        self._end_state(life, state, told, unfinished=True)
        if life.calling is not None and state.expelled is None:
            self._add(life, CALLBACK, *life.calling, told, unfinished=True)
        if state.expelled is not None:
            self._add(life, AWAY, AWAY, state.told, state.expelled, EXPELLED)
        away = life.away
        if away is not None:
            ended = state.told if away.ended is None else away.ended
            goes_on = away.ended is None
            self._add(life, WAIT, "coordinator", away.began, ended, away.who, unfinished=goes_on)
        return state.told

    def _end_state(self, life: Life, state: _State, at: float, *, unfinished: bool = False) -> None:
        if state.what is not None:
            because = state.because
            self._add(life, STATE, state.what, state.began, at, because, unfinished=unfinished)

    def _add(
        self,
        life: Life,
        kind: str,
        what: str,
        began: float,
        ended: float,
        because: str | None = None,
        *,
        unfinished: bool = False,
    ) -> None:
        lasted = milliseconds(began, ended)
        if lasted <= 0.0 and not unfinished:
            return
        self.over.append(
            Span(
                group=self.group,
                trace=life.source,
                consumer=life.name[0],
                host=life.name[1],
                member=life.member,
                kind=kind,
                what=what,
                because=because,
                began=At(began),
                ended=At(max(began, ended)),
                duration_ms=lasted,
                unfinished=unfinished,
            )
        )
