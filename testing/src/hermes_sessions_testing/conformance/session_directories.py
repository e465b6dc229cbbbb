"""Working directories: where sessions are, and which directories are in use."""

from __future__ import annotations

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import compress, ids, session


class TestSessionDirectories:
    """A session knows its directory, branch and repository."""

    def test_another_directory(self, db: SessionDB) -> None:
        """Branch and root are written when they are given; blanks around them are not."""
        db.create_session("s", "cli", cwd="/no/w")
        former = session(db, "s")["workspace_id"]
        db.update_session_cwd("s", "/no/x", " main ", " /no ")
        stored = session(db, "s")
        assert [stored[name] for name in ("cwd", "git_branch", "git_repo_root")] == [
            *("/no/x", "main", "/no"),
        ]
        assert stored["workspace_id"] not in (None, former)
        db.update_session_cwd("s", "/no/y", " ", None)
        stored = session(db, "s")
        assert [stored[name] for name in ("cwd", "git_branch", "git_repo_root")] == [
            *("/no/y", "main", "/no"),
        ]
        assert len(db.list_workspaces()) == 1, "those without a session are gone"

    def test_nothing_to_record(self, db: SessionDB) -> None:
        """Without a directory or a session, nothing is written."""
        db.create_session("s", "cli", cwd="/no/w")
        db.update_session_cwd("s", "")
        db.update_session_cwd("s", None, "main")  # type: ignore[arg-type]
        db.update_session_cwd("missing", "/no/x")
        assert (session(db, "s")["cwd"], session(db, "s")["git_branch"]) == ("/no/w", None)
        assert len(db.list_workspaces()) == 1

    def test_the_directory_of_a_child(self, db: SessionDB, clock: FrozenClock) -> None:
        """Without one of its own it works where its parent does; with one, it has its own branch
        and repository.
        """
        db.create_session("s", "cli", cwd="/no/w")
        db.update_session_cwd("s", "/no/w", "main", "/no")
        compress(db, clock, "s", "same")
        compress(db, clock, "same", "other", cwd="/no/x")
        places = [
            [session(db, one)[name] for name in ("cwd", "git_branch", "git_repo_root")]
            for one in ("same", "other")
        ]
        assert places == [["/no/w", "main", "/no"], ["/no/x", None, None]]

    def test_directories_in_use(self, db: SessionDB, clock: FrozenClock) -> None:
        """Each is there once, over all sessions, children too."""
        started = clock()
        db.create_session("a", "cli", cwd="/no/w")
        db.create_session("b", "cli", cwd="/no/w", parent_session_id="a")
        clock.advance(5)
        db.end_session("b", "done")
        db.create_session("c", "cli", cwd="/no/x")
        db.create_session("d", "cli")
        db.set_session_archived("c")
        w = {"cwd": "/no/w", "sessions": 2, "last_active": started + 5}
        x = {"cwd": "/no/x", "sessions": 1, "last_active": started + 5}
        assert db.distinct_session_cwds() == [w]
        assert db.distinct_session_cwds(include_archived=True) == [w, x]

    def test_roots_that_are_missing(self, db: SessionDB) -> None:
        """They are filled in by the directory, and never replaced."""
        for session_id, cwd in (("a", "/no/w"), ("b", "/no/w"), ("c", "/no/x")):
            db.create_session(session_id, "cli", cwd=cwd)
        db.update_session_cwd("b", "/no/w", git_repo_root="/other")
        db.backfill_repo_roots({"/no/w": "/no", "/no/x": "", "": "/no"})
        assert [session(db, one)["git_repo_root"] for one in "abc"] == ["/no", "/other", None]
        db.backfill_repo_roots({})
        assert ids(db.list_sessions_rich(cwd_prefix="/no/x")) == ["c"]
