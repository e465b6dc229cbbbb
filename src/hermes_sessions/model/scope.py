"""The scope of a read: who is asking, and therefore what may be read.

Every read on behalf of a user carries a scope. The owner of the store sees everything, a messenger
user sees their own sessions, and a group chat sees its conversations. Text outside the scope never
appears, not even in a count.
"""

from typing import NamedTuple


class Scope(NamedTuple):
    """What may be read. All conditions that are set must hold; none set means everything."""

    #: Sessions of this user.
    user_id: str | None = None
    #: Sessions from this source, because two platforms may use the same user id.
    source: str | None = None
    #: Sessions of these conversations.
    conversation_ids: tuple[str, ...] | None = None

    @property
    def is_owner(self) -> bool:
        """Whether everything may be read."""
        return self.user_id is None and self.source is None and self.conversation_ids is None


#: The owner of the store: calls by the library itself and the command line.
OWNER = Scope()
