"""The .env file beside the configuration."""

import os
import subprocess
from pathlib import Path

import pytest

from hermes_sessions.config import load_settings
from hermes_sessions.config.env_file import env_file_path, variables_in, with_variables
from hermes_sessions.errors import ConfigError

ODD = ["plain", "a b", "$HOME", "`id`", 'say "x"', "it's", "back\\slash", "#no", "a # b", "ü", "="]


def configure(home: Path, **variables: str) -> None:
    (home / "config.yaml").write_text("platforms:\n  telegram:\n    token: ${BOT_TOKEN}\n")
    env_file_path(home).write_text(with_variables("", variables))


def test_a_variable_is_looked_up_in_the_environment_first(tmp_path: Path) -> None:
    configure(tmp_path, BOT_TOKEN="kept")

    assert load_settings(tmp_path, {}).platforms["telegram"].token == "kept"
    settings = load_settings(tmp_path, {"BOT_TOKEN": "given"})
    assert settings.platforms["telegram"].token == "given"


def test_the_file_sets_no_settings_by_itself(tmp_path: Path) -> None:
    configure(tmp_path, SESSION_IDLE_MINUTES="5")

    assert load_settings(tmp_path, {}).session_reset.idle_minutes == 1440


def test_it_is_not_read_where_nothing_is_missing(tmp_path: Path) -> None:
    configure(tmp_path)
    env_file_path(tmp_path).write_bytes(b"\xff")

    assert load_settings(tmp_path, {"BOT_TOKEN": "x"}).platforms["telegram"].token == "x"
    with pytest.raises(ConfigError, match=r"\.env is not UTF-8"):
        load_settings(tmp_path, {})


def test_what_shells_and_people_write_is_read() -> None:
    text = '# keys\nexport A=1\n B = \'two words\' # x\nC="a\\"b"\nD=x#y # z\nA=2\nno line\nE=\r\n'

    assert variables_in(text) == {"A": "2", "B": "two words", "C": 'a"b', "D": "x#y", "E": ""}


@pytest.mark.parametrize("value", ODD)
def test_a_shell_reads_what_was_written(tmp_path: Path, value: str) -> None:
    text = with_variables("", {"ODD": value})
    path = tmp_path / "x.env"
    path.write_text(text, encoding="utf-8")

    shell = ["sh", "-c", '. "$0"; printf %s "$ODD"', str(path)]
    said = subprocess.run(shell, capture_output=True, check=True, env={"PATH": os.environ["PATH"]})
    assert said.stdout.decode() == value
    assert variables_in(text) == {"ODD": value}


def test_other_lines_stay_and_a_name_is_there_once() -> None:
    text = "# mine\nA=1\nB=2\nA=3"

    assert with_variables(text, {"A": "x", "C": "y"}) == "# mine\nA=x\nB=2\nC=y\n"


def test_a_value_of_several_lines_is_refused() -> None:
    with pytest.raises(ConfigError, match="A must be a single line"):
        with_variables("", {"A": "x\nB=y"})
