"""The credit of the chunks in the application: their bytes in the fetch manager's room.

A chunk takes its `size` of the room of the fetch manager's incarnation that sent it. No code gives
the credit of one chunk back: the bytes given back are computed, as the bytes that came minus the
bytes that are held. So no chunk is given back twice, and none is forgotten, whether it was read, or
dropped after a seek, after a revocation or because of an old epoch.
"""

from __future__ import annotations

from collections.abc import Iterable

from aktor.events.fetching import Chunk

__all__ = ["Credit"]


class Credit:
    """Owns how many bytes came from the present incarnation, are held, and were reported.

    The present incarnation is the one that sent the last chunk. Chunks of an earlier incarnation
    still count as buffered, but are not reported: that incarnation's account is closed.

    An interrupt may come between any two lines. `hold` is called after the chunk was filed,
    `let_go` after it was taken out; if an interrupt came in between, `recount` corrects the sums.
    """

    __slots__ = ("_came", "_earlier", "_held", "_reported")

    def __init__(self) -> None:
        #: (incarnation, bytes that came from it in all, the last chunk that was counted, as long as
        #: it may be counted again). One tuple, so that an interrupt cannot leave half a change.
        self._came: tuple[int, int, Chunk | None] = (1, 0, None)
        #: Bytes held of the present incarnation, and of earlier ones.
        self._held = 0
        self._earlier = 0
        #: (incarnation, bytes): what was reported last as given back.
        self._reported = (1, 0)

    # -- what chunks take, and give back

    def count(self, chunk: Chunk) -> None:
        """The chunk has come. A second call with the same chunk, after an interrupt, changes
        nothing."""
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
        """All chunks that came were filed: none of them can be counted a second time."""
        self._came = (*self._came[:2], None)

    def hold(self, chunk: Chunk) -> None:
        """The chunk is buffered."""
        self._add(chunk, chunk.size)

    def let_go(self, chunks: Iterable[Chunk]) -> None:
        """These chunks were read to their end, or dropped."""
        for chunk in chunks:
            self._add(chunk, -chunk.size)

    def recount(self, chunks: Iterable[Chunk]) -> None:
        """Exactly these chunks are held: compute the sums again."""
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
        """The bytes that are buffered, of all incarnations."""
        return self._held + self._earlier

    @property
    def given_back(self) -> int:
        """The bytes that the present incarnation gets back, in all since it began."""
        return self._came[1] - self._held

    @property
    def unreported(self) -> int:
        """How many bytes of `given_back` no `Poll` has reported yet."""
        # A poll that finds nothing asks this twice, so no other property is called here.
        incarnation, came, _ = self._came
        reported_to, told = self._reported
        return came - self._held - (told if reported_to == incarnation else 0)

    def report(self, incarnation: int, given_back: int) -> None:
        """A `Poll` has reported so many bytes to this incarnation."""
        self._reported = incarnation, given_back

    def outstanding(self, incarnation: int) -> int:
        """The bytes of which this incarnation does not know yet that they were given back."""
        return self._held + self.unreported if incarnation == self.incarnation else 0
