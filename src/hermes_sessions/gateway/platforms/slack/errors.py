"""Slack's names of errors, as errors of the port and in words that say what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Undeliverable,
    Unreachable,
)

# How the two lines on which Slack is heard hand over what they hear.


class NotAccepted(Exception):
    """A message could not be taken, and should be offered again."""


#: Takes a payload, None for one that cannot be read; raises `NotAccepted` when it must not be
#: confirmed.
Take = Callable[[object], Awaitable[None]]


_LONGEST_PAUSE: Final = 86400.0

_COPY_IT: Final = "copy it again from OAuth & Permissions into platforms.slack.token"
_LOGIN: Final = {
    "invalid_auth": f"Slack does not know the token; {_COPY_IT}",
    "not_authed": f"Slack got no token; {_COPY_IT}",
    "account_inactive": f"The app was removed from the workspace; install it again, and {_COPY_IT}",
    "token_revoked": f"The token was revoked; install the app again, and {_COPY_IT}",
    "token_expired": "The token has run out; turn off token rotation for the app, install it "
    f"again, and {_COPY_IT}",
    "not_allowed_token_type": "Slack wants another kind of token: token is the bot's (xoxb-…), "
    "app_token is the app's (xapp-…)",
    "no_permission": "The app may not do that in this workspace; ask who administers it",
    "access_denied": "The app may not do that in this workspace; ask who administers it",
    "team_access_not_granted": "The app was not given access to this workspace",
    "org_login_required": "The workspace is being moved to an organisation; install the app again "
    "when that is done",
    "ekm_access_denied": "The workspace's administrators have suspended access",
}
_UNDELIVERABLE: Final = {
    "channel_not_found": "There is no such channel, or the app cannot see it: invite the app there "
    "with /invite",
    "not_in_channel": "The app is not in the channel: invite it there with /invite",
    "is_archived": "The channel is archived",
    "messages_tab_disabled": "People cannot be written to: in the app's settings, App Home, turn "
    "on the Messages Tab",
    "cannot_dm_bot": "Apps cannot be written to by apps",
    "user_disabled": "The person's account is disabled",
    "user_not_found": "There is no such person",
    "user_not_visible": "The app may not see that person",
    "restricted_action": "A setting of the workspace forbids the app to write there",
    "restricted_action_read_only_channel": "The channel is read-only",
    "restricted_action_thread_only_channel": "In this channel, only answers in threads are allowed",
    "restricted_action_non_threadable_channel": "In this channel there are no threads",
    "restricted_action_thread_locked": "The thread is locked",
    "message_not_found": "There is no such message any more",
    "cant_update_message": "Only the app's own messages can be changed",
    "edit_window_closed": "The message is too old to be changed",
    "msg_too_long": "The text is too long for a message",
    "no_text": "There is no text in it",
    "file_not_found": "The file no longer exists",
    "file_deleted": "The file no longer exists",
    "file_not_visible": "The app may not see the file",
}
#: Slack's own trouble, which passes.
_PASSING: Final = frozenset(
    {
        "accesslimited",
        "fatal_error",
        "internal_error",
        "request_timeout",
        "service_unavailable",
        "team_added_to_org",
    }
)
#: How long a limit lasts when Slack does not say: of a method, and of the whole workspace.
_LIMITED: Final = {"ratelimited": 1.0, "rate_limited": 1.0, "message_limit_exceeded": 60.0}


class ErrorReply(NamedTuple):
    """What Slack answered instead of a result."""

    status: int
    #: Slack's name of the error; None when it was not Slack that answered.
    code: str | None = None
    #: The scope that is missing, where one is.
    needed: str | None = None
    #: How long to wait, if Slack says so.
    seconds: float | None = None


def explain_error(complaint: ErrorReply) -> str:
    """Return why something failed, for people; with Slack's name, by which it can be looked up."""
    code = complaint.code
    if code is None:
        return f"Slack answered {complaint.status}"
    if code == "missing_scope":
        scope = complaint.needed or "that it needs"
        return (
            f"The app has not the scope {scope}: add it under OAuth & Permissions, and install "
            f"the app again (Slack error missing_scope)"
        )
    words = _LOGIN.get(code) or _UNDELIVERABLE.get(code) or "Slack refused"
    return f"{words} (Slack error {code})"


def to_platform_error(complaint: ErrorReply) -> PlatformError:
    """Return the error of the port for what Slack answered."""
    code, status = complaint.code, complaint.status
    words = explain_error(complaint)
    if status == 429 or code in _LIMITED:
        pause = complaint.seconds
        if pause is None:
            pause = _LIMITED.get(code or "", 1.0)
        return RateLimited(words, min(max(pause, 0.0), _LONGEST_PAUSE))
    if code in _LOGIN or code == "missing_scope":
        return LoginRefused(words)
    # Without a name it was not the Web API that answered, but something before it.
    if code is None or code in _PASSING or status >= 500:
        return Unreachable(words)
    return Undeliverable(words)
