from pathlib import Path

import pytest

from hermes_sessions.config import config_file_path, default_store_path, hermes_home
from hermes_sessions.config.paths import absolute_path
from hermes_sessions.errors import ConfigError


def test_home_is_the_variable_when_it_is_set(tmp_path: Path) -> None:
    assert hermes_home({"HERMES_HOME": str(tmp_path), "HOME": "/elsewhere"}) == tmp_path


@pytest.mark.parametrize("environ", [{}, {"HERMES_HOME": ""}])
def test_home_is_dot_hermes_when_the_variable_says_nothing(environ: dict[str, str]) -> None:
    assert hermes_home({"HOME": "/home/ada"} | environ) == Path("/home/ada/.hermes")


@pytest.mark.parametrize(
    ("written", "expected"), [("~", "/home/ada"), ("~/h", "/home/ada/h"), ("~/a/../b", None)]
)
def test_tilde_is_expanded(written: str, expected: str | None) -> None:
    home = hermes_home({"HERMES_HOME": written, "HOME": "/home/ada"})
    assert home == Path(expected or "/home/ada/a/../b")


def test_relative_home_starts_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert hermes_home({"HERMES_HOME": "sub/dir"}) == tmp_path / "sub" / "dir"


def test_relative_home_in_a_deleted_working_directory_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="absolute path"):
        hermes_home({"HERMES_HOME": "relative"})


def test_home_comes_from_the_process_when_no_environment_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    assert hermes_home() == tmp_path


def test_tilde_without_home_variable_asks_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/from-process")
    assert hermes_home({}) == Path("/home/from-process/.hermes")


def test_unknown_user_is_explained() -> None:
    with pytest.raises(ConfigError, match="~no-such-user-here"):
        hermes_home({"HERMES_HOME": "~no-such-user-here/x"})


def test_relative_path_starts_at_the_base_when_there_is_one() -> None:
    assert absolute_path("a/b", {}, Path("/base")) == Path("/base/a/b")
    assert absolute_path("/a/b", {}, Path("/base")) == Path("/a/b")


def test_config_file_is_in_the_home_directory(tmp_path: Path) -> None:
    assert config_file_path(tmp_path) == tmp_path / "config.yaml"


def test_store_is_state_db_until_an_imported_store_exists(tmp_path: Path) -> None:
    assert default_store_path(tmp_path) == tmp_path / "state.db"
    (tmp_path / "hermes-sessions.db").touch()
    assert default_store_path(tmp_path) == tmp_path / "hermes-sessions.db"


def test_link_to_a_missing_store_still_counts_as_the_store(tmp_path: Path) -> None:
    (tmp_path / "hermes-sessions.db").symlink_to(tmp_path / "not-mounted" / "store.db")
    assert default_store_path(tmp_path) == tmp_path / "hermes-sessions.db"


def test_store_path_of_a_missing_home(tmp_path: Path) -> None:
    assert default_store_path(tmp_path / "none") == tmp_path / "none" / "state.db"
