"""The group member in whose name offsets are committed, if this consumer is a member now."""

from __future__ import annotations

from aktor.events.membership import MemberChanged, MemberState

__all__ = ["CommitMember"]


class CommitMember:
    """Owns which member of which generation we are, and whether the group assigns our partitions.

    With `assign` the user chooses the partitions: then we commit without being a member.
    """

    def __init__(self) -> None:
        #: The last `MemberChanged` of the membership manager.
        self.now = MemberChanged(member_id="", generation=-1, state=MemberState.UNJOINED)
        #: Whether the group assigns our partitions.
        self.is_managed = False

    def changed(self, member: MemberChanged) -> None:
        """We are this member from now on."""
        self.now = member

    def assigned(self, *, by_group: bool) -> None:
        """We have other partitions now, from the group or from `assign`."""
        self.is_managed = by_group

    @property
    def has_joined(self) -> bool:
        """Whether there is a generation to commit in."""
        return self.now.generation >= 0

    @property
    def is_rebalancing(self) -> bool:
        """Whether the group rebalances."""
        return self.now.state is MemberState.REBALANCING

    @property
    def may_commit(self) -> bool:
        """Whether we can commit now: we are a member, or the user assigned the partitions."""
        return self.has_joined or not self.is_managed

    def moves_on_from(self, generation: int) -> bool:
        """Whether we are a member of a newer generation than this, or will be soon.

        The answer to a commit may arrive before MemberChanged does. But while partitions are being
        revoked we do not join, and the revocation waits for this commit: waiting for a new
        generation would never end.
        """
        is_newer = self.now.generation != generation
        rejoins = self.is_rebalancing and not self.now.is_revoking
        return self.has_joined and (is_newer or rejoins)
