"""Map Slack's errors to errors of the port, with messages that say what to do."""

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

# The contract between the adapter and its two connections, Socket Mode and webhook.


class NotAccepted(Exception):
    """A payload could not be stored, and should be delivered again."""


#: Delivers a payload, None if it is unreadable; raises `NotAccepted` if it must not be
#: acknowledged.
Take = Callable[[object], Awaitable[None]]


_MAX_PAUSE: Final = 86400.0

_COPY_AGAIN: Final = "copy it again from OAuth & Permissions into platforms.slack.token"
_LOGIN_ERRORS: Final = {
    "invalid_auth": f"Slack does not accept the token; {_COPY_AGAIN}",
    "not_authed": f"The request had no token; {_COPY_AGAIN}",
    "account_inactive": "The app was removed from the workspace; install it again, and "
    + _COPY_AGAIN,
    "token_revoked": f"The token was revoked; reinstall the app, and {_COPY_AGAIN}",
    "token_expired": "The token has expired; turn off token rotation for the app, reinstall it, "
    f"and {_COPY_AGAIN}",
    "not_allowed_token_type": "Slack expects another kind of token: token is the bot token "
    "(xoxb-…), app_token is the app-level token (xapp-…)",
    "no_permission": "The app may not do that in this workspace; ask its administrator",
    "access_denied": "The app may not do that in this workspace; ask its administrator",
    "team_access_not_granted": "The app has no access to this workspace",
    "org_login_required": "The workspace is being moved to an organisation; reinstall the app "
    "when that is done",
    "ekm_access_denied": "The workspace's administrators have suspended access",
}
_UNDELIVERABLE_ERRORS: Final = {
    "channel_not_found": "The channel does not exist or the app cannot see it: invite the app "
    "with /invite",
    "not_in_channel": "The app is not in the channel: invite it with /invite",
    "is_archived": "The channel is archived",
    "messages_tab_disabled": "Private messages are turned off: turn on the Messages Tab under "
    "App Home in the app's settings",
    "cannot_dm_bot": "An app cannot write to another app",
    "user_disabled": "The user's account is disabled",
    "user_not_found": "The user does not exist",
    "user_not_visible": "The app may not see the user",
    "restricted_action": "A setting of the workspace does not let the app write there",
    "restricted_action_read_only_channel": "The channel is read-only",
    "restricted_action_thread_only_channel": "In this channel, only replies in threads are allowed",
    "restricted_action_non_threadable_channel": "This channel does not allow threads",
    "restricted_action_thread_locked": "The thread is locked",
    "message_not_found": "The message no longer exists",
    "cant_update_message": "Only the app's own messages can be edited",
    "edit_window_closed": "The message is too old to be edited",
    "msg_too_long": "The text is too long for a message",
    "no_text": "The message has no text",
    "file_not_found": "The file no longer exists",
    "file_deleted": "The file no longer exists",
    "file_not_visible": "The app may not see the file",
}
#: Temporary failures of Slack.
_TEMPORARY_ERRORS: Final = frozenset(
    {
        "accesslimited",
        "fatal_error",
        "internal_error",
        "request_timeout",
        "service_unavailable",
        "team_added_to_org",
    }
)
#: Default pauses if Slack names none: for a method, and for the whole workspace.
_RATE_LIMIT_ERRORS: Final = {
    "ratelimited": 1.0,
    "rate_limited": 1.0,
    "message_limit_exceeded": 60.0,
}


class ErrorReply(NamedTuple):
    """An error response of Slack."""

    status: int
    #: Slack's error code; None if the response is not from Slack.
    code: str | None = None
    #: The missing scope, if that is the error.
    needed: str | None = None
    #: How long to wait, if Slack says so.
    seconds: float | None = None


def explain_error(reply: ErrorReply) -> str:
    """Return a message for people, with Slack's error code to look up."""
    code = reply.code
    if code is None:
        return f"Slack responded with {reply.status}"
    if code == "missing_scope":
        scope = reply.needed or "it needs"
        return (
            f"The app is missing the scope {scope}: add it under OAuth & Permissions, and "
            "reinstall the app (Slack error missing_scope)"
        )
    words = (
        _LOGIN_ERRORS.get(code) or _UNDELIVERABLE_ERRORS.get(code) or "Slack refused the request"
    )
    return f"{words} (Slack error {code})"


def to_platform_error(reply: ErrorReply) -> PlatformError:
    """Return the error of the port for an error response."""
    code, status = reply.code, reply.status
    words = explain_error(reply)
    if status == 429 or code in _RATE_LIMIT_ERRORS:
        pause = reply.seconds
        if pause is None:
            pause = _RATE_LIMIT_ERRORS.get(code or "", 1.0)
        return RateLimited(words, min(max(pause, 0.0), _MAX_PAUSE))
    if code in _LOGIN_ERRORS or code == "missing_scope":
        return LoginRefused(words)
    # Without a code, the response is not from the Web API but from a server in front of it.
    if code is None or code in _TEMPORARY_ERRORS or status >= 500:
        return Unreachable(words)
    return Undeliverable(words)
