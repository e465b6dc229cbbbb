"""Write src/hermes_sessions/storage/async_db.py from sessiondb.py: every verb, awaitable.

Run it after a change of a public signature of `SessionDB`, in the environment of the tests:
``.venv/bin/python scripts/async_twin.py``. A test fails while the file is not what this makes.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

STORAGE = Path(__file__).resolve().parent.parent / "src" / "hermes_sessions" / "storage"
FACADE = STORAGE / "sessiondb.py"
TWIN = STORAGE / "async_db.py"

# Written by hand in `AsyncHandle`.
BY_HAND = {"close"}
SECTION = re.compile(r" +# ── .* ─+")

HEADER = '''\
"""AsyncSessionDB: `SessionDB` for asyncio, verb by verb.

Made from sessiondb.py by scripts/async_twin.py: change that, not this. What a verb does is said
there; what threads and cancelling have to do with it, in `hermes_sessions.storage.async_handle`.
"""
'''
CLASS = '''
class AsyncSessionDB(AsyncHandle):
    """Every verb of `SessionDB`, awaitable; for asyncio only.

    Open one with `open` or `from_url`, or give it a `SessionDB`, which is closed with it. Callbacks
    and iterables given to a verb are used in the verb's thread.
    """
'''
OPEN = '''
    @classmethod
    def open({parameters}) -> Opening[Self]:
        """Open a store as `SessionDB` does: ``async with AsyncSessionDB.open(...) as db`` closes it
        again, ``await AsyncSessionDB.open(...)`` leaves that to the caller.

        *threads* is how many calls run at the same time. If opening is cancelled, the store is
        closed.
        """
        return cls._open(threads, SessionDB{handed_on})
'''
FROM_URL = '''
    @classmethod
    def from_url({parameters}) -> Opening[Self]:
        """Open a store as `SessionDB.from_url` does; otherwise like `open`."""
        return cls._open(threads, SessionDB.from_url{handed_on})
'''
STATIC = '''
    @staticmethod
    def {name}({parameters}) -> {returns}:
        """See `SessionDB.{name}`; not awaited, because it asks no database."""
        return SessionDB.{name}({arguments})
'''
PROPERTY = '''
    @property
    def {name}(self) -> {returns}:
        """See `SessionDB.{name}`."""
        return self._db.{name}
'''
ITERATOR = '''
    def {name}({parameters}) -> {returns}:
        """See `SessionDB.{name}`; leave it early inside ``contextlib.aclosing``."""
        return self._iterate(self._db.{name}{handed_on})
'''
VERB = '''
    async def {name}({parameters}) -> {returns}:
        """See `SessionDB.{name}`."""
        {do} self._call(self._db.{name}{handed_on})
'''
# The one verb that promises never to raise: a handle that is closed is reported, too.
REPORTING = '''
    async def {name}({parameters}) -> {returns}:
        """See `SessionDB.{name}`."""
        try:
            return await self._call(self._db.{name}{handed_on})
        except StoreClosed as error:
            return {{"skipped": False, "pruned": 0, "vacuumed": False, "error": str(error)}}
'''
NEVER_RAISES = "maybe_auto_prune_and_vacuum"


def twin_of(source: str) -> str:
    """Return the text of the async twin of the facade in *source*."""
    tree = ast.parse(source)
    [facade] = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "SessionDB"]
    body = CLASS + "".join(members(facade, source.splitlines()))
    return formatted(HEADER + imports(tree, body) + body)


def members(facade: ast.ClassDef, lines: list[str]) -> Iterator[str]:
    """Yield the members of the twin in the order of the facade, under the same headings."""
    written = facade.lineno
    for node in facade.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                kind = ast.unparse(node.annotation)
                yield f"\n    {name}: {kind} = SessionDB.{name}\n"
            case ast.FunctionDef(name=name) if name == "__init__" or not name.startswith("_"):
                yield from (
                    f"\n{line}\n"
                    for line in lines[written : node.lineno - 1]
                    if SECTION.fullmatch(line)
                )
                written = node.lineno
                if name not in BY_HAND:
                    yield member(node)


def member(verb: ast.FunctionDef) -> str:
    """Return what stands in the twin for one member of the facade."""
    decorators = {ast.unparse(decorator) for decorator in verb.decorator_list}
    returns = ast.unparse(verb.returns) if verb.returns else "None"
    form, do = VERB, "await" if returns == "None" else "return await"
    if verb.name in ("__init__", "from_url"):
        form = OPEN if verb.name == "__init__" else FROM_URL
        verb.args.args[0].arg = "cls"
        verb.args.kwonlyargs.append(ast.arg("threads", ast.Name("int")))
        verb.args.kw_defaults.append(ast.Name("DEFAULT_THREADS"))
    elif verb.name == NEVER_RAISES:
        form = REPORTING
    elif "staticmethod" in decorators:
        form = STATIC
    elif "property" in decorators:
        form = PROPERTY
    elif returns.startswith("Iterator["):
        form = ITERATOR
        returns = f"Async{returns.replace('Iterator', 'Generator')[:-1]}, None]"
    elif decorators:
        raise SystemExit(f"{verb.name}: what {decorators} means to the twin is not known")
    return form.format(
        name=verb.name,
        parameters=ast.unparse(verb.args),
        arguments=", ".join(arguments(verb.args)),
        handed_on="".join(f", {argument}" for argument in arguments(verb.args)),
        returns=returns,
        do=do,
    )


def arguments(given: ast.arguments) -> Iterator[str]:
    """Yield what hands every parameter on."""
    for parameter in [*given.posonlyargs, *given.args]:
        if parameter.arg not in ("self", "cls"):
            yield parameter.arg
    if given.vararg:
        yield f"*{given.vararg.arg}"
    for parameter in given.kwonlyargs:
        if parameter.arg != "threads":
            yield f"{parameter.arg}={parameter.arg}"
    if given.kwarg:
        yield f"**{given.kwarg.arg}"


def imports(facade: ast.Module, body: str) -> str:
    """Return those imports of the facade that *body* needs, and the twin's own."""
    needed = {n.id for n in ast.walk(ast.parse(body)) if isinstance(n, ast.Name)}
    ours = ast.parse(
        "from collections.abc import AsyncGenerator\n"
        "from hermes_sessions.errors import StoreClosed\n"
        "from hermes_sessions.storage.async_handle import DEFAULT_THREADS, AsyncHandle, Opening\n"
        "from hermes_sessions.storage.sessiondb import Record, SessionDB\n"
    )
    at_once = [*import_lines(facade.body, needed), *import_lines(ours.body, needed)]
    typing_only: list[str] = []
    for node in facade.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            typing_only += import_lines(node.body, needed)
    text = "from __future__ import annotations\n" + "\n".join(at_once)
    if typing_only:
        text += "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "
        text += "\n    ".join(typing_only)
    return text + "\n"


def import_lines(nodes: list[ast.stmt], needed: set[str]) -> Iterator[str]:
    """Yield the imports among *nodes*, less the names that are not needed."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [name for name in node.names if (name.asname or name.name) in needed]
            if node.names:
                yield ast.unparse(node)


def formatted(text: str) -> str:
    """Return *text* in the form of the house."""
    ruff = [Path(sys.executable).with_name("ruff")]
    for step in (["check", "--select", "I", "--fix", "--quiet"], ["format"]):
        text = subprocess.run(
            [*ruff, *step, "--stdin-filename", TWIN, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


def main() -> None:
    """Write the twin."""
    TWIN.write_text(twin_of(FACADE.read_text()))


if __name__ == "__main__":
    main()
