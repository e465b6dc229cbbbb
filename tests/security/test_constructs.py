"""What is not in the source: code from data, shells, guessable files, unchecked certificates."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
#: Modules whose reading runs what is read, or that are known to be unsafe.
MODULES = {
    *("pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "jsonpickle", "joblib"),
    *("xml", "lxml", "telnetlib", "ftplib", "imp", "code", "codeop", "pty", "crypt"),
}
#: Calls, by their last two names.
CALLS = {
    "eval": "runs text",
    "exec": "runs text",
    "compile": "makes code of text",
    "__import__": "imports what a value names",
    "os.system": "runs a shell",
    "os.popen": "runs a shell",
    "subprocess.getoutput": "runs a shell",
    "subprocess.getstatusoutput": "runs a shell",
    "yaml.load": "makes any object; yaml.safe_load does not",
    "yaml.load_all": "makes any object",
    "yaml.unsafe_load": "makes any object",
    "yaml.full_load": "makes any object",
    "tempfile.mktemp": "a name that others can take first",
    "ssl._create_unverified_context": "trusts everybody",
    "hashlib.md5": "broken",
    "hashlib.sha1": "broken",
    "random.choice": "guessable; where it decides nothing secret, say so below",
    "tarfile.extractall": "writes where an archive says",
    "zipfile.extractall": "writes where an archive says",
    "shutil.unpack_archive": "writes where an archive says",
}
SAFE_LOADERS = {"SafeLoader", "CSafeLoader", "BaseLoader"}


def unsafe_in(source: str) -> Iterator[tuple[int, str]]:  # noqa: C901 - one case for each kind
    """Yield line and name of everything on the lists."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name.partition(".")[0] in MODULES:
                        yield node.lineno, alias.name
            case ast.ImportFrom(module=str() as module, names=names):
                if module.partition(".")[0] in MODULES:
                    yield node.lineno, module
                for alias in names:
                    if f"{module}.{alias.name}" in CALLS:
                        yield node.lineno, f"{module}.{alias.name}"
            case ast.Call(func=function, keywords=keywords):
                name = ".".join(ast.unparse(function).split(".")[-2:])
                if name in CALLS and not _is_safe_yaml(node):
                    yield node.lineno, name
                for keyword in keywords:
                    match keyword:
                        case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                            yield node.lineno, "shell=True"
                        case ast.keyword(
                            arg="verify" | "ssl" | "check_hostname",
                            value=ast.Constant(value=False),
                        ):
                            yield node.lineno, f"{keyword.arg}=False"


def _is_safe_yaml(call: ast.Call) -> bool:
    """Whether a loader is named that makes plain values alone."""
    named = [*call.args[1:], *(k.value for k in call.keywords if k.arg == "Loader")]
    return any(ast.unparse(each).rpartition(".")[2] in SAFE_LOADERS for each in named)


def test_nothing_of_it_is_in_the_source() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for line, name in unsafe_in(path.read_text(encoding="utf-8")):
            found.append(f"{module}:{line} {name}: {CALLS.get(name, '')}")
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from xml.etree import ElementTree",
        "eval(text)",
        "yaml.load(text)",
        "from yaml import load",
        "subprocess.run(text, shell=True)",
        "httpx.Client(verify=False)",
        "tempfile.mktemp()",
    ],
)
def test_it_would_be_found(line: str) -> None:
    assert list(unsafe_in(line))
