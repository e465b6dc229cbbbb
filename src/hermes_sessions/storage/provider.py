"""The interface of a database provider.

A provider opens transactions, translates its driver's errors to `hermes_sessions.errors`, owns its
schema and declares its dialect as data. The operations of the store are written once above it, in
``repositories``. A new database implements `SessionDBProvider` and passes
``hermes_sessions_testing.conformance``.

SQL given to a transaction uses ``?`` for parameters and double quotes for names, and contains no
other question mark and no literal values. Text parameters and text results pass through the codec
inside the transaction, so that no caller can forget it.
"""

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
    from hermes_sessions.storage.raw_sql import RawStatements
    from hermes_sessions.storage.search.index_port import SearchIndex

T = TypeVar("T")
Durability = Literal["full", "normal"]
Row = tuple[Any, ...]
Params = Sequence[Any]


class ReadTransaction(Protocol):
    """Reads from one consistent snapshot of the database."""

    def one(self, sql: str, params: Params = ()) -> Row | None:
        """Return the first row, or None."""

    def all(self, sql: str, params: Params = ()) -> list[Row]:
        """Return every row."""

    def stream(self, sql: str, params: Params = ()) -> Iterator[Row]:
        """Yield rows without holding all of them in memory."""


class WriteTransaction(ReadTransaction, Protocol):
    """Reads and writes that are committed together or not at all."""

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
    """The differences between databases, as data."""

    name: str
    #: ``UPDATE … RETURNING`` gives the new row in the same round trip.
    update_returning: bool
    #: Appended to a SELECT that must keep the rows it read unchanged until commit.
    for_update: str
    #: How many parameters one statement may have.
    max_params: int
    #: Whether messages become visible in the order of their ids, as with a single writer.
    ids_in_order: bool = False
    #: Whether the provider implements `SessionDBProvider.append_one`.
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
    """Options for opening a store on any database; None means the configured value."""

    read_only: bool = False
    #: Acknowledged writes survive power loss (``full``) or the death of the process (``normal``).
    durability: Durability | None = None
    #: Seconds to wait for other writers.
    lock_timeout: float | None = None
    #: Returns how many more seconds to wait for a server that does not answer.
    seconds_left: Callable[[], float] | None = None
    #: Whether a file of a later Hermes, which may still use it, is upgraded in place or refused.
    upgrade_later: bool = False


DEFAULT_OPEN_OPTIONS: Final = OpenOptions()


class NewRow(NamedTuple):
    """A message to append, with the changes to its session."""

    session_id: str
    columns: Sequence[str]
    values: Sequence[Any]
    timestamp: float
    tool_calls: int
    preview: str | None
    #: The value that ``sessions.fence`` must have; None means NULL.
    fence: int | None = None


class UpgradedTable(NamedTuple):
    """What an upgrade did with one table of the file."""

    table: str
    outcome: Literal["taken", "kept", "dropped"]
    #: How many rows the table had, and how many it has; None for a search index.
    rows: int | None
    rows_after: int | None
    note: str = ""


class FileUpgrade(NamedTuple):
    """A file of Hermes that was turned into a store."""

    version: int
    backup: str
    sessions: int
    messages: int
    tables: tuple[UpgradedTable, ...]


class MigrationSteps(NamedTuple):
    """The migration steps of a store, by name."""

    taken: tuple[str, ...] = ()
    #: Steps that run when the store is next opened for writing.
    waiting: tuple[str, ...] = ()
    #: Steps that remove something; they wait until no older version of the program runs.
    finishing: tuple[str, ...] = ()
    #: Set if opening the store upgraded a file of Hermes.
    upgraded: FileUpgrade | None = None

    @classmethod
    def of(cls, declared: Iterable[tuple[str, bool]], taken: Collection[str]) -> "MigrationSteps":
        """Sort the *declared* steps, pairs of a name and whether it is finishing, by state."""
        left = [(name, is_finishing) for name, is_finishing in declared if name not in taken]
        return cls(
            tuple(sorted(taken)),
            tuple(name for name, is_finishing in left if not is_finishing),
            tuple(name for name, is_finishing in left if is_finishing),
        )


class DeletedDataTrace(NamedTuple):
    """A place in the database's files that may still contain deleted rows."""

    #: ``reader``: an open read uses an older snapshot. ``pages``: unused parts of pages in use.
    where: Literal["reader", "pages"]
    #: The reason, as text for the user.
    why: str


class Space(NamedTuple):
    """The space used by tables and indexes, as far as the database reports it."""

    #: Bytes by name.
    tables: Mapping[str, int] = {}
    indexes: Mapping[str, int] = {}
    #: Unused space inside the store; None where the database does not report it.
    free_bytes: int | None = None
    #: The size of the write-ahead log.
    log_bytes: int | None = None
    #: Whether the values are estimates by the database, or exclude what is only in the log.
    is_estimate: bool = False
    #: Space in use that there was no time to assign to tables.
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
    #: Seconds that closing a handle waits for background maintenance to end.
    closing_seconds: ClassVar[float] = 30.0
    #: What a server keeps of deleted rows in files that only its operator can clean, as text.
    keeps: ClassVar[str | None] = None

    @classmethod
    def from_url(
        cls,
        url: str,  # noqa: ARG003
        open_options: OpenOptions = DEFAULT_OPEN_OPTIONS,  # noqa: ARG003
    ) -> "SessionDBProvider":
        """Open the store that *url* names.

        Raises:
            InvalidInput: the URL cannot be used.
            StoreError: the store cannot be opened; the message says what to do.
        """
        raise InvalidInput(f"A {cls.name} store cannot be opened by a URL.")

    @classmethod
    def from_settings(
        cls, settings: "SessionDBSettings", open_options: OpenOptions = DEFAULT_OPEN_OPTIONS
    ) -> "SessionDBProvider":
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
        """Whether a read blocks all other threads until it ends, as on a single connection."""
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
        """Run *work* in one transaction and commit it; return its result.

        With *isolated*, the transaction is serializable. Without, other transactions may write
        meanwhile: *work* locks the rows it depends on, so that it waits instead of being retried.

        *patience* bounds the wait for other writers, in seconds, if it is shorter than configured.
        *work* may run again from the start when the database asks for a retry, so it must have no
        effect except its statements. When `write` returns, the commit is as durable as configured;
        when it raises, nothing of *work* is stored.
        """

    def append_one(self, row: NewRow) -> int | None:
        """Append a message in a single round trip; return its id, or None if the session does not
        exist or has another fence. Requires `Dialect.appends_in_one_step`.
        """
        raise NotImplementedError

    def limit_waits(self, seconds: float) -> AbstractContextManager[None]:
        """Limit all waits of this thread in the block to *seconds* in total, for optional work.

        A statement that is not answered by then raises `StoreUnavailable`. Databases in a file
        always answer, so `lock_timeout` is enough for them.
        """
        del seconds
        return nullcontext()

    @property
    @abstractmethod
    def search_index(self) -> "SearchIndex":
        """The database's inverted index."""

    def others_are_writing(self) -> bool:
        """Return whether other processes are writing and would wait for a write of this one.

        Always False where writers do not wait for each other. Works on a closed handle.
        """
        return False

    def limit_memory(self, most_bytes: int) -> None:
        """Limit the memory for cached parts of the store in this process to about *most_bytes*, for
        all connections together. The memory of a server is not affected.
        """
        del most_bytes

    @abstractmethod
    def size_bytes(self) -> int:
        """Return the size of the store in bytes."""

    def space(self, has_time: Callable[[], bool] | None = None) -> Space:
        """Return the space used by tables and indexes; empty if the database does not report it.

        Without *has_time* it may read the whole store. Otherwise it prefers fast methods, and
        returns the values known so far when *has_time* returns False.
        """
        del has_time
        return Space()

    def copy_image(self, target: "Path", on_progress: Callable[[int, int], None]) -> None:
        """Copy one snapshot of the store to a new file while others may write. Only where `is_file`
        says so.

        Raises:
            StoreError: the store cannot be read, or the file cannot be written.
        """
        raise NotImplementedError

    @abstractmethod
    def reclaim(self) -> None:
        """Return unused space to the system. May take long; never loses data."""

    def trim(self) -> int:
        """Return a bounded part of the unused space to the system in one short step.

        Returns the number of bytes; 0 means that no unused space is left. Databases that manage
        their space themselves do not override this.
        """
        return 0

    def trim_all(self) -> int:
        """Call `trim` until no unused space is left; return the number of bytes freed.

        Stops at the initial size of the store, in case other processes keep freeing space.
        """
        freed, most = 0, self.size_bytes()
        while freed < most and (step := self.trim()):
            freed += step
        return freed

    def leaving_no_trace(self) -> AbstractContextManager[None]:
        """Make writes of this process in the block overwrite the data they delete, where the
        database supports it. Slower than normal writes.
        """
        return nullcontext()

    def scrub(self, *, rebuild: bool = False) -> list[DeletedDataTrace]:
        """Remove the remains of deleted rows from the store's files; return those that could not be
        removed now. A later call continues.

        Works in short steps, unless the store is small or *rebuild* is True: then writers wait
        until the whole store is rewritten. Databases whose files only their server can access do
        not override this; see `keeps`.
        """
        del rebuild
        return []

    @abstractmethod
    def after_explicit_ids(self, tx: WriteTransaction, table: str) -> None:
        """Make generated ids of *table* continue above ids that were inserted explicitly."""

    def require_level(self, tx: WriteTransaction, step: str, level: int) -> None:
        """Require from now on that programs which open the store for writing know *level*, because
        of *step*, which counts as taken. Does nothing in a provider without levels.
        """
        del tx, step, level

    def steps(self) -> MigrationSteps:
        """Return the migration steps that have run and those that remain."""
        return MigrationSteps()

    def finish_steps(self) -> tuple[str, ...]:
        """Run the finishing steps, once no older version runs any more; return their names."""
        return ()

    def raw_sql(self) -> "RawStatements | None":
        """Return an object like a connection for SQL of callers, written for SQLite; None if this
        database does not run such statements.
        """
        return None

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return location, versions and settings for display. Never contains a secret."""

    @abstractmethod
    def close(self) -> None:
        """Release this handle; a second call does nothing."""
