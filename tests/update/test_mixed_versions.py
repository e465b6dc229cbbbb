"""An earlier and the present version on one store at the same time, with crashes of either."""

from __future__ import annotations

import itertools
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from tests.servers.stores import mysql_place, postgresql_place
from tests.storage.sqlite.integrity import require_sound
from tests.storage.sqlite.other_process import ROOT, OtherProcess
from tests.update.versions import start_writer, unpack

pytestmark = pytest.mark.slow

PRESENT = ROOT / "src"
#: Who is ended, and how.
Fate = tuple[str, signal.Signals]
FATES: tuple[Fate, ...] = (
    ("updating", signal.SIGKILL),
    ("running", signal.SIGKILL),
    ("updating", signal.SIGTERM),
    ("running", signal.SIGTERM),
    ("updating", signal.SIGKILL),
)
#: Makes a store that has not been opened yet; returns its URL.
NewStore = Callable[[], str]


@pytest.fixture(scope="module", params=["0.1.0", "0.2.0"])
def earlier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(request.param, tmp_path_factory.mktemp("releases"))


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> NewStore:
    if request.param == "sqlite":
        numbers = itertools.count()
        return lambda: f"sqlite:///{tmp_path / f'state-{next(numbers)}.db'}"
    server = request.getfixturevalue(request.param)
    place_of = postgresql_place if request.param == "postgresql" else mysql_place
    return place_of(server, "update").new_url


class Writer:
    """One process, and what it said that was acknowledged."""

    def __init__(self, version: Path, url: str, name: str) -> None:
        self.name = name
        self.acknowledged: list[int] = []
        self.refusal: str | None = None
        self.unanswered: list[str] = []
        self.is_open = threading.Event()
        self.has_written = threading.Event()
        self.process: OtherProcess = start_writer(version, url, name)
        assert self.process.said() == "ready"
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def go(self) -> None:
        self._listener.start()
        self.process.tell()

    def _listen(self) -> None:
        for line in self.process.all_lines():
            if line == "open":
                self.is_open.set()
            elif line.startswith("refused "):
                self.refusal = line.removeprefix("refused ")
            elif line.startswith("unanswered "):
                self.unanswered.append(line.removeprefix("unanswered "))
            else:
                self.acknowledged.append(int(line))
                if len(self.acknowledged) >= 3:
                    self.has_written.set()
        self.is_open.set()
        self.has_written.set()

    def end(self, by: signal.Signals) -> None:
        self.process.send(by)

    def finish(self) -> tuple[int, str]:
        """Wait for its end; return how it ended and what it complained of."""
        code = self.process.ended()
        self._listener.join()
        return code, self.process.complaints()


def require_all_kept(url: str, writers: list[Writer]) -> None:
    """Every acknowledged message is there once, in its writer's order, and can be found."""
    with SessionDB.from_url(url) as db:
        for session in ("shared", *(writer.name for writer in writers)):
            if db.get_session(session) is None:
                continue
            ordinals = [message["ordinal"] for message in db.get_messages(session)]
            assert ordinals == sorted(set(ordinals))
        for writer in writers:
            stored = [
                int(message["content"].split()[1])
                for session in (writer.name, "shared")
                if db.get_session(session) is not None
                for message in db.get_messages(session)
                if message["content"].split()[0] == writer.name
            ]
            assert [number for number, times in Counter(stored).items() if times > 1] == []
            assert sorted(set(writer.acknowledged) - set(stored)) == [], "acknowledged and lost"
            # One more may be stored whose acknowledgement was never said.
            assert len(stored) - len(writer.acknowledged) in (0, 1)
            assert len(db.search_messages(writer.name, limit=-1)) == len(stored)
            assert db.search(writer.name, limit=1).report.not_indexed == 0
    if url.startswith("sqlite"):
        require_sound(Path(url.removeprefix("sqlite:///")))


def one_update(url: str, earlier: Path, fate: Fate, chance: random.Random) -> list[Writer]:
    """The present version starts while the earlier one writes; one of them dies."""
    with ExitStack() as processes:

        def start(version: Path, name: str) -> Writer:
            writer = Writer(version, url, name)
            processes.enter_context(writer.process)
            return writer

        running = start(earlier, "running")
        running.go()
        running.has_written.wait()
        # Started before the update, opens the store after or amid it.
        late = start(earlier, "late")
        updating, following = start(PRESENT, "updating"), start(PRESENT, "following")
        return _update(running, late, updating, following, fate, chance)


def _update(
    running: Writer,
    late: Writer,
    updating: Writer,
    following: Writer,
    fate: Fate,
    chance: random.Random,
) -> list[Writer]:
    writers = [running, late, updating, following]

    updating.go()
    name, by = fate
    [victim] = [writer for writer in writers if writer.name == name]
    # The moment of the fault, anywhere from before the first step to well after the last.
    updating.is_open.wait(chance.uniform(0, 0.25))
    victim.end(by)
    late.go()
    following.go()
    following.has_written.wait()
    late.has_written.wait()
    for writer in writers:
        if writer is not victim:
            writer.end(signal.SIGTERM)
    for writer in writers:
        code, complaints = writer.finish()
        if writer in (updating, following):
            assert writer.unanswered == []
        assert "Traceback" not in complaints, complaints
        if writer.refusal is not None:
            # Only the earlier version may have to stop, and it says why.
            assert writer in (running, late), f"{writer.name}: {writer.refusal}"
            assert "newer version" in writer.refusal
            assert code in (3, -by)
        else:
            assert code in ((0, -by) if writer is victim else (0,)), f"{writer.name}: {complaints}"
    return writers


@pytest.mark.fault(
    "A new version starts while an earlier one writes, and either is killed",
    "Every acknowledged message is there once, in order; a version that cannot continue says so",
)
def test_updating_while_the_earlier_version_runs(
    new_store: NewStore, earlier: Path, long_run: bool, request: pytest.FixtureRequest
) -> None:
    """No version corrupts the store or loses an acknowledged message."""
    chance = random.Random(f"update {request.node.name}")
    for fate in FATES * 20 if long_run else FATES[:2]:
        url = new_store()
        require_all_kept(url, one_update(url, earlier, fate, chance))
