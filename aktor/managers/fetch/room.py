"""How much a Fetch may ask for: the room in the buffer, and the bandwidth to the broker."""

from __future__ import annotations

from typing import Final

__all__ = ["PATIENCE", "CreditError", "FetchBandwidth", "FetchRoom"]


class CreditError(Exception):
    """The application's total of bytes given back is more than it was given, or has shrunk.

    It crashes the fetch manager on purpose. Its next incarnation and the application begin to count
    at zero, so the restart mends the account. Going on with a wrong one would fetch beyond
    `max_buffered_bytes`, or less and less until nothing is fetched at all.
    """


#: A Fetch times out so many seconds after the longest time that the broker may wait for data. A
#: half-open connection must be noticed soon; after a failure the whole time doubles, up to the
#: request timeout.
PATIENCE: Final = 5.0

#: The bytes that a Fetch asks for at first, while the speed of the connection is unknown.
FIRST_BYTES: Final = 2**20


class FetchBandwidth:
    """Owns `bytes`: how many bytes the connection to one broker can bring in time.

    An answer that comes too late has used the bandwidth for nothing. So after a timeout, or a full
    answer slower than `PATIENCE`, the size is halved; only full answers faster than half of
    `PATIENCE` double it again. (A full answer has at least half of the bytes that were asked for.)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.bytes = min(most, FIRST_BYTES)

    def brought(self, size: int, *, asked: int, seconds: float) -> None:
        """An answer brought `size` bytes in `seconds`; the Fetch asked for `asked` bytes."""
        if size < asked // 2:
            return  # the broker had no more records: that says nothing of the bandwidth
        if seconds > PATIENCE:
            self.bytes = max(1, min(self.bytes, asked // 2))
        elif seconds <= PATIENCE / 2:
            self.bytes = min(self._most, max(self.bytes, 2 * max(asked, size)))

    def timed_out(self, *, asked: int) -> None:
        """The answer did not come in time."""
        self.bytes = max(1, min(self.bytes, asked // 2))


class FetchRoom:
    """Owns the count of bytes outstanding: those buffered and those that requests may bring.

    `bound` is `max_buffered_bytes`, `per_partition` is `max_partition_fetch_bytes`. What is
    buffered and reserved stays within the bound, with two exceptions:
    - a sessionless Fetch may ask each node for `sessionless_extra` bytes more, while the node keeps
      the session's Fetch;
    - while records of paused partitions fill the buffer, each node may be asked for
      `smallest_request` beyond the bound, minus what is buffered of it and can be read. Readable
      and reserved bytes are within the bound then, this request included.

    A broker may send more than it was asked for: the first batch is sent whole (KIP-74).
    """

    def __init__(self, bound: int, per_partition: int) -> None:
        self._bound = bound
        self._per_partition = per_partition
        #: Bytes given to the application in all, and those of them that it gave back.
        self._granted = 0
        self._freed = 0
        self._reserved = 0

    # -- what is taken and given back

    def reserve(self, size: int) -> None:
        """A request was sent that may bring so many bytes."""
        self._reserved += size

    def release(self, size: int) -> None:
        """That request is over."""
        self._reserved -= size

    def fill(self, size: int) -> None:
        """The application was given so many bytes."""
        self._granted += size

    def free(self, total: int) -> bool:
        """The application has given back so many bytes in all. Returns whether there is more room
        than before."""
        if not self._freed <= total <= self._granted:
            raise CreditError(
                f"{total} bytes are said to be given back, {self._freed} of {self._granted} were"
            )
        before, self._freed = self._freed, total
        return total > before

    @property
    def buffered(self) -> int:
        """The bytes that the application has not given back yet."""
        return self._granted - self._freed

    @property
    def reserved(self) -> int:
        """The bytes that requests in flight may bring."""
        return self._reserved

    @property
    def nothing_buffered(self) -> bool:
        """Whether the application has read everything."""
        return not self.buffered

    # -- how it is divided

    def crowded_from(self, partitions: int) -> int:
        """From how many buffered bytes on one of so many partitions is not fetched: the others come
        first."""
        return max(2 * self._per_partition, self._bound // max(1, partitions))

    def for_session(self, *, waiting: int, nodes: int, readable: int, from_node: int) -> int:
        """How much to ask of the first of `waiting` nodes; 0 if there is no room for a request.

        `nodes` are all that are read from, `readable` is what the application can read now,
        `from_node` is how much of that came from this node.
        """
        nodes = max(2, nodes)
        smallest, left = self.smallest_request(nodes), self._left
        if left >= smallest:
            # Never all: the next answer should be under way while this one is read.
            return min(max(smallest, left // waiting), max(smallest, self._bound // nodes))
        # Records that the application cannot read now (their partition is paused, or a seek left
        # them behind) must not keep the others from being fetched. If there is room without these
        # records, the node may bring the smallest request beyond the bound, less what it has
        # brought already.
        if readable + self._reserved + smallest <= self._bound and from_node <= smallest // 2:
            return smallest - from_node
        return 0

    def for_sessionless(self, limit: int, *, nodes: int, readable: int, from_node: int) -> int:
        """As `for_session`, for a Fetch beside the one in its long poll; at most `limit`.

        The long polls may have set aside all the room there is, and most of them bring nothing:
        `sessionless_extra` is kept for each node beyond the bound.
        """
        nodes = max(2, nodes)
        extra = self.sessionless_extra(nodes)
        if self._left >= extra:
            return min(limit, self._left)
        small = min(limit, extra)
        fills = self.buffered + small > self._bound
        if not fills and self._left + nodes * extra >= small:
            return small
        if fills and readable + small <= self._bound and from_node + small <= extra:
            return small
        return 0

    def leaves_room(self, size: int, *, waiting: int, nodes: int) -> bool:
        """Whether, after `size` more bytes are reserved, there is room for a request to each of the
        `waiting` nodes.

        The other nodes have reserved bytes, too. These are free for them again when their requests
        are over, unless this request goes beyond the bound (`Asked.reserved` may, with many
        partitions).
        """
        return self._left - size >= max(0, waiting) * self.smallest_request(nodes)

    def smallest_request(self, nodes: int) -> int:
        """The least that a node is asked for. All nodes together fit in the bound with it."""
        nodes = max(2, nodes)
        return max(1, min(self._per_partition, self._bound // 4, self._bound // nodes))

    def sessionless_extra(self, nodes: int) -> int:
        """The bytes that each node may be asked for beyond the bound, by a Fetch beside the one in
        its long poll."""
        return max(1, self.smallest_request(nodes) // 4)

    @property
    def _left(self) -> int:
        return self._bound - self.buffered - self._reserved
