"""Who is asking, and so what may be read.

Every read on behalf of somebody carries a scope. The owner of the store sees everything; a person
on a messenger sees their own sessions; a room sees its conversations. Text outside the scope never
appears, not even in a count.
"""

from __future__ import annotations

from typing import NamedTuple


class Scope(NamedTuple):
    """What may be read. Conditions that are set must all hold; none set means everything."""

    #: Sessions of this person.
    user_id: str | None = None
    #: Sessions from this source, because user ids of two platforms may be equal.
    source: str | None = None
    #: Sessions of these conversations.
    conversation_ids: tuple[str, ...] | None = None

    @property
    def is_owner(self) -> bool:
        """Whether everything may be read."""
        return self.user_id is None and self.source is None and self.conversation_ids is None


#: The owner of the store: the library's and the command line's own calls.
OWNER = Scope()
