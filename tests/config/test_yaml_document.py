import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.config.yaml_document import (
    MAX_DEPTH,
    MAX_FILE_BYTES,
    Listing,
    Node,
    Scalar,
    Section,
    read_document,
)
from hermes_sessions.errors import ConfigError


@pytest.fixture(params=["c", "python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both parsers of PyYAML: builds without the C library must answer in the same way."""
    if request.param == "python":
        monkeypatch.delattr(yaml, "CSafeLoader")
    return str(request.param)


@pytest.fixture
def file(tmp_path: Path, parser: str) -> Path:
    return tmp_path / "config.yaml"


def plain(node: Node) -> object:
    if isinstance(node, Scalar):
        return None if node.is_null else node.text
    if isinstance(node, Listing):
        return [plain(item) for item in node.items]
    return {key.text: plain(value) for key, value in node.entries()}


def read(file: Path, text: str) -> object:
    file.write_text(text, encoding="utf-8")
    document = read_document(file)
    return None if document is None else plain(document)


def refusal(file: Path, text: str) -> str:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_document(file)
    assert str(file) in str(caught.value)
    return str(caught.value)


def test_missing_file_is_nothing(tmp_path: Path) -> None:
    assert read_document(tmp_path / "config.yaml") is None
    assert read_document(tmp_path / "none" / "config.yaml") is None


@pytest.mark.parametrize("text", ["", "\n \n", "# only a comment\n", "---\n", "---\n...\n", "~\n"])
def test_file_without_content_is_nothing(file: Path, text: str) -> None:
    assert read(file, text) is None


def test_text_stays_as_written(file: Path) -> None:
    text = 'a: on\nb: 1:30\nc: "null"\nd: null\ne:\nf: 0x10\ng: |\n  two\n  lines\nh: ${X}\n'
    assert read(file, text) == {
        "a": "on",
        "b": "1:30",
        "c": "null",
        "d": None,
        "e": None,
        "f": "0x10",
        "g": "two\nlines\n",
        "h": "${X}",
    }


def test_byte_order_mark_and_windows_line_ends(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfa:\r\n  b: c\r\n")
    document = read_document(file)
    assert document is not None
    assert plain(document) == {"a": {"b": "c"}}


def test_lines_are_known(file: Path) -> None:
    file.write_text("a: 1\n# comment\nb:\n  c: 2\n", encoding="utf-8")
    document = read_document(file)
    assert document is not None
    (a, _), (b, inner) = document.entries()
    assert (a.line, b.line) == (1, 3)
    assert isinstance(inner, Section)
    assert inner.entries()[0][0].line == 4


def test_duplicates_are_kept_for_the_reader_to_judge(file: Path) -> None:
    file.write_text("a: 1\nb: 2\na: 3\n", encoding="utf-8")
    document = read_document(file)
    assert document is not None
    assert [(key.text, key.line) for key, _ in document.entries()] == [("a", 1), ("b", 2), ("a", 3)]


def test_anchors_aliases_and_merges(file: Path) -> None:
    text = (
        "base: &base {x: 1, y: 2}\nmore: &more {y: 3, z: 4}\n"
        "one: *base\ntwo: {<<: *base, x: 9}\nthree: {<<: [*base, *more], w: 0}\n"
        "four: {'<<': 5}\n"
    )
    document = read(file, text)
    assert isinstance(document, dict)
    assert document["one"] == {"x": "1", "y": "2"}
    assert document["two"] == {"x": "9", "y": "2"}
    assert document["three"] == {"w": "0", "x": "1", "y": "2", "z": "4"}
    assert document["four"] == {"<<": "5"}


def test_a_section_that_merges_itself_ends(file: Path) -> None:
    assert read(file, "a: &a {<<: *a, b: 1}\n") == {"a": {"b": "1"}}


def test_aliases_do_not_multiply(file: Path) -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 40))
    file.write_text(f"l0: &l0 {{x: 1}}\n{levels}s: {{<<: *l39}}\n", encoding="utf-8")
    document = read_document(file)
    assert document is not None
    key, section = document.entries()[-1]
    assert key.text == "s"
    assert plain(section) == {"x": "1"}


def test_keys_that_are_not_text_are_left_out(file: Path) -> None:
    assert read(file, "? [a, b]\n: 1\n? {c: d}\n: 2\ne: 3\n") == {"e": "3"}


@pytest.mark.parametrize(("text", "found"), [("- a\n- b\n", "a list"), ("hello\n", "a single")])
def test_file_without_sections_is_refused(file: Path, text: str, found: str) -> None:
    message = refusal(file, text)
    assert f"holds {found}" in message
    assert "sessiondb:\n  provider: sqlite" in message


@pytest.mark.parametrize(
    ("text", "line", "column", "hint"),
    [
        ("a: 1\n  b: 2\n", 2, 4, "indentation"),
        ("a:\n\tb: 1\n", 2, 1, "does not allow tabs"),
        ("a: {b: ${X}}\n", 1, 9, "in quotes"),
        ("a: 'x\n", 2, 1, "quotes"),
        ("a: [1, 2\n", 2, 1, "indentation"),
        ("a: @x\n", 1, 4, "quotes"),
    ],
)
def test_syntax_errors_name_line_and_column(
    file: Path, text: str, line: int, column: int, hint: str
) -> None:
    message = refusal(file, text)
    assert f"line {line}, column {column}: not valid YAML" in message
    assert hint in message


@pytest.mark.parametrize(
    "text",
    [
        "password: *hunter2\n",
        "a: 1\n b: hunter2: c\n",
        "password: 'hunter2\n",
        "password: %hunter2\n",
        "password: [hunter2\n",
        "password: !<hunter2\n",
        'password: "hunter2\\q"\n',
        "a: &hunter2 {b\n",
        "hunter2\n",
        "- hunter2\n",
    ],
)
def test_errors_do_not_repeat_the_file(file: Path, text: str) -> None:
    assert "hunter2" not in refusal(file, text)


def test_control_character_is_located(file: Path) -> None:
    assert "line 2, column 5: the control character 0x07" in refusal(file, "ä: 1\nb: x\x07y\n")


def test_second_document_is_refused(file: Path) -> None:
    assert "line 2: a second document" in refusal(file, "a: 1\n---\nb: 2\n")


@pytest.mark.parametrize("opening", ["[", "{a: "])
def test_deep_nesting_is_refused(file: Path, opening: str) -> None:
    message = refusal(file, "a: " + opening * 200_000)
    assert f"more than {MAX_DEPTH} levels" in message


def test_deepest_allowed_nesting_is_read(file: Path) -> None:
    depth = MAX_DEPTH - 1
    assert read(file, "a: " + "[" * depth + "]" * depth) is not None


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"a: 1\nb: caf\xe9\n", "line 2, column 7: byte 0xe9"),
        ("a: 1\n".encode("utf-16"), "line 1, column 1: byte 0xff"),
    ],
)
def test_other_encodings_are_refused(file: Path, content: bytes, place: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="encoding UTF-8") as caught:
        read_document(file)
    assert place in str(caught.value)


def test_directory_is_refused(file: Path) -> None:
    file.mkdir()
    with pytest.raises(ConfigError, match="is a directory"):
        read_document(file)


def test_pipe_is_refused_without_waiting_for_a_writer(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(ConfigError, match="not a regular file"):
        read_document(file)


def test_link_to_nothing_is_refused(file: Path) -> None:
    file.symlink_to(file.parent / "elsewhere.yaml")
    with pytest.raises(ConfigError, match="is a link to a file that does not exist"):
        read_document(file)


def test_link_that_points_to_itself_is_refused(file: Path) -> None:
    file.symlink_to(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_document(file)


def test_unreadable_file_is_refused(file: Path) -> None:
    file.write_text("a: 1\n", encoding="utf-8")
    file.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may read everything
    try:
        with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
            read_document(file)
    finally:
        os.seteuid(user)


def test_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(ConfigError, match="home is not a directory"):
        read_document(tmp_path / "home" / "config.yaml")


def test_huge_file_is_refused(file: Path) -> None:
    with file.open("wb") as handle:
        handle.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(ConfigError, match="4,194,305 bytes"):
        read_document(file)


@given(st.text(max_size=60) | st.text(alphabet="ab:-[]{}&*!|>'\"#%@\n \t?,~<", max_size=40))
def test_any_text_is_a_document_nothing_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.mktemp("any") / "config.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        document = read_document(file)
    except ConfigError:
        return
    assert document is None or isinstance(document.entries(), list)


@given(
    st.recursive(
        st.none() | st.text(st.characters(codec="utf-8"), max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text("abc<", min_size=1, max_size=3), inner, max_size=3)
        ),
        max_leaves=10,
    )
)
def test_what_yaml_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    file = tmp_path_factory.mktemp("dumped") / "config.yaml"
    file.write_text(yaml.safe_dump({"root": value}), encoding="utf-8")
    document = read_document(file)
    assert document is not None
    assert plain(document) == {"root": value}
