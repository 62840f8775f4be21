"""The credit of the chunks in the application: what they take of the fetch manager's room.

A chunk takes its `size` of the room of the fetch manager's incarnation that sent it. Nobody gives a
credit back by hand: what came and is held no more is given back, however it went (read, sought,
revoked, of an old epoch). So no chunk is given back twice, and none is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from aktor.events.fetching import Chunk

__all__ = ["Credit"]


class Credit:
    """Owns how much came of the present incarnation, how much is held, how much was reported.

    The present incarnation is the one that the last chunk came from. What earlier ones sent is
    counted as held as long as it is, and is not reported: their room ended with them.

    An interrupt may come between any two lines. `hold` comes after the chunk was filed and `let_go`
    after it was taken out; `recount` mends what lies between.
    """

    __slots__ = ("_came", "_earlier", "_held", "_told")

    def __init__(self) -> None:
        #: (incarnation, bytes that came of it in all, the chunk that was counted last while it may
        #: be counted again). One tuple, because an interrupt must not leave a part of it.
        self._came: tuple[int, int, Chunk | None] = (1, 0, None)
        #: Bytes held of the present incarnation, and of earlier ones.
        self._held = 0
        self._earlier = 0
        #: (incarnation, bytes): what was reported last as given back.
        self._told = (1, 0)

    # -- what chunks take, and give back

    def count(self, chunk: Chunk) -> None:
        """It has come. Called again with the same chunk, after an interrupt, it changes nothing."""
        incarnation, total, last = self._came
        if chunk is last or chunk.incarnation < incarnation:
            return
        if chunk.incarnation == incarnation:
            self._came = incarnation, total + chunk.size, chunk
            return
        self._earlier += self._held
        self._held = 0
        self._came = chunk.incarnation, chunk.size, chunk

    def has_counted(self, chunk: Chunk) -> bool:
        """Whether the chunk, which is still to be filed, is counted already."""
        return self._came[2] is chunk

    def counted_all(self) -> None:
        """Everything that came was filed: nothing of it can come again."""
        self._came = (*self._came[:2], None)

    def hold(self, chunk: Chunk) -> None:
        """It is buffered."""
        self._add(chunk, chunk.size)

    def let_go(self, chunks: Iterable[Chunk]) -> None:
        """These were read to their end, or dropped."""
        for chunk in chunks:
            self._add(chunk, -chunk.size)

    def recount(self, chunks: Iterable[Chunk]) -> None:
        """Exactly these are held."""
        self._held = self._earlier = 0
        for chunk in chunks:
            self.hold(chunk)

    def _add(self, chunk: Chunk, size: int) -> None:
        if chunk.incarnation == self.incarnation:
            self._held += size
        else:
            self._earlier += size

    # -- what follows from it

    @property
    def incarnation(self) -> int:
        """The incarnation of the fetch manager that the credit belongs to."""
        return self._came[0]

    @property
    def held(self) -> int:
        """The bytes that are buffered, whoever sent them."""
        return self._held + self._earlier

    @property
    def given_back(self) -> int:
        """What the present incarnation gets back, in all since it began."""
        return self._came[1] - self._held

    @property
    def unreported(self) -> int:
        """How much of that is not reported yet."""
        incarnation, told = self._told
        return self.given_back - (told if incarnation == self.incarnation else 0)

    def report(self, incarnation: int, given_back: int) -> None:
        """So much was reported to this incarnation."""
        self._told = incarnation, given_back

    def outstanding(self, incarnation: int) -> int:
        """What this incarnation does not know to be given back."""
        return self._held + self.unreported if incarnation == self.incarnation else 0
