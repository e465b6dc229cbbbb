"""Rules of the tree that a machine can check: imports, environment, waits, third-party packages."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
TEST_TOOLS = ROOT / "testing" / "src"
TEST_TOOLS_NAME = "hermes_sessions_testing"
#: The one module of the product that knows of the test tools: their old name.
ALIAS_OF_TEST_TOOLS = "hermes_sessions.testing"

# Third-party packages, and the parts of the house that may import each of them.
HOMES = {
    "apsw": {"hermes_sessions.storage.sqlite"},
    "psycopg": {"hermes_sessions.storage.postgresql"},
    "psycopg_pool": {"hermes_sessions.storage.postgresql"},
    "pymysql": {"hermes_sessions.storage.mysql"},
    "yaml": {"hermes_sessions.config"},
    "click": {"hermes_sessions.cli"},
    "snowballstemmer": {"hermes_sessions.text"},
    "wcwidth": {"hermes_sessions.cli"},
    "h11": {"hermes_sessions.gateway.platforms"},
    "httpx": {"hermes_sessions.agent", "hermes_sessions.gateway"},
    "prompt_toolkit": {"hermes_sessions.cli"},
    "xllamacpp": {"hermes_sessions.agent"},
    "telegram": {"hermes_sessions.gateway.platforms.telegram"},
    "slack_sdk": {"hermes_sessions.gateway.platforms.slack"},
    # What the packages of these messengers speak HTTP with, and raise the errors of.
    "aiohttp": {
        "hermes_sessions.gateway.platforms.discord",
        "hermes_sessions.gateway.platforms.matrix",
        "hermes_sessions.gateway.platforms.slack",
        "hermes_sessions_testing.fake_servers",
    },
    "discord": {"hermes_sessions.gateway.platforms.discord"},
    "yarl": {"hermes_sessions.gateway.platforms.discord"},
    "nio": {"hermes_sessions.gateway.platforms.matrix"},
    # What nio keeps its keys with.
    "peewee": {"hermes_sessions.gateway.platforms.matrix"},
    "starlette": {"hermes_sessions.gateway", "hermes_sessions.web"},
    "uvicorn": {"hermes_sessions.gateway", "hermes_sessions.web"},
    "prometheus_client": {"hermes_sessions.gateway", "hermes_sessions.web"},
    "pytest": {"hermes_sessions_testing"},
}
# The standard library's SQLite must never open a store: two SQLite libraries on one file in one
# process drop each other's locks. Its error classes are part of the documented API, though.
NAMES_SQLITE_ERRORS = {
    "hermes_sessions.errors",
    "hermes_sessions.drop_in.file_health",
    "hermes_sessions.drop_in.journal_mode",
}
#: Keeps connections of the standard library out of a store by having one itself.
USES_SQLITE = "hermes_sessions.storage.sqlite.sqlite3_lock"
#: Functions outside of event loops that wait without a bound, and why they end all the same.
ENDLESS_WAITS = {
    "hermes_sessions.agent.clients.local_model:_events": "it ends its answer, or `shut` does",
    "hermes_sessions.cli.chat.job_queue:close": "an interrupted turn ends, or Ctrl-C the wait",
    "hermes_sessions.lifecycle.conversation_lease:stop": "one renewal, which is bounded",
    "hermes_sessions.storage.mysql.migration_lock:kept": "one renewal, which is bounded",
    "hermes_sessions.storage.sqlite.checkpoint:_run": "a thread for work; `stop` wakes it",
    "hermes_sessions.storage.sqlite.repair.recover_tool:recover_with": "a timer kills the process",
    "hermes_sessions.storage.sqlite.shared_engines:before_fork": "opening and closing are bounded",
}
#: Functions with loops of writes that are bounded in their own way; others use `steps.repeat`.
LOOPS_OF_WRITES = {
    "hermes_sessions.storage.search.index_maintenance:compact": "by time",
    "hermes_sessions.storage.batches:run_in_batches": "by work and time",
}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def module_name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_inside(module: str, folder: str) -> bool:
    return module == folder or module.startswith(folder + ".")


def modules_in(source: Path) -> dict[str, ast.Module]:
    return {
        module_name(path, source): ast.parse(path.read_bytes(), str(path))
        for path in sorted(source.rglob("*.py"))
    }


MODULES = modules_in(SOURCE)
TEST_TOOL_MODULES = modules_in(TEST_TOOLS)


def imports_of(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Absolute imports, wherever in the module they are, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, node.lineno


def reads_of_environment(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in ENVIRONMENT:
                yield node.lineno
            case ast.Attribute(attr="expandvars"):
                yield node.lineno
            case ast.ImportFrom(module="os", names=names):
                if any(alias.name in ENVIRONMENT for alias in names):
                    yield node.lineno


def functions_of(tree: ast.Module) -> Iterator[tuple[ast.AST, str, bool]]:
    """Every node with the function that it is in, and whether that belongs to an event loop."""

    def below(node: ast.AST, name: str, is_async: bool) -> Iterator[tuple[ast.AST, str, bool]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name, is_async = node.name, isinstance(node, ast.AsyncFunctionDef)
        yield node, name, is_async
        for child in ast.iter_child_nodes(node):
            yield from below(child, name, is_async)

    yield from below(tree, "", False)


def endless_waits(tree: ast.Module) -> Iterator[str]:
    """The functions that wait for a thread, a process or a lock without saying how long."""
    for node, function, is_async in functions_of(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[], keywords=[]):
                is_endless = not is_async and name in {"wait", "join", "get", "acquire"}
            case ast.Call(func=ast.Attribute(value=ast.Name("subprocess"), attr=name)):
                keywords = {each.arg for each in node.keywords}
                is_endless = name != "Popen" and "timeout" not in keywords
            case ast.Call(func=ast.Attribute(value=ast.Name("fcntl"), attr="flock" | "lockf")):
                is_endless = not {"LOCK_NB", "LOCK_UN"} & {
                    each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)
                }
            case _:
                continue
        if is_endless:
            yield function


def loops_of_writes(tree: ast.Module) -> Iterator[str]:
    """The functions that write until a write finds nothing more to do."""
    for node, function, _ in functions_of(tree):
        if isinstance(node, ast.While) and any(
            isinstance(each, ast.Attribute) and each.attr == "write" for each in ast.walk(node.test)
        ):
            yield function


def lint_imports(directory: Path, source: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with *directory*'s configuration on the package found in *source*."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )


def contract(kind: str) -> dict[str, list[str]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return next(contract for contract in settings["contracts"] if contract["type"] == kind)


def test_imports_keep_the_layer_order() -> None:
    result = lint_imports(ROOT, SOURCE)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("path", "text", "kept"),
    [
        ("text/english_words.py", "from hermes_sessions.model import session", True),
        ("model/words.py", "from hermes_sessions.text import query", False),
        ("model/words.py", "def f():\n    from hermes_sessions.text import query", False),
        ("cli/words.py", "import hermes_sessions.gateway", True),
        ("gateway/words.py", "import hermes_sessions.cli", False),
        ("storage/sqlite/words.py", "from hermes_sessions.storage import mysql", False),
        ("novelty/__init__.py", "", False),
        ("novelty.py", "", False),
    ],
)
def test_the_contracts_notice(tmp_path: Path, path: str, text: str, kept: bool) -> None:
    """The contracts, applied to a small house, so that their silence about ours means something."""
    package = tmp_path / "hermes_sessions"
    rooms = ("cli", "gateway", "storage/sqlite", "storage/mysql", "text", "model")
    files = {f"{room}/__init__.py": "" for room in ("", "storage", *rooms)}
    files |= {"text/query.py": "", "model/session.py": "", path: text}
    for name, content in files.items():
        file = package / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    providers = "hermes_sessions.storage.sqlite\n  hermes_sessions.storage.mysql"
    layers = "\n  ".join(contract("layers")["layers"])
    (tmp_path / ".importlinter").write_text(
        "[importlinter]\nroot_package = hermes_sessions\n"
        "[importlinter:contract:1]\nname = order\ntype = layers\nexhaustive = true\n"
        f"containers = hermes_sessions\nlayers =\n  {layers}\n"
        "[importlinter:contract:2]\nname = providers\ntype = independence\n"
        f"modules =\n  {providers}\n"
    )
    result = lint_imports(tmp_path, tmp_path)
    assert (result.returncode == 0) is kept, result.stdout
    assert "Contracts: " in result.stdout


def test_every_package_of_the_house_has_a_place_in_the_order() -> None:
    order = contract("layers")
    placed = {name.strip(" ()") for layer in order["layers"] for name in layer.split("|")}
    tops = {name.split(".")[1] for name in MODULES if name.startswith("hermes_sessions.")}
    assert order["exhaustive"]
    assert tops <= placed


def test_every_provider_is_in_the_independence_contract() -> None:
    homes = {"hermes_sessions.storage." + name for name in ("sqlite", "postgresql", "mysql")}
    assert set(contract("independence")["modules"]) == homes & set(MODULES)


PROVIDERS = ("sqlite", "postgresql", "mysql")
REGISTRY = "hermes_sessions.storage.provider_registry"
#: Modules that name a provider, and why they may.
NAMES_PROVIDERS = {
    "hermes_sessions.config.settings": "declares the names and the default",
    "hermes_state": "the documented module exports SQLite's schema and its version",
}


def names_of_providers(tree: ast.Module) -> Iterator[int]:
    """The lines that import a provider's module, or have its name as a value."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names):
                imported = [module, *(f"{module}.{alias.name}" for alias in names)]
            case ast.Constant(value=str(value)):
                if value in PROVIDERS:
                    yield node.lineno
                imported = [value]
            case _:
                continue
        homes = [f"hermes_sessions.storage.{name}" for name in PROVIDERS]
        if any(is_inside(each, home) for each in imported for home in homes):
            yield node.lineno


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("if provider.name == 'sqlite': pass", [1]),
        ("if name in ('a', 'mysql'): pass", [1]),
        ("queries = {'postgresql': ''}", [1]),
        ("def f():\n from hermes_sessions.storage.sqlite.engine import MEMORY", [2]),
        ("from hermes_sessions.storage import mysql", [1]),
        ("import hermes_sessions.storage.mysql.provider", [1]),
        ("import_module('hermes_sessions.storage.mysql.provider')", [1]),
        ("from hermes_sessions.storage.provider_registry import file_care", []),
        ("print('Name a SQLite file, such as sqlite:///file.db')", []),
    ],
)
def test_names_of_providers_are_seen(source: str, lines: list[int]) -> None:
    assert list(names_of_providers(ast.parse(source))) == lines


def test_one_module_names_the_providers() -> None:
    """Other modules ask for a capability, which another package's provider may have, too."""
    homes = [REGISTRY, *(f"hermes_sessions.storage.{name}" for name in PROVIDERS)]
    found = {
        module
        for module, tree in MODULES.items()
        if not any(is_inside(module, home) for home in homes) and [*names_of_providers(tree)]
    }
    assert sorted(found ^ NAMES_PROVIDERS.keys()) == [], "ask the provider, or `file_care()`"


def test_the_public_names_are_for_those_outside() -> None:
    """Inside the package, importing from its front door would be an import cycle."""
    strays = [
        f"{module}:{node.lineno} imports {alias.name}"
        for module, tree in MODULES.items()
        if module not in {"hermes_sessions", "hermes_state"}
        and not is_inside(module, "hermes_sessions.cli")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "hermes_sessions"
        for alias in node.names
        if f"hermes_sessions.{alias.name}" not in MODULES
    ]
    assert not strays


def test_third_party_packages_are_imported_only_at_home() -> None:
    own = {"hermes_sessions", "hermes_state"}
    strays = []
    for module, tree in [*MODULES.items(), *TEST_TOOL_MODULES.items()]:
        for imported, line in imports_of(tree):
            top = imported.partition(".")[0]
            if top in sys.stdlib_module_names or top in own:
                continue
            if top == TEST_TOOLS_NAME and is_inside(module, top):
                continue
            if not any(is_inside(module, home) for home in HOMES.get(top, ())):
                strays.append(f"{module}:{line} imports {imported}")
    assert not strays


def names_of_test_tools(tree: ast.Module) -> Iterator[int]:
    """The lines that name the test tools, as an import or as a name to import."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if any(
                is_inside(alias.name, TEST_TOOLS_NAME) for alias in names
            ):
                yield node.lineno
            case ast.ImportFrom(module=str(name)) | ast.Constant(value=str(name)):
                if is_inside(name, TEST_TOOLS_NAME):
                    yield node.lineno


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import hermes_sessions_testing.clock", [1]),
        ("def f():\n from hermes_sessions_testing import clock", [2]),
        ("import_module('hermes_sessions_testing.clock')", [1]),
        ("'Mentions hermes_sessions_testing.'", []),
    ],
)
def test_names_of_test_tools_are_seen(source: str, lines: list[int]) -> None:
    assert list(names_of_test_tools(ast.parse(source))) == lines


def test_the_product_does_not_use_the_test_tools() -> None:
    found = {module for module, tree in MODULES.items() if [*names_of_test_tools(tree)]}
    assert found == {ALIAS_OF_TEST_TOOLS}


def test_the_package_does_not_need_the_drop_in_module() -> None:
    strays = [
        f"{module}:{line}"
        for module, tree in MODULES.items()
        for imported, line in imports_of(tree)
        if imported == "hermes_state" and module != "hermes_state"
    ]
    assert not strays


def test_only_config_reads_the_environment() -> None:
    strays = [
        f"{module}:{line}"
        for module, tree in MODULES.items()
        for line in reads_of_environment(tree)
        if not is_inside(module, "hermes_sessions.config")
    ]
    assert not strays


def test_the_standard_librarys_sqlite_lends_only_its_error_classes() -> None:
    strays = []
    for module, tree in MODULES.items():
        if module == USES_SQLITE:
            continue
        imported = [line for name, line in imports_of(tree) if is_inside(name, "sqlite3")]
        if module not in NAMES_SQLITE_ERRORS:
            strays += [f"{module}:{line}" for line in imported]
            continue
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id="sqlite3"), attr=name):
                    if not name.endswith(("Error", "Warning")):
                        strays.append(f"{module}:{node.lineno} uses sqlite3.{name}")
                case ast.ImportFrom(module="sqlite3", names=names):
                    strays += [
                        f"{module}:{node.lineno} uses sqlite3.{alias.name}"
                        for alias in names
                        if not alias.name.endswith(("Error", "Warning"))
                    ]
    assert not strays


@pytest.mark.parametrize(
    ("find", "explained"), [(endless_waits, ENDLESS_WAITS), (loops_of_writes, LOOPS_OF_WRITES)]
)
def test_waits_and_loops_of_writes_have_a_bound(
    find: Callable[[ast.Module], Iterator[str]], explained: dict[str, str]
) -> None:
    found = {f"{module}:{function}" for module, tree in MODULES.items() for function in find(tree)}
    assert sorted(found ^ explained.keys()) == [], "give it a bound, or say here why it ends"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(e): e.wait()", ["f"]),
        ("def f(e): e.wait(5)", []),
        ("def f(e): e.wait(timeout=5)", []),
        ("async def f(e): await e.wait()", []),
        ("async def f(e):\n def g(): e.join()", ["g"]),
        ("def f(): return ', '.join('ab')", []),
        ("def f(): subprocess.run(['a'])", ["f"]),
        ("def f(): subprocess.run(['a'], timeout=5)", []),
        ("def f(d): fcntl.flock(d, fcntl.LOCK_EX)", ["f"]),
        ("def f(d): fcntl.flock(d, fcntl.LOCK_EX | fcntl.LOCK_NB)", []),
        ("def f(p):\n while p.write(1): pass", ["f"]),
        ("def f(p):\n while done := p.write(1): pass", ["f"]),
        ("def f(p):\n while True: p.write(1)", []),
    ],
)
def test_waits_and_loops_of_writes_are_seen(source: str, names: list[str]) -> None:
    tree = ast.parse(source)
    assert [*endless_waits(tree), *loops_of_writes(tree)] == names


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import os\nos.environ['HOME']", [2]),
        ("import os\nos.getenv('HOME')", [2]),
        ("from os import environ", [1]),
        ("import os\nos.path.expandvars('$HOME')", [2]),
        ("import os\nos.path.expanduser('~')\nos.getpid()", []),
    ],
)
def test_reads_of_the_environment_are_seen(source: str, lines: list[int]) -> None:
    assert list(reads_of_environment(ast.parse(source))) == lines


LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
#: One conversion of %-formatting, and how many values it takes.
CONVERSION = re.compile(r"%(?:%|[-#0 +]*(\*|\d+)?(?:\.(\*|\d+))?[a-zA-Z])")


def careless_logging(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that log a text made in advance, or other than the format's values."""
    for node in ast.walk(tree):
        if not (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LOG_METHODS
            and ast.unparse(node.func.value).rsplit(".", 1)[-1] in {"logger", "_logger", "logging"}
        ):
            continue
        message, *values = node.args[node.func.attr == "log" :] or [None]
        if not (isinstance(message, ast.Constant) and isinstance(message.value, str)):
            yield node.lineno
        elif values and not any(isinstance(value, ast.Starred) for value in values):
            conversions = CONVERSION.finditer(message.value)
            if len(values) != sum(1 + c[0].count("*") for c in conversions if c[0] != "%%"):
                yield node.lineno


def test_log_calls_leave_formatting_to_the_standard_library() -> None:
    made = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path != SOURCE / "hermes_sessions" / "storage" / "logs.py"
        for line in careless_logging(ast.parse(path.read_text()))
    ]
    assert made == [], "Pass the format and its arguments: logger.info('%s failed', name)."


def test_loggers_are_called_after_their_module() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            match node:
                case ast.Assign(targets=[ast.Name(id="logger" | "_logger")], value=value) if (
                    ast.unparse(value) not in {"Logger(__name__)", "logging.getLogger(__name__)"}
                ):
                    wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert wrong == []


@pytest.mark.parametrize(
    ("call", "is_careless"),
    [
        ("logger.info('%s of %d: 100 %%', a, b)", False),
        ("logger.log(level, '%s', a)", False),
        ("self._logger.warning('done: 100 %')", False),
        ("logger.info(f'{a}')", True),
        ("logger.info('%s' % a)", True),
        ("logger.info('a' + b)", True),
        ("logger.info('{}'.format(a))", True),
        ("logger.info('%s', a, b)", True),
        ("logger.info('%s and %s', a)", True),
        ("math.log(a)", False),
    ],
)
def test_careless_logging_is_seen(call: str, is_careless: bool) -> None:
    assert list(careless_logging(ast.parse(call))) == ([1] if is_careless else [])


def test_imports_inside_functions_are_seen() -> None:
    tree = ast.parse("import a.b\ndef f():\n    from c.d import e\nfrom . import g")
    assert list(imports_of(tree)) == [("a.b", 1), ("c.d", 3)]


def attributes_of_classes(trees: Iterable[ast.Module]) -> dict[str, tuple[set[str], set[str]]]:
    """The names in the body of each class, and the names of its bases, by the class's name."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names, bases = found.setdefault(node.name, (set(), set()))
                bases |= {re.split(r"[.\[]", ast.unparse(base))[-1] for base in node.bases}
                for part in ast.walk(node):
                    names |= {
                        getattr(part, field)
                        for field in ("name", "id", "attr")
                        if isinstance(getattr(part, field, None), str)
                    }
    return found


def dangling_references(text: str, classes: dict[str, tuple[set[str], set[str]]]) -> Iterator[str]:
    """References such as `Class.method` in backticks to what the class does not have."""

    def has(name: str, attribute: str) -> bool:
        if name not in classes:
            return name not in {"object", "ABC", "Protocol", "Generic", "NamedTuple"}
        names, bases = classes[name]
        return attribute in names or any(has(base, attribute) for base in bases)

    for name, attribute in re.findall(r"`([A-Z]\w*)\.(\w+)[^`\n]*`", text):
        if name in classes and not has(name, attribute):
            yield f"{name}.{attribute}"


def test_references_to_members_of_classes_resolve() -> None:
    classes = attributes_of_classes([*MODULES.values(), *TEST_TOOL_MODULES.values()])
    dangling = {
        f"{path.relative_to(ROOT)}: {reference}"
        for source in (SOURCE, TEST_TOOLS)
        for path in source.rglob("*.py")
        for reference in dangling_references(path.read_text("utf-8"), classes)
    }
    assert sorted(dangling) == []


@pytest.mark.parametrize(
    ("text", "dangling"),
    [
        ("See `Base.method`.", []),
        ("See `Child.method()`.", []),
        ("See `Child.gone`.", ["Child.gone"]),
        ("See ``Base.gone``.", ["Base.gone"]),
        ("See `Unknown.gone`.", []),
    ],
)
def test_dangling_references_are_seen(text: str, dangling: list[str]) -> None:
    tree = ast.parse("class Base:\n    def method(self): ...\nclass Child(Base): ...")
    assert list(dangling_references(text, attributes_of_classes([tree]))) == dangling
