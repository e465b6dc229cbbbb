from pathlib import Path

import pytest

from hermes_sessions.config import load_settings
from hermes_sessions.config.derived_keys import KEY_AT, RESERVED
from hermes_sessions.config.key_lookup import unknown_key_warning


@pytest.mark.parametrize(
    ("section", "name", "meant"),
    [
        ("", "session_db", "sessiondb"),
        ("", "SessionDB", "sessiondb"),
        ("", "session", "sessions"),
        ("", "dispaly", "display"),
        ("sessiondb", "provder", "sessiondb.provider"),
        ("sessiondb", "durability", "sessiondb.sqlite.durability"),
        ("sessiondb", "sqllite", "sessiondb.sqlite"),
        ("sessiondb", "max_message_size", "sessiondb.max_message_bytes"),
        ("sessiondb.sqlite", "durabilty", "sessiondb.sqlite.durability"),
        ("sessiondb.sqlite", "lock-timeout", "sessiondb.sqlite.lock_timeout"),
        ("sessiondb.sqlite", "provider", "sessiondb.provider"),
        ("sessions", "trash_day", "sessions.trash_days"),
        ("display", "resume-display", "display.resume_display"),
    ],
)
def test_misspelt_keys_get_a_suggestion(section: str, name: str, meant: str) -> None:
    warning = unknown_key_warning(section, name)
    assert warning is not None
    assert warning.endswith(f"is not a known key and is ignored; did you mean {meant}?")


def test_without_a_likely_meaning_the_known_names_are_listed() -> None:
    assert unknown_key_warning("sessiondb", "colour") == (
        "sessiondb.colour is not a known key and is ignored; "
        "known in sessiondb: dsn, max_message_bytes, mysql, postgresql, provider, "
        "sqlite"
    )


@pytest.mark.parametrize("path", sorted(KEY_AT))
def test_dotted_names_are_explained(path: str) -> None:
    warning = unknown_key_warning("", path)
    assert warning is not None
    assert warning.endswith(f"nest it: {path.replace('.', ' > ')}")


@pytest.mark.parametrize("path", sorted(RESERVED))
def test_reserved_names_are_not_mentioned(path: str) -> None:
    section, _, name = path.rpartition(".")
    assert unknown_key_warning(section, name) is None


@pytest.mark.parametrize(
    "name",
    [
        "_config_version", "auxiliary", "checkpoints", "command_allowlist", "cron", "delegation",
        "discord", "fallback_model", "honcho", "human_delay", "logging", "memory", "network",
        "permissions", "personalities", "plugins", "provider", "providers", "quick_commands",
        "reset_triggers", "security", "session_dir", "skills", "slack", "stt", "telegram",
        "terminal", "timezone", "toolsets", "tts", "voice", "web", "whatsapp",
    ],
)  # fmt: skip
def test_names_of_other_programs_are_not_mentioned(name: str) -> None:
    assert unknown_key_warning("", name) is None


@pytest.mark.parametrize(
    "name", ["busy_text_mode", "compact", "resume_exchanges", "resume_max_user_chars", "skin"]
)
def test_display_is_shared_with_other_programs(name: str) -> None:
    assert unknown_key_warning("display", name) is None


def test_credentials_in_a_name_are_not_shown() -> None:
    warning = unknown_key_warning("sessiondb", "postgresql://ada:hunter2@db/sessions")
    assert warning is not None
    assert "hunter2" not in warning


def test_warnings_are_on_the_settings_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "sessiondb.provider: mysql\nsessiondb:\n  provder: mysql\n  sqlite:\n    1: x\n"
        "sesions:\n  trash_days: 1\nskills: {}\n",
        encoding="utf-8",
    )
    settings = load_settings(tmp_path, {})
    assert settings.sessiondb.provider == "sqlite"
    assert settings.warnings == (
        (
            f"{file}, line 1: sessiondb.provider is ignored because its name is written with dots; "
            "nest it: sessiondb > provider"
        ),
        (
            f"{file}, line 3: sessiondb.provder is not a known key and is ignored; "
            "did you mean sessiondb.provider?"
        ),
        (
            f"{file}, line 5: sessiondb.sqlite.1 is not a known key and is ignored; "
            "known in sessiondb.sqlite: durability, journal, lock_timeout, path"
        ),
        f"{file}, line 6: sesions is not a known key and is ignored; did you mean sessions?",
    )


def test_a_dotted_name_inside_a_section_is_not_taken_for_the_key(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("sessiondb: {sqlite.journal: wal}\n", encoding="utf-8")
    settings = load_settings(tmp_path, {})
    assert settings.sessiondb.sqlite.journal == "auto"
    assert "nest it: sessiondb > sqlite > journal" in settings.warnings[0]
