"""``hermes forget``: erase all data about a user, a chat or a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console, yes_option
from hermes_sessions.cli.render.erasure import (
    plan_document,
    plan_lines,
    receipt_document,
    receipt_lines,
    subject_text,
)
from hermes_sessions.cli.session_lookup import find_session
from hermes_sessions.cli.sessions.delete import dry_run_option
from hermes_sessions.cli.store import has_store, open_for_reading, open_for_writing
from hermes_sessions.config import load_settings
from hermes_sessions.errors import InvalidInput, NotFound, OnHold, StoreError
from hermes_sessions.storage.care.erasure.targets import ErasureSubject, Kind

if TYPE_CHECKING:
    from hermes_sessions.storage.care.erasure.coordinator import Erasure, ErasurePlan
    from hermes_sessions.storage.care.erasure.receipts import ErasureReceipt
    from hermes_sessions.storage.sessiondb import SessionDB


@click.command(short_help="Erase all data about a user, a chat or a session.")
@click.option("--user", metavar="ID", help="A user, by their id on the platform.")
@click.option("--chat", metavar="ID", help="A chat, with the messages of all its users.")
@click.option(
    "--session",
    metavar="SESSION",
    help="A session with its whole conversation: an id, its beginning, or a title.",
)
@click.option("--platform", metavar="NAME", help="Only on this platform: telegram, signal, …")
@dry_run_option
@yes_option
@click.option(
    "--receipts",
    is_flag=True,
    help="Show receipts: all, or those of the given user, chat or session.",
)
@click.option("--resume", metavar="RECEIPT", help="Complete the pending steps of a receipt.")
@click.option(
    "--rebuild",
    is_flag=True,
    help="Also rebuild a large SQLite file; writers wait meanwhile.",
)
@pass_console
def forget(
    console: Console,
    *,
    user: str | None,
    chat: str | None,
    session: str | None,
    platform: str | None,
    dry_run: bool,
    yes: bool,
    receipts: bool,
    resume: str | None,
    rebuild: bool,
) -> None:
    """Permanently erase all data about a user, a chat or a session.

    Covers rows, the search index, received messages, replies, spools, files and backups. The
    receipt lists completed and pending steps. Running turns are aborted; later messages start a
    new session. In a room with several users, erases what the user wrote and the answers to it.

    Exits with 1 while a step is pending.
    """
    named = [(kind, value) for kind, value in _given(user, chat, session) if value is not None]
    if resume is not None:
        if named or receipts or dry_run:
            raise click.UsageError(
                "--resume cannot be combined with --user, --chat, --session, --receipts or "
                "--dry-run: the receipt already says what to erase."
            )
        _resume(console, resume, rebuild=rebuild)
        return
    if len(named) > 1 or (not named and not receipts):
        raise click.UsageError("Name what to forget with one of --user, --chat and --session.")
    if receipts:
        _show_receipts(console, named, platform)
        return
    [(kind, value)] = named
    if not dry_run and not has_store():
        # Raise before a store is created for a subject without data. Files and backups may have
        # data even without a store.
        with open_for_reading(console) as db:
            _planned(_erasure(db), _subject(db, kind, value, platform), rows_will_do=False)
    opened = open_for_reading if dry_run else open_for_writing
    with opened(console) as db:
        subject = _subject(db, kind, value, platform)
        erasure = _erasure(db)
        plan = _planned(erasure, subject, rows_will_do=yes and not dry_run)
        if dry_run:
            _explain(console, plan)
            return
        if not yes:
            console.tell(plan_lines(plan))
            if not console.confirm(f"Forget {subject_text(subject)}? This cannot be undone."):
                console.tell("Cancelled; nothing was changed.")
                raise click.exceptions.Exit(1)
        try:
            receipt = erasure.forget(subject, rebuild=rebuild)
        except OnHold:
            raise
        except StoreError:
            console.tell(
                "The erasure is incomplete. To see how to finish it, run: hermes forget --receipts"
            )
            raise
        _report(console, receipt)


def _given(
    user: str | None, chat: str | None, session: str | None
) -> list[tuple[Kind, str | None]]:
    return [("user", user), ("chat", chat), ("session", session)]


def _erasure(db: SessionDB) -> Erasure:
    from hermes_sessions.cli.forget.places import make_erasure

    return make_erasure(db, load_settings())


def _platform(name: str | None) -> str | None:
    return None if name is None else name.strip().lower()


def _subject(db: SessionDB, kind: Kind, value: str, platform: str | None) -> ErasureSubject:
    return ErasureSubject(kind, _resolved(db, kind, value), _platform(platform)).checked()


def _resolved(db: SessionDB, kind: Kind, value: str) -> str:
    """Return the id of the subject; a session may be in the trash, or given by its title."""
    if kind != "session":
        return value
    if any(record["id"] == value for record in db.list_trash()):
        return value
    return str(find_session(db, value)["id"])


def _planned(erasure: Erasure, subject: ErasureSubject, *, rows_will_do: bool) -> ErasurePlan:
    plan = erasure.plan(subject, rows_only=rows_will_do)
    if plan.is_empty and rows_will_do:
        plan = erasure.plan(subject)
    if plan.is_empty:
        raise NotFound(f"No data found about {subject_text(subject)}; nothing was changed.")
    platforms = plan.targets.platforms
    if subject.platform is None and subject.kind != "session" and len(platforms) > 1:
        known = ", ".join(platforms)
        raise InvalidInput(
            f"{subject_text(subject)} exists on several platforms: {known}. These may be "
            f"different people: choose one with --platform."
        )
    return plan


def _explain(console: Console, plan: ErasurePlan) -> None:
    if console.as_json:
        console.print_json(plan_document(plan))
        return
    console.print([*plan_lines(plan), "Nothing was changed."])


def _report(console: Console, receipt: ErasureReceipt) -> None:
    if console.as_json:
        console.print_json(receipt_document(receipt))
    else:
        console.print(receipt_lines(receipt))
    if receipt.status == "pending":
        raise click.exceptions.Exit(1)


def _resume(console: Console, receipt_id: str, *, rebuild: bool) -> None:
    opened = open_for_writing if has_store() else open_for_reading
    with opened(console) as db:
        _report(console, _erasure(db).resume(receipt_id, rebuild=rebuild))


def _show_receipts(console: Console, named: list[tuple[Kind, str]], platform: str | None) -> None:
    with open_for_reading(console) as db:
        subject = ErasureSubject(*named[0], _platform(platform)).checked() if named else None
        found = [
            receipt
            for receipt in _erasure(db).receipts(subject)
            if platform is None or receipt.platform == _platform(platform)
        ]
    if console.as_json:
        console.print_json([receipt_document(receipt) for receipt in found])
        return
    for receipt in found:
        console.print(receipt_lines(receipt))
    if not found:
        console.print("There are no receipts.")
