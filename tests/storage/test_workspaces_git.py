"""Workspaces of real git repositories: clones, worktrees, submodules, moves, and refusals."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage import working_directory

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

#: Nothing of the machine's configuration, and no questions.
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
}


def git(folder: Path, *arguments: str, day: int = 1) -> str:
    date = f"2025-03-{day:02}T12:00:00Z"
    return subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder,
        env=ENVIRONMENT | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def repository(folder: Path, *, remote: str | None = None, text: str = "1") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, text)
    if remote is not None:
        git(folder, "remote", "add", "origin", remote)
    return folder


def commit(folder: Path, text: str, *, day: int = 1) -> None:
    (folder / "file").write_text(text)
    git(folder, "add", "file")
    git(folder, "commit", "-q", "-m", text, day=day)


@pytest.fixture
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:") as db:
        yield db


def started(db: SessionDB, folder: Path) -> str:
    """Start a session in a directory and return its workspace."""
    session = db.get_session(db.create_session(source="cli", cwd=folder))
    assert session is not None
    assert session["workspace_id"] is not None
    return session["workspace_id"]


def test_the_place_is_recorded(db: SessionDB, tmp_path: Path) -> None:
    root = repository(tmp_path / "app", remote="https://me:s3cret@example.org/team/app.git")
    (root / "src").mkdir()
    git(root, "switch", "-q", "-c", "feature/x")
    db.create_session("s", "cli", cwd=root / "src")
    session = db.get_session("s")
    assert session is not None
    assert session["cwd"] == str(root / "src")
    assert session["git_branch"] == "feature/x"
    assert session["git_repo_root"] == str(root.resolve())
    [workspace] = db.list_workspaces()
    assert (workspace["name"], workspace["identity"]) == ("app", "remote:example.org/team/app")
    assert workspace["path"] == str(root.resolve())


def test_clones_worktrees_and_moves_are_one_project(db: SessionDB, tmp_path: Path) -> None:
    root = repository(tmp_path / "app", remote="git@example.org:team/app.git")
    git(root, "worktree", "add", "-q", "../tree", "-b", "other")
    other = repository(tmp_path / "clone", remote="https://example.org/team/app", text="2")
    workspace = started(db, root)
    assert started(db, tmp_path / "tree") == started(db, other) == workspace
    moved = root.rename(tmp_path / "renamed")
    assert started(db, moved) == workspace
    found = db.get_workspace_at(moved)
    assert found is not None
    assert (found["name"], found["path"], found["sessions"]) == ("app", str(moved.resolve()), 4)


def test_without_a_remote_the_first_commit_decides(db: SessionDB, tmp_path: Path) -> None:
    root = repository(tmp_path / "app")
    workspace = started(db, root)
    commit(root, "later", day=2)
    git(root, "switch", "-q", "--orphan", "pages")
    commit(root, "another first commit", day=3)
    git(root, "worktree", "add", "-q", "../tree", "main")
    assert started(db, tmp_path / "tree") == workspace
    assert started(db, root.rename(tmp_path / "renamed")) == workspace
    assert started(db, repository(tmp_path / "unrelated", text="2")) != workspace


def test_a_project_that_grows_keeps_its_workspace(db: SessionDB, tmp_path: Path) -> None:
    root = tmp_path / "app"
    root.mkdir()
    workspace = started(db, root)
    git(root, "init", "-q", "-b", "main")
    assert started(db, root) == workspace
    commit(root, "1")
    assert started(db, root) == workspace
    git(root, "remote", "add", "origin", "git@example.org:team/app.git")
    assert started(db, root) == workspace
    [found] = db.list_workspaces()
    assert found["identity"] == "remote:example.org/team/app"


def test_a_clone_does_not_take_over_the_original(db: SessionDB, tmp_path: Path) -> None:
    root = repository(tmp_path / "app")
    workspace = started(db, root)
    git(tmp_path, "clone", "-q", str(root), "clone")
    assert started(db, tmp_path / "clone") != workspace
    assert started(db, root) == workspace


def test_nested_repositories_and_submodules(db: SessionDB, tmp_path: Path) -> None:
    library = repository(tmp_path / "library", text="library")
    root = repository(tmp_path / "app", remote="git@example.org:team/app.git")
    git(root, "submodule", "--quiet", "add", str(library), "vendor")
    git(root / "vendor", "remote", "set-url", "origin", "git@example.org:team/library.git")
    nested = repository(root / "nested", remote="git@example.org:team/nested.git")
    (root / "docs").mkdir()
    names = {}
    for folder in (root, root / "docs", root / "vendor", nested):
        workspace = started(db, folder)
        names[folder.name] = next(w["name"] for w in db.list_workspaces() if w["id"] == workspace)
    assert names == {"app": "app", "docs": "app", "vendor": "library", "nested": "nested"}


def test_symbolic_links(db: SessionDB, tmp_path: Path) -> None:
    root = repository(tmp_path / "app")
    plain = tmp_path / "plain"
    plain.mkdir()
    for folder in (root, plain):
        link = tmp_path / f"link-to-{folder.name}"
        link.symlink_to(folder)
        assert started(db, link) == started(db, folder)


def test_other_remotes_and_a_detached_head(db: SessionDB, tmp_path: Path) -> None:
    root = repository(tmp_path / "app")
    git(root, "remote", "add", "zeta", "git@example.org:z/app.git")
    git(root, "remote", "add", "alpha", "git@example.org:a/app.git")
    git(root, "switch", "-q", "--detach")
    place = working_directory.locate(root)
    assert (place.remote, place.branch) == ("git@example.org:a/app.git", None)
    git(root, "remote", "add", "origin", "git@example.org:o/app.git")
    assert working_directory.locate(root).remote == "git@example.org:o/app.git"


def test_a_shallow_clone_has_no_first_commit(db: SessionDB, tmp_path: Path) -> None:
    root = repository(tmp_path / "app")
    commit(root, "2", day=2)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    shallow = tmp_path / "shallow"
    git(shallow, "remote", "remove", "origin")
    assert working_directory.find_first_commit(working_directory.locate(shallow)) is None
    started(db, shallow)
    [workspace] = db.list_workspaces()
    assert workspace["identity"] == f"path:{shallow.resolve()}"


def test_a_deleted_and_an_unreadable_directory(db: SessionDB, tmp_path: Path) -> None:
    gone = repository(tmp_path / "gone")
    shutil.rmtree(gone)
    file = tmp_path / "file"
    file.write_text("")
    for path in (gone, file, gone / "below"):
        started(db, path)
        found = db.get_workspace_at(path)
        assert found is not None
        assert found["identity"] == f"path:{path.resolve()}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every directory")
def test_a_directory_that_may_not_be_entered(db: SessionDB, tmp_path: Path) -> None:
    root = repository(tmp_path / "app")
    root.chmod(0)
    try:
        assert working_directory.locate(root).repo_root is None
        started(db, root)
    finally:
        root.chmod(0o700)


def test_a_broken_repository_and_no_git(
    db: SessionDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "app")
    (root / ".git" / "HEAD").write_text("nonsense")
    assert working_directory.locate(root).repo_root is None
    sound = repository(tmp_path / "sound")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert working_directory.locate(sound) == working_directory.Place(str(sound.resolve()))
    started(db, sound)


def test_git_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(working_directory, "_SECONDS", 0.05)
    assert working_directory.locate(tmp_path).repo_root is None


def test_the_repository_of_a_hook_is_not_that_of_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = repository(tmp_path / "hook", remote="git@example.org:team/hook.git")
    root = repository(tmp_path / "app", remote="git@example.org:team/app.git")
    monkeypatch.setenv("GIT_DIR", str(hook / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(hook))
    assert working_directory.locate(root).remote == "git@example.org:team/app.git"


def test_a_repository_runs_no_program(tmp_path: Path) -> None:
    root = repository(tmp_path / "app")
    mark = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    git(root, "config", "core.fsmonitor", str(program))
    git(root, "config", "core.pager", str(program))
    place = working_directory.locate(root)
    assert working_directory.find_first_commit(place) is not None
    assert not mark.exists()
