"""Sources that are not people's conversations, and what becomes of their sessions."""

from __future__ import annotations

from typing import Final

#: Scheduled work: listed and shown after everything else.
_SCHEDULED: Final = ("cron",)
#: Work for another session: not listed unless asked for.
HIDDEN_WHEN_BROWSING: Final = ("subagent", "tool")
DEMOTED_WHEN_BROWSING: Final = _SCHEDULED
#: A search finds them all, after the conversations of people.
DEMOTED_WHEN_SEARCHING: Final = (*_SCHEDULED, *HIDDEN_WHEN_BROWSING)
