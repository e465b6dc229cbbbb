"""Runs scenarios: prepares environments and stores, then goes round-robin over the opponents."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import corpus, environments, servers, worker
from benchmarks.opponents import OPPONENTS, Opponent
from benchmarks.results import Results
from benchmarks.scenarios import PreparedStore, Scenario
from benchmarks.sizes import Size

JOB_TIMEOUT_SECONDS = 3600


class RunFailed(RuntimeError):
    """A worker failed: its library raised, or the stored rows were not the acknowledged ones."""


@dataclass
class Harness:
    """One run over chosen opponents; everything it makes lives in ``cache``."""

    size: Size
    opponents: tuple[Opponent, ...]
    cache: Path
    say: Callable[[str], None]
    results: Results = field(default_factory=Results)
    sqlite_versions: dict[str, str] = field(default_factory=dict)
    #: The Python of each environment; one that is given here is used as it is.
    pythons: dict[str, Path] = field(default_factory=dict)
    #: The versions of the servers that took part.
    server_versions: dict[str, str] = field(default_factory=dict)
    _servers: servers.Servers = field(init=False)
    #: Files with the URLs of the prepared stores on servers; they last as long as the servers.
    _prepared_urls: dict[tuple[str, str], Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Servers live beside the runs; none is started yet."""
        self._servers = servers.Servers(self._directory("servers"))

    def run(self, scenarios: Iterable[Scenario]) -> Results:
        """Measure every scenario; raises :class:`RunFailed` at the first worthless run."""
        chosen = [scenario for scenario in scenarios if scenario.is_part_of(self.size)]
        self._leave_out_missing_servers()
        self.install()
        try:
            self._build_stores(chosen)
            for scenario in chosen:
                self._run_scenario(scenario)
        finally:
            self._servers.stop()
        return self.results

    def _leave_out_missing_servers(self) -> None:
        for kind in sorted({opponent.server for opponent in self.opponents if opponent.server}):
            version = servers.version(kind)
            if version is not None:
                self.server_versions[kind] = version
                continue
            self.say(f"the {kind} server and its client are not installed: left out")
            self.opponents = tuple(one for one in self.opponents if one.server != kind)

    def install(self) -> None:
        """Make the environments of the chosen opponents."""
        for opponent in self.opponents:
            name = opponent.environment.name
            if name not in self.pythons:
                self.say(f"environment: {name}")
                self.pythons[name] = environments.prepare(opponent.environment, self.cache)

    def _contestants(self, scenario: Scenario) -> list[Opponent]:
        return [opponent for opponent in self.opponents if opponent.name in scenario.opponents]

    def _run_scenario(self, scenario: Scenario) -> None:
        for number in range(1, self.size.rounds + 1):
            for opponent in self._contestants(scenario):
                self.say(
                    f"{scenario.title}: round {number} of {self.size.rounds}, {opponent.label}"
                )
                with (
                    tempfile.TemporaryDirectory(dir=self._directory("runs")) as scratch,
                    self._store(scenario, opponent, Path(scratch)) as store,
                ):
                    answer = self._run_once(scenario, opponent, store, Path(scratch))
                self.results.add(scenario.name, opponent.name, answer["metrics"])
                self.sqlite_versions[opponent.name] = answer["sqlite"]

    @contextmanager
    def _store(self, scenario: Scenario, opponent: Opponent, scratch: Path) -> Iterator[Path]:
        """The file that a worker opens, for one run: the store itself, or where it is."""
        if opponent.server is None:
            yield self._file_store(scenario, opponent, scratch)
            return
        prepared = None
        if scenario.prepared is not None:
            prepared = self._prepared_urls[scenario.prepared.name, opponent.name]
            if not scenario.changes_store:
                yield prepared
                return
        server = self._servers.get(opponent.server)
        url = server.create(copy_of=prepared.read_text() if prepared else None)
        try:
            store = scratch / "store.url"
            store.write_text(url)
            yield store
        finally:
            server.drop(url)

    def _file_store(self, scenario: Scenario, opponent: Opponent, scratch: Path) -> Path:
        store = scratch / "state.db"
        if scenario.prepared is None:
            return store
        prepared = self._prepared_file(scenario.prepared, opponent)
        if not scenario.changes_store:
            return prepared
        _copy_durably(prepared, store)
        return store

    def _run_once(
        self, scenario: Scenario, opponent: Opponent, store: Path, scratch: Path
    ) -> dict[str, Any]:
        return self._work(
            opponent,
            task=scenario.name,
            store=store,
            scratch=scratch,
            corpus=self._corpus(scenario.corpus),
            prepared_corpus=self._corpus(scenario.prepared.corpus if scenario.prepared else None),
            parameters=scenario.parameters(self.size, opponent),
        )

    def _work(self, opponent: Opponent, *, scratch: Path, **request: Any) -> dict[str, Any]:
        message = json.dumps(
            {"opponent": opponent.name, "scratch": scratch, **request}, default=str
        )
        finished = subprocess.run(
            [str(self.pythons[opponent.environment.name]), "-m", "benchmarks.worker"],
            input=message,
            capture_output=True,
            text=True,
            cwd=scratch,
            env=_worker_environment(scratch),
            timeout=JOB_TIMEOUT_SECONDS,
            check=False,
        )
        if finished.returncode != 0:
            raise RunFailed(f"{request['task']}, {opponent.label}:\n{finished.stderr[-3000:]}")
        answer: dict[str, Any] = json.loads(finished.stdout)
        return answer

    def _build_stores(self, scenarios: list[Scenario]) -> None:
        """Fill the prepared stores that are missing, as many at a time as there are cores."""
        wanted = {
            self._prepared_file(scenario.prepared, opponent): (scenario.prepared, opponent)
            for scenario in scenarios
            if scenario.prepared is not None
            for opponent in self._contestants(scenario)
            if opponent.server is None
        }
        missing = {path: what for path, what in wanted.items() if not path.exists()}
        for prepared in {prepared.name: prepared for prepared, _ in missing.values()}.values():
            self.say(f"writing the corpus of the {prepared.name} store")
            self._corpus(prepared.corpus)
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            builds = [pool.submit(self._build, path, *what) for path, what in missing.items()]
            for build in builds:
                build.result()
        for scenario in scenarios:
            if scenario.prepared is not None:
                for opponent in self._contestants(scenario):
                    self._build_on_server(scenario.prepared, opponent)

    def _build_on_server(self, prepared: PreparedStore, opponent: Opponent) -> None:
        """Fill a database that lasts as long as the run."""
        key = (prepared.name, opponent.name)
        if opponent.server is None or key in self._prepared_urls:
            return
        self.say(f"filling the {prepared.name} store of {opponent.label}")
        server = self._servers.get(opponent.server)
        file = server.server.folder / f"{prepared.name}.url"
        file.write_text(server.create())
        with tempfile.TemporaryDirectory(dir=self._directory("runs")) as scratch:
            self._work(
                opponent,
                task=worker.BUILD,
                store=file,
                scratch=Path(scratch),
                prepared_corpus=self._corpus(prepared.corpus),
            )
        self._prepared_urls[key] = file

    def _build(self, path: Path, prepared: PreparedStore, opponent: Opponent) -> None:
        self.say(f"filling the {prepared.name} store of {opponent.label}")
        with tempfile.TemporaryDirectory(dir=self._directory("runs")) as scratch:
            unfinished = Path(scratch) / path.name
            self._work(
                opponent,
                task=worker.BUILD,
                store=unfinished,
                scratch=Path(scratch),
                prepared_corpus=self._corpus(prepared.corpus),
            )
            # Stores of the same kind that an older environment filled are of no more use.
            for old in path.parent.glob(f"{path.name.rsplit('-', 1)[0]}-*"):
                old.unlink()
            unfinished.replace(path)

    def _prepared_file(self, prepared: PreparedStore, opponent: Opponent) -> Path:
        spec = prepared.corpus(self.size)
        environment = opponent.environment
        name = f"{environment.name}-{Path(spec.file_name).stem}-{environment.fingerprint()}.db"
        return self._directory("stores") / name

    def _corpus(self, spec: Callable[[Size], corpus.CorpusSpec] | None) -> Path | None:
        return None if spec is None else corpus.write(spec(self.size), self._directory("corpora"))

    def _directory(self, name: str) -> Path:
        directory = self.cache / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory


def choose_opponents(names: Iterable[str]) -> tuple[Opponent, ...]:
    """The opponents of these names; raises :class:`LookupError` naming the known ones."""
    unknown = sorted(set(names) - set(OPPONENTS))
    if unknown:
        raise LookupError(f"unknown: {', '.join(unknown)}; known: {', '.join(OPPONENTS)}")
    return tuple(opponent for name, opponent in OPPONENTS.items() if name in set(names))


def _worker_environment(scratch: Path) -> dict[str, str]:
    """Nothing of the user's environment reaches the measured libraries, their home included; only
    how the C library allocates memory may be chosen.
    """
    chosen = {name: os.environ[name] for name in ("GLIBC_TUNABLES",) if name in os.environ}
    return {
        **chosen,
        "PATH": os.defpath,
        "HOME": str(scratch),
        "HERMES_HOME": str(scratch / "hermes-home"),
        "PYTHONPATH": str(environments.REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }


def _copy_durably(source: Path, target: Path) -> None:
    """Copy and wait for the disk: write-back must not run into what is measured next."""
    shutil.copyfile(source, target)
    with target.open("rb") as copied:
        os.fsync(copied.fileno())
