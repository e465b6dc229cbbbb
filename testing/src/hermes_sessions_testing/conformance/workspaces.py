"""Workspaces: the projects that sessions belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, NotFound
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.records import WorkspaceRecord
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import branch, compress, found, ids, session


def at(db: SessionDB, folder: Path) -> WorkspaceRecord:
    """Return the workspace of a directory that has one."""
    workspace = db.get_workspace_at(folder)
    assert workspace is not None
    return workspace


def listed(db: SessionDB, **options: Any) -> list[str]:
    """Return the ids of listed sessions."""
    return ids(db.list_sessions_rich(**options))


class TestWorkspaces:
    """A session with a directory belongs to a workspace."""

    @pytest.fixture
    def projects(self, tmp_path: Path) -> tuple[Path, Path]:
        """Return two directories without a repository, ``api`` and ``web``."""
        folders = (tmp_path / "api", tmp_path / "web")
        for folder in folders:
            folder.mkdir()
        return folders

    def test_sessions_of_one_directory(
        self, db: SessionDB, clock: FrozenClock, projects: tuple[Path, Path]
    ) -> None:
        """Behaviour 122: they share a workspace, which is named like the directory."""
        api, web = projects
        assert db.get_workspace_at(api) is None
        assert db.list_workspaces() == []
        for name, folder in (("a", api), ("b", api), ("c", web)):
            clock.advance(1)
            db.create_session(name, "cli", cwd=str(folder))
        db.create_session("elsewhere", "telegram")
        workspace = at(db, api)
        assert workspace == {
            "id": session(db, "a")["workspace_id"],
            "name": "api",
            "identity": f"path:{api.resolve()}",
            "path": str(api.resolve()),
            "created_at": session(db, "a")["started_at"],
            "sessions": 2,
            "last_active": session(db, "b")["started_at"],
            "merged": [],
        }
        assert [w["name"] for w in db.list_workspaces()] == ["web", "api"]
        assert session(db, "a")["cwd"] == str(api)
        assert session(db, "elsewhere")["workspace_id"] is None
        assert listed(db, workspace="API") == listed(db, workspace=workspace["id"]) == ["b", "a"]
        assert listed(db, workspace="ap") == []

    def test_children_and_later_calls(
        self, db: SessionDB, clock: FrozenClock, projects: tuple[Path, Path]
    ) -> None:
        """Behaviour 122: children work where their parent does; a session keeps its directory."""
        api, web = projects
        db.create_session("a", "cli")
        db.create_session("a", "cli", cwd=api)
        db.create_session("a", "cli", cwd=web)
        workspace = at(db, api)["id"]
        assert session(db, "a")["workspace_id"] == workspace
        assert db.get_workspace_at(web) is None
        compress(db, clock, "a", "b")
        branch(db, clock, "b", "fork")
        db.create_session("agent", "cli", parent_session_id="fork", edge_kind="subagent")
        db.create_session("moved", "telegram", parent_session_id="b", edge_kind="handoff")
        for name in ("b", "fork", "agent"):
            assert session(db, name)["workspace_id"] == workspace
            assert session(db, name)["cwd"] == str(api)
        assert session(db, "moved")["workspace_id"] is None
        assert at(db, api)["sessions"] == 4

    def test_a_directory_of_its_own(self, db: SessionDB, projects: tuple[Path, Path]) -> None:
        """Behaviour 122: a child elsewhere has nothing of its parent's; a recorded one stays."""
        api, web = projects
        db.import_sessions(
            [
                {
                    "id": "p",
                    "source": "cli",
                    "cwd": str(api),
                    "git_branch": "b",
                    "git_repo_root": "/r",
                }
            ]
        )
        db.create_session("c", "cli", cwd=web, parent_session_id="p", edge_kind="branch")
        child = session(db, "c")
        assert (child["git_branch"], child["git_repo_root"]) == (None, None)
        assert child["workspace_id"] == at(db, web)["id"]
        db.create_session("p", "cli", cwd=web)
        assert session(db, "p")["cwd"] == str(api)
        assert session(db, "p")["workspace_id"] == at(db, api)["id"]

    def test_earlier_sessions_of_the_directory(
        self, db: SessionDB, projects: tuple[Path, Path]
    ) -> None:
        """Behaviour 122: those that were stored without a workspace belong to it, too."""
        api, web = (str(folder.resolve()) for folder in projects)
        db.import_sessions(
            [
                {"id": "a", "source": "cli", "cwd": api},
                {"id": "b", "source": "cli", "cwd": f"{api}/src", "git_repo_root": api},
                {"id": "w", "source": "cli", "cwd": web},
            ]
        )
        assert db.list_workspaces() == []
        db.create_session("new", "cli", cwd=api)
        assert set(listed(db, workspace="api")) == {"a", "b", "new"}
        assert session(db, "w")["workspace_id"] is None

    def test_what_is_not_a_directory(self, db: SessionDB, projects: tuple[Path, Path]) -> None:
        """Behaviour 122: one that is gone counts, what cannot be a path does not."""
        gone = projects[0] / "gone"
        db.create_session("s", "cli", cwd=gone)
        assert at(db, gone)["name"] == "gone"
        db.create_session("none", "cli", cwd="")
        assert session(db, "none")["workspace_id"] is None
        for bad in ("a\x00b", b"bytes", 7):
            with pytest.raises(InvalidInput):
                db.create_session("t", "cli", cwd=bad)  # type: ignore[arg-type]
        assert db.get_session("t") is None

    def test_search_within_a_workspace(self, db: SessionDB, projects: tuple[Path, Path]) -> None:
        """Behaviour 122: by name in the query, by name or id as a parameter."""
        api, web = projects
        for name, folder in (("a", api), ("w", web)):
            db.create_session(name, "cli", cwd=folder)
            db.append_message(name, "user", f"plum in {name}")
        db.create_session("n", "cli")
        db.append_message("n", "user", "plum in n")
        assert found(db, "plum workspace:api") == ["plum in a"]
        assert set(found(db, "plum workspace:Api workspace:web")) == {"plum in a", "plum in w"}
        assert set(found(db, "plum -workspace:api")) == {"plum in w", "plum in n"}
        conditions = SearchConditions(workspaces=(at(db, web)["id"],))
        assert found(db, "plum", conditions=conditions) == ["plum in w"]
        assert db.search("plum", conditions=conditions).report.removed == {"workspaces": 2}
        answer = db.search("plum workspace:nowhere")
        assert answer.hits == []
        assert "There is no workspace 'nowhere'." in answer.report.notes

    def test_another_name(self, db: SessionDB, projects: tuple[Path, Path]) -> None:
        """Behaviour 122: a name is for people; several workspaces can have it."""
        api, web = projects
        db.create_session("a", "cli", cwd=api)
        db.create_session("w", "cli", cwd=web)
        db.rename_workspace(at(db, api)["id"], "  The  API ")
        assert at(db, api)["name"] == "The API"
        assert listed(db, workspace="the api") == ["a"]
        db.rename_workspace(at(db, web)["id"], "the api")
        assert len(db.find_workspaces("THE API")) == 2
        assert set(listed(db, workspace="the api")) == {"a", "w"}
        for bad in ("", "  ", "x" * 101, "a\x07"):
            with pytest.raises(InvalidInput):
                db.rename_workspace(at(db, api)["id"], bad)
        with pytest.raises(NotFound):
            db.rename_workspace("missing", "x")

    def test_a_directory_that_moved(
        self, db: SessionDB, projects: tuple[Path, Path], tmp_path: Path
    ) -> None:
        """Behaviour 122: its sessions stay; another workspace's directory is refused."""
        api, web = projects
        db.create_session("a", "cli", cwd=api)
        db.create_session("w", "cli", cwd=web)
        workspace = at(db, api)["id"]
        new = tmp_path / "service"
        api.rename(new)
        db.move_workspace(workspace, new)
        assert at(db, new)["id"] == workspace
        assert db.get_workspace_at(api) is None
        db.create_session("a2", "cli", cwd=new)
        assert at(db, new)["sessions"] == 2
        with pytest.raises(InvalidInput, match="Merge"):
            db.move_workspace(workspace, web)
        with pytest.raises(NotFound):
            db.move_workspace("missing", web)

    def test_a_merge_and_its_end(
        self, db: SessionDB, clock: FrozenClock, projects: tuple[Path, Path], tmp_path: Path
    ) -> None:
        """Behaviour 123: both directories are one workspace until they are separated."""
        api, web = projects
        third = tmp_path / "third"
        for name, folder in (("a", api), ("w", web), ("t", third)):
            clock.advance(1)
            db.create_session(name, "cli", cwd=folder)
            db.append_message(name, "user", "plum")
        before = {name: db.get_session(name) for name in ("a", "w", "t")}
        one, two, three = (at(db, folder)["id"] for folder in (api, web, third))
        db.merge_workspaces(three, two)
        db.merge_workspaces(two, one)
        assert {at(db, folder)["id"] for folder in (api, web, third)} == {one}
        [merged] = db.list_workspaces()
        assert (merged["sessions"], {m["id"] for m in merged["merged"]}) == (3, {two, three})
        assert listed(db, workspace="api") == listed(db, workspace="third") == ["t", "w", "a"]
        assert db.search("plum workspace:web").report.total == 3
        assert db.get_workspace_names() == dict.fromkeys((one, two, three), "api")
        db.create_session("t2", "cli", cwd=third)
        assert at(db, api)["sessions"] == 4
        assert {name: db.get_session(name) for name in before} == before
        for wrong in ((one, one), (two, one), (one, two)):
            with pytest.raises(InvalidInput):
                db.merge_workspaces(*wrong)
        with pytest.raises(NotFound):
            db.merge_workspaces(one, "missing")
        assert db.separate_workspaces(one) == 2
        assert db.separate_workspaces(one) == 0
        assert listed(db, workspace="api") == ["a"]
        assert set(listed(db, workspace="third")) == {"t", "t2"}

    def test_the_last_session(self, db: SessionDB, projects: tuple[Path, Path]) -> None:
        """Behaviour 124: the trash still counts; then nothing of the directory is left."""
        api, web = projects
        db.create_session("a", "cli", cwd=api)
        db.create_session("w", "cli", cwd=web)
        workspace = at(db, web)["id"]
        db.rename_workspace(workspace, "kept")
        db.trash_sessions(["w"])
        assert [w["name"] for w in db.list_workspaces()] == ["api"]
        db.restore_sessions(["w"])
        assert at(db, web)["name"] == "kept"
        db.merge_workspaces(at(db, api)["id"], workspace)
        db.delete_session("w")
        assert at(db, web)["sessions"] == 1
        db.delete_session("a")
        assert db.get_workspace_at(web) is db.get_workspace_at(api) is None

    def test_export_and_import(self, db: SessionDB, projects: tuple[Path, Path]) -> None:
        """Behaviour 122: an export names the workspace; an import finds or adds it."""
        api, web = projects
        db.create_session("a", "cli", cwd=api)
        exported = db.export_session("a")
        assert exported is not None
        stated = at(db, api)
        assert exported["workspace"] == {k: stated[k] for k in ("id", "name", "identity", "path")}
        db.delete_session("a")
        db.import_sessions([exported])
        assert at(db, api)["id"] == stated["id"]
        assert at(db, api)["sessions"] == 1
        db.create_session("w", "cli", cwd=web)
        other = exported["workspace"] | {"id": "w-other", "identity": at(db, web)["identity"]}
        db.import_sessions([exported | {"id": "b", "workspace": other}])
        assert session(db, "b")["workspace_id"] == at(db, web)["id"]
        wrong: list[Any] = [[], {"id": "x"}, {"id": "x", "name": "n", "path": 7}]
        for bad in wrong:
            report = db.import_sessions(
                [{"id": "c", "source": "cli", "workspace": bad}], leave_out_invalid=True
            )
            assert len(report["errors"]) == 1

    def test_the_scope(self, db: SessionDB, projects: tuple[Path, Path]) -> None:
        """Behaviour 122: workspaces of other users are neither shown nor told of."""
        api, web = projects
        db.create_session("a", "cli", user_id="anna", cwd=api)
        db.create_session("b", "cli", user_id="bert", cwd=api)
        db.create_session("w", "cli", user_id="bert", cwd=web)
        anna = Scope(user_id="anna")
        [mine] = db.list_workspaces(scope=anna)
        assert (mine["name"], mine["sessions"]) == ("api", 1)
        assert db.find_workspaces("web", scope=anna) == []
        assert listed(db, workspace="api", scope=anna) == ["a"]
        notes = db.search("plum workspace:web", scope=anna).report.notes
        assert "There is no workspace 'web'." in notes
