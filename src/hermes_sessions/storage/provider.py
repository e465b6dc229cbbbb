"""The port behind which a database stands.

A provider is connection-shaped: it gives transactions, maps its driver's errors to
`hermes_sessions.errors`, owns its schema and states its dialect as data. The verbs of the store are
written once above it, in ``repositories``. A new database implements this class and passes
``hermes_sessions_testing.conformance``.

SQL given to a transaction uses ``?`` for parameters and double quotes for names, and contains no
other question mark and no literal values. Text parameters and text results pass through the codec
inside the transaction, so that no caller can forget it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    runtime_checkable,
)

from hermes_sessions.errors import ConfigError, InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

    from hermes_sessions.config.settings import SessionDBSettings
    from hermes_sessions.storage.search.index_port import SearchIndex

T = TypeVar("T")
Durability = Literal["full", "normal"]
Row = tuple[Any, ...]
Params = Sequence[Any]


class ReadTransaction(Protocol):
    """Reads that see one consistent state of the database."""

    def one(self, sql: str, params: Params = ()) -> Row | None:
        """Return the first row, or None."""

    def all(self, sql: str, params: Params = ()) -> list[Row]:
        """Return every row."""

    def stream(self, sql: str, params: Params = ()) -> Iterator[Row]:
        """Yield rows without holding all of them in memory."""


class WriteTransaction(ReadTransaction, Protocol):
    """Reads and writes that happen together or not at all."""

    def run(self, sql: str, params: Params = ()) -> int:
        """Execute a statement and return how many rows it matched."""

    def run_many(self, sql: str, rows: Iterable[Params]) -> None:
        """Execute a statement once per row of parameters."""

    def insert(self, sql: str, params: Params = ()) -> int:
        """Execute an INSERT into a table with a generated ``id`` and return that id."""


@runtime_checkable
class InsertsRows(Protocol):
    """A write transaction that has a faster way to store many rows."""

    def insert_rows(self, table: str, columns: Sequence[str], rows: Iterable[Params]) -> None:
        """Insert the rows, in order."""


class Dialect(NamedTuple):
    """What differs between databases, as data."""

    name: str
    #: ``UPDATE … RETURNING`` gives the new row in the same round trip.
    update_returning: bool
    #: Appended to a SELECT that must keep the rows it read unchanged until commit.
    for_update: str
    #: How many parameters one statement may have.
    max_params: int
    #: Whether messages become visible in the order of their ids, as with a single writer.
    ids_in_order: bool = False
    #: Whether `SessionDBProvider.append_one` is there.
    appends_in_one_step: bool = False
    #: Lists the names of the tables of a store; without it, all declared ones must exist.
    tables_query: str | None = None

    def insert_if_absent(self, table: str, columns: Sequence[str], key: Sequence[str]) -> str:
        """Return an INSERT that does nothing when a row with the same *key* exists.

        Other violations still raise.
        """
        return f"{_insert(table, columns)} ON CONFLICT ({_names(key)}) DO NOTHING"

    def upsert(
        self, table: str, columns: Sequence[str], key: Sequence[str], update: Sequence[str]
    ) -> str:
        """Return an INSERT that overwrites the *update* columns of an existing row."""
        changes = ", ".join(f'"{name}" = excluded."{name}"' for name in update)
        return f"{_insert(table, columns)} ON CONFLICT ({_names(key)}) DO UPDATE SET {changes}"

    def ascii_lower(self, expression: str) -> str:
        """Return SQL that folds the case of ASCII letters, and of no others."""
        return f"lower({expression})"


def _names(columns: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _insert(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({_names(columns)}) VALUES ({placeholders(len(columns))})"


def placeholders(count: int) -> str:
    """Return *count* parameter marks for an IN list or a VALUES list."""
    return ", ".join("?" * count)


def bulk_insert(
    tx: WriteTransaction, table: str, columns: Sequence[str], rows: Sequence[Params]
) -> None:
    """Insert many rows, in order, in the fastest way that the database has."""
    if not rows:
        return
    if isinstance(tx, InsertsRows):
        tx.insert_rows(table, columns, rows)
    else:
        tx.run_many(_insert(table, columns), rows)


class OpenOptions(NamedTuple):
    """What a caller asks of a database, whichever it is; None leaves it to the configuration."""

    read_only: bool = False
    #: ``full``: what was acknowledged survives power loss; ``normal``: the death of the process.
    durability: Durability | None = None
    #: Seconds to wait for other writers.
    lock_timeout: float | None = None
    #: Says how many seconds are left to wait for a server; one that says nothing for so long is
    #: given up.
    seconds_left: Callable[[], float] | None = None


DEFAULT_OPEN_OPTIONS: Final = OpenOptions()


class NewRow(NamedTuple):
    """One message to append, with what it does to its session."""

    session_id: str
    columns: Sequence[str]
    values: Sequence[Any]
    timestamp: float
    tool_calls: int
    preview: str | None
    #: What ``sessions.fence`` must be, NULL included.
    fence: int | None = None


class MigrationSteps(NamedTuple):
    """The named steps that lead to a store's tables."""

    taken: tuple[str, ...] = ()
    #: Are taken when the store is next opened for writing.
    waiting: tuple[str, ...] = ()
    #: Take something away, and wait until no older version runs any more.
    finishing: tuple[str, ...] = ()

    @classmethod
    def of(cls, declared: Iterable[tuple[str, bool]], taken: Collection[str]) -> MigrationSteps:
        """Return what is left of the *declared* steps: their names, and whether they finish."""
        left = [(name, is_finishing) for name, is_finishing in declared if name not in taken]
        return cls(
            tuple(sorted(taken)),
            tuple(name for name, is_finishing in left if not is_finishing),
            tuple(name for name, is_finishing in left if is_finishing),
        )


class DeletedDataTrace(NamedTuple):
    """Where in its own files a database may still have something of rows that were deleted."""

    #: ``reader``: somebody reads a state from before. ``pages``: unused parts of pages in use.
    where: Literal["reader", "pages"]
    #: Why, in words.
    why: str


class Space(NamedTuple):
    """What takes up space in a database, as far as it tells."""

    #: Bytes by name.
    tables: Mapping[str, int] = {}
    indexes: Mapping[str, int] = {}
    #: Can be used again, or given back; None where the database does not tell.
    free_bytes: int | None = None
    #: Written, and not yet in its place.
    log_bytes: int | None = None
    #: Whether these are estimates: the database's own, or without what is not yet in its place.
    is_estimate: bool = False
    #: In use, and there was no time to see by what.
    uncounted_bytes: int = 0


class ServerChecks(NamedTuple):
    """The statements with which the doctor examines a server."""

    #: Returns the server's clock, in seconds since the epoch.
    clock: str
    #: Each returns process id, program, user and state of every process that holds a lock which
    #: others wait for; the first that the server understands is used.
    blockers: tuple[str, ...]
    #: Returns how many damaged pages the server counted.
    damaged_pages: str | None = None
    #: Lets the server check its tables, which may take long; returns rows of table, operation, kind
    #: and text.
    check_tables: str | None = None


class SessionDBProvider(ABC):
    """A database behind `SessionDB`; thread-safe, shared by all handles of one process."""

    name: ClassVar[str]
    dialect: ClassVar[Dialect]
    #: Whether a store is a file of this machine, and not on a server; `copy_image` copies it.
    is_file: ClassVar[bool] = False
    #: How the doctor examines the server; None for a file, and for a server that cannot be asked.
    server_checks: ClassVar[ServerChecks | None] = None
    #: Seconds that closing a handle waits for upkeep in the background to end.
    closing_seconds: ClassVar[float] = 30.0
    #: What a server keeps of deleted rows in files that only its operator can see to, in words.
    keeps: ClassVar[str | None] = None

    @classmethod
    def from_url(
        cls,
        url: str,  # noqa: ARG003
        open_options: OpenOptions = DEFAULT_OPEN_OPTIONS,  # noqa: ARG003
    ) -> SessionDBProvider:
        """Open the store that *url* names.

        Raises:
            InvalidInput: the URL cannot be used.
            StoreError: the store cannot be opened; the message says what to do.
        """
        raise InvalidInput(f"A {cls.name} store cannot be opened by a URL.")

    @classmethod
    def from_settings(
        cls, settings: SessionDBSettings, open_options: OpenOptions = DEFAULT_OPEN_OPTIONS
    ) -> SessionDBProvider:
        """Open the configured store; without a section of its own, by ``sessiondb.dsn``.

        Raises:
            ConfigError: something is missing.
            StoreError: the store cannot be opened; the message says what to do.
        """
        if not settings.dsn:
            raise ConfigError(
                f"sessiondb.provider is {cls.name}: set sessiondb.dsn to the URL of the database."
            )
        return cls.from_url(settings.dsn, open_options)

    @property
    @abstractmethod
    def read_only(self) -> bool:
        """Whether writes are refused on this handle."""

    @property
    def serves_one_thread(self) -> bool:
        """Whether a read keeps all other threads out until it ends, as on a single connection."""
        return False

    @abstractmethod
    def read(self) -> AbstractContextManager[ReadTransaction]:
        """Open a consistent read that never waits for a writer of the same process."""

    @abstractmethod
    def write(
        self,
        work: Callable[[WriteTransaction], T],
        *,
        patience: float | None = None,
        isolated: bool = True,
    ) -> T:
        """Run *work* in one transaction and commit it; return what it returned.

        With *isolated*, it is as if nobody else wrote meanwhile. Without, others may: *work* locks
        the rows it depends on by itself, so that it waits for them instead of being run again.

        *patience* bounds, in seconds, how long to wait for other writers, where the caller would
        rather give up sooner than configured. *work* may be run again from the start when the
        database asks for a retry, so it must have no effect but its statements. When `write`
        returns, the commit is as durable as configured; when it raises, nothing of *work* happened.
        """

    def append_one(self, row: NewRow) -> int | None:
        """Append one message as `write` would, in a single step; return its id, None when there is
        no such session or its fence is another. Only where `Dialect.appends_in_one_step` says so.
        """
        raise NotImplementedError

    def limit_waits(self, seconds: float) -> AbstractContextManager[None]:
        """Let all that this thread waits for in the block end within *seconds* altogether, for
        work that its caller can do without. What was not answered by then raises
        `StoreUnavailable`. A file does not leave a question unanswered: `lock_timeout` is enough.
        """
        del seconds
        return nullcontext()

    @property
    @abstractmethod
    def search_index(self) -> SearchIndex:
        """The database's inverted index."""

    def others_are_writing(self) -> bool:
        """Whether other processes write just now, and would wait for a write of this one. Where
        writers do not wait for each other, they do not. Also on a closed handle.
        """
        return False

    def limit_memory(self, most_bytes: int) -> None:
        """Let this process keep no more than about so many bytes of the store in memory, whatever
        the number of connections that it keeps open. What a server keeps is its own affair.
        """
        del most_bytes

    @abstractmethod
    def size_bytes(self) -> int:
        """Return how much space the store takes."""

    def space(self, has_time: Callable[[], bool] | None = None) -> Space:
        """Return which tables and indexes take how much space; a database that does not tell
        returns nothing.

        Without *has_time* it may look at the whole store. Otherwise it prefers what is fast, and
        ends with what it knows when *has_time* says no.
        """
        del has_time
        return Space()

    def copy_image(self, target: Path, on_progress: Callable[[int, int], None]) -> None:
        """Copy one snapshot of the store to a new file while others may write. Only where `is_file`
        says so.

        Raises:
            StoreError: the store cannot be read, or the file cannot be written.
        """
        raise NotImplementedError

    @abstractmethod
    def reclaim(self) -> None:
        """Give unused space back; may take long, never loses anything."""

    def trim(self) -> int:
        """Give a bounded part of the unused space back in one short step; return how many bytes.

        0 means that there is nothing more to give. Databases that see to their space themselves
        do not override this.
        """
        return 0

    def trim_all(self) -> int:
        """Call `trim` until there is nothing more to give; return how many bytes were given.

        Ends also when others free space all the time: never is more given than there was.
        """
        freed, most = 0, self.size_bytes()
        while freed < most and (step := self.trim()):
            freed += step
        return freed

    def leaving_no_trace(self) -> AbstractContextManager[None]:
        """Let writes of this process in the block overwrite what they delete, where the database
        can be told to; it costs time.
        """
        return nullcontext()

    def scrub(self, *, rebuild: bool = False) -> list[DeletedDataTrace]:
        """Remove what is left of deleted rows from the store's own files, and return what could not
        be removed now; a later call goes on.

        Short steps, unless the store is small or a *rebuild* is asked for, which keeps writers
        waiting for as long as it takes to write all of it. Databases whose files only their server
        can see do not override this; see `keeps`.
        """
        del rebuild
        return []

    @abstractmethod
    def after_explicit_ids(self, tx: WriteTransaction, table: str) -> None:
        """Make generated ids of *table* continue above ids that were inserted explicitly."""

    def steps(self) -> MigrationSteps:
        """Return the steps that were taken and those that are left, where there are any."""
        return MigrationSteps()

    def finish_steps(self) -> tuple[str, ...]:
        """Take the steps that waited until no older version runs any more; return their names."""
        return ()

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return facts for people: location, versions, settings. Never a secret."""

    @abstractmethod
    def close(self) -> None:
        """Release this handle; a second call does nothing."""
