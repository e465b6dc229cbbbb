"""The fake messenger servers for `hermes gateway setup`, and their credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hermes_sessions_testing.fake_servers.discord.server import ANNA as DISCORD_ANNA
from hermes_sessions_testing.fake_servers.discord.server import BOT as DISCORD_BOT
from hermes_sessions_testing.fake_servers.discord.server import TOKEN as DISCORD_TOKEN
from hermes_sessions_testing.fake_servers.discord.server import DiscordServer
from hermes_sessions_testing.fake_servers.signal.daemon import ACCOUNT, SignalDaemon
from hermes_sessions_testing.fake_servers.slack.server import SlackServer
from hermes_sessions_testing.fake_servers.slack.workspace import ANNA as SLACK_ANNA
from hermes_sessions_testing.fake_servers.telegram.server import BOT as TELEGRAM_BOT
from hermes_sessions_testing.fake_servers.telegram.server import TelegramServer
from hermes_sessions_testing.fake_servers.whatsapp.server import WhatsAppServer
from tests.servers.server_processes import free_port

WRONG = {
    "telegram": "1:wrong-wrong-wrong-wrong-wrong-wrong",
    "discord": "MTAwMDAwMDAwMDAwMDAwMDAx.Gxxxxx.wrong-wrong-wrong-wrong-wrong-wrong",
    "slack": "xoxb-wrong-wrong-wrong",
    "whatsapp": "EAAwrong-wrong-wrong-wrong-wrong",
    "matrix": "syt_wrong",
}


@dataclass(frozen=True)
class Place:
    """One platform that can be set up."""

    name: str
    #: What is typed: the name of a question, and its answer.
    typed: tuple[tuple[str, str], ...] = ()
    #: Secrets by variable, as they are expected to be kept; None: whatever was made.
    secrets: dict[str, str | None] = field(default_factory=dict)
    #: Options besides: where the test's server is.
    options: tuple[str, ...] = ()
    #: What the section says besides `enabled` and what options say.
    section: dict[str, object] = field(default_factory=dict)
    #: Who the bot is.
    who: str = ""
    anna: str | None = None
    home: str | None = None


@contextmanager
def telegram() -> Iterator[Place]:
    server = TelegramServer()
    yield Place(
        "telegram",
        (("Bot token", server.token),),
        {"TELEGRAM_BOT_TOKEN": server.token},
        ("--set", f"base_url={server.base_url}"),
        {"token": "${TELEGRAM_BOT_TOKEN}", "base_url": server.base_url},
        f"@{TELEGRAM_BOT['username']}",
        "7",
        "-100123",
    )
    server.close()


@contextmanager
def discord() -> Iterator[Place]:
    server = DiscordServer()
    yield Place(
        "discord",
        (("Bot token", DISCORD_TOKEN),),
        {"DISCORD_BOT_TOKEN": DISCORD_TOKEN},
        ("--set", f"base_url={server.base_url}"),
        {"token": "${DISCORD_BOT_TOKEN}", "base_url": server.base_url},
        DISCORD_BOT["username"],
        DISCORD_ANNA["id"],
        "300000000000000001",
    )
    server.close()


@contextmanager
def slack() -> Iterator[Place]:
    server = SlackServer(mode="socket")
    yield Place(
        "slack",
        (("Bot token", server.token), ("App token", server.app_token)),
        {"SLACK_BOT_TOKEN": server.token, "SLACK_APP_TOKEN": server.app_token},
        ("--set", f"base_url={server.base_url}"),
        {
            "token": "${SLACK_BOT_TOKEN}",
            "app_token": "${SLACK_APP_TOKEN}",
            "base_url": server.base_url,
        },
        "@",
        SLACK_ANNA.id,
        "C012ABCDEF",
    )
    server.close()


@contextmanager
def whatsapp() -> Iterator[Place]:
    server = WhatsAppServer()
    yield Place(
        "whatsapp",
        (
            ("Access token", server.token),
            ("Phone number id", server.phone_number_id),
            ("App secret", server.app_secret),
            ("Verify token", ""),
        ),
        {
            "WHATSAPP_TOKEN": server.token,
            "WHATSAPP_APP_SECRET": server.app_secret,
            "WHATSAPP_VERIFY_TOKEN": None,
        },
        ("--set", f"base_url={server.base_url}"),
        {
            "token": "${WHATSAPP_TOKEN}",
            "phone_number_id": server.phone_number_id,
            "app_secret": "${WHATSAPP_APP_SECRET}",
            "verify_token": "${WHATSAPP_VERIFY_TOKEN}",
            "base_url": server.base_url,
        },
        "(",
        "4915700000007",
        "4915700000007",
    )
    server.close()


@contextmanager
def signal() -> Iterator[Place]:
    daemon = SignalDaemon()
    yield Place(
        "signal",
        (("Number", ACCOUNT), ("Daemon", daemon.address)),
        section={"account": ACCOUNT, "address": daemon.address},
        who=f"{ACCOUNT}, with signal-cli 0.13.19",
        anna="+4915112345678",
        home="+4915112345678",
    )
    daemon.close()


@contextmanager
def api() -> Iterator[Place]:
    port = free_port()
    yield Place(
        "api",
        (("Token", ""), ("Host", ""), ("Port", str(port))),
        {"HERMES_API_TOKEN": None},
        section={"token": "${HERMES_API_TOKEN}", "port": str(port)},
        who=f"http://127.0.0.1:{port}",
    )


@contextmanager
def local() -> Iterator[Place]:
    yield Place("local", who="local.sock")


PLACES: dict[str, Callable[[], object]] = {
    "api": api,
    "discord": discord,
    "local": local,
    "signal": signal,
    "slack": slack,
    "telegram": telegram,
    "whatsapp": whatsapp,
}
