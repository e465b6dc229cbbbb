import re
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_sessions.config import load_settings
from hermes_sessions.config.derived_keys import RESERVED
from hermes_sessions.config.reference import reference_table

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_page_holds_the_table_of_keys() -> None:
    begin = PAGE.index("| Key |")
    assert PAGE[begin : PAGE.index("\n\n", begin) + 1] == reference_table()


def test_module_prints_the_table() -> None:
    command = [sys.executable, "-m", "hermes_sessions.config.reference"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == reference_table()


def test_page_lists_the_reserved_names() -> None:
    listed = PAGE[PAGE.index("never do:") :].partition(".\n")[0]
    assert re.findall(r"`([^`]+)`", listed) == sorted(RESERVED)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_accepted_without_a_warning(tmp_path: Path, example: str) -> None:
    (tmp_path / "config.yaml").write_text(example, encoding="utf-8")
    assert load_settings(tmp_path, {}).warnings == ()


def test_there_are_examples() -> None:
    assert EXAMPLES
