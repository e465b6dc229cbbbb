"""Which model is selected, and which host gets a key."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.agent.clients.local_model import CONTEXT_LENGTH, LocalClient
from hermes_sessions.agent.clients.model_selection import (
    OPENAI_MODEL,
    OPENAI_URL,
    ChosenModel,
    choose_model,
)
from hermes_sessions.agent.clients.openai_compatible import OpenAICompatibleClient
from hermes_sessions.config import ModelSettings, default_settings, load_settings
from hermes_sessions.errors import ConfigError

DEFAULTS = vars(default_settings(Path("/nowhere")).model)
A, B, C = "http://a.example/v1", "http://b.example/v1", "http://c.example/v1"
LOCAL = (None, None, None)


def configured(**values: Any) -> ModelSettings:
    return ModelSettings(**{**DEFAULTS, **values})


def chosen(
    flags: dict[str, str], environ: dict[str, str], file: dict[str, Any]
) -> tuple[str | None, str | None, str | None]:
    choice = choose_model(configured(**file), **flags, environ=environ)
    return choice.base_url, choice.api_key, choice.model


@pytest.mark.parametrize(
    ("flags", "environ", "file", "expected"),
    [
        # Nothing, and blanks, which are nothing.
        ({}, {}, {}, LOCAL),
        ({}, {"HERMES_BASE_URL": " ", "OPENAI_API_KEY": ""}, {}, LOCAL),
        # Each place alone, and above the next.
        ({}, {}, {"base_url": C, "api_key": "k", "default": "m"}, (C, "k", "m")),
        ({}, {"OPENAI_BASE_URL": B, "OPENAI_API_KEY": "o", "OPENAI_MODEL": "n"},
         {"base_url": C, "api_key": "k", "default": "m"}, (B, "o", "n")),
        ({}, {"HERMES_BASE_URL": A, "HERMES_API_KEY": "h", "HERMES_MODEL": "l",
              "OPENAI_BASE_URL": B, "OPENAI_API_KEY": "o", "OPENAI_MODEL": "n"},
         {"base_url": C, "api_key": "k", "default": "m"}, (A, "h", "l")),
        ({"base_url": C, "model": "f"}, {"HERMES_BASE_URL": A, "HERMES_API_KEY": "h"}, {},
         (C, "h", "f")),
        # Each value from the first place that has it.
        ({}, {"HERMES_BASE_URL": A, "OPENAI_API_KEY": "o", "OPENAI_MODEL": "n"}, {}, (A, "o", "n")),
        ({}, {"HERMES_MODEL": "l"}, {"base_url": C, "api_key": "k", "default": "m"}, (C, "k", "l")),
        ({}, {"HERMES_API_KEY": "h"}, {"base_url": C, "api_key": "k"}, (C, "h", None)),
        ({"model": "f"}, {"OPENAI_API_KEY": "o"}, {"base_url": C}, (C, "o", "f")),
        ({}, {"HERMES_BASE_URL": A}, {"default": "m", "api_key": "k"}, (A, "k", "m")),
        # A key in the environment without an address is OpenAI's.
        ({}, {"OPENAI_API_KEY": "o"}, {}, (OPENAI_URL, "o", OPENAI_MODEL)),
        ({}, {"OPENAI_API_KEY": "o"}, {"default": "m"}, (OPENAI_URL, "o", "m")),
        ({}, {"HERMES_API_KEY": "h", "OPENAI_API_KEY": "o"}, {}, (OPENAI_URL, "h", OPENAI_MODEL)),
        # What shells hold for other programs steps back behind what stands beside the address.
        ({}, {"OPENAI_API_KEY": "o", "OPENAI_MODEL": "n"},
         {"base_url": C, "api_key": "k", "default": "m"}, (C, "k", "m")),
        # The key of the file goes to the address of the file.
        ({}, {"HERMES_BASE_URL": A}, {"base_url": C, "api_key": "k"}, (A, None, None)),
        ({"base_url": A}, {"OPENAI_API_KEY": "o"}, {"base_url": C, "api_key": "k"}, (A, "o", None)),
        ({"base_url": "http://C.example/v2"}, {"OPENAI_API_KEY": "o"},
         {"base_url": C, "api_key": "k"}, ("http://C.example/v2", "k", None)),
        # The local model by name, unless its name stands beside or behind an address.
        ({"model": "local"}, {"HERMES_BASE_URL": A, "OPENAI_API_KEY": "o"}, {"base_url": C}, LOCAL),
        ({}, {"HERMES_MODEL": "smollm2-135m", "OPENAI_API_KEY": "o"}, {"base_url": C}, LOCAL),
        ({}, {"OPENAI_API_KEY": "o"}, {"default": "local"}, LOCAL),
        ({}, {}, {"base_url": C, "default": "local"}, (C, None, "local")),
        ({}, {"HERMES_BASE_URL": A}, {"default": "local"}, (A, None, None)),
        # A name alone may be meant for another program.
        ({}, {"OPENAI_MODEL": "big"}, {}, LOCAL),
        ({}, {}, {"default": "big"}, LOCAL),
    ],
)  # fmt: skip
def test_which_model_answers(
    flags: dict[str, str],
    environ: dict[str, str],
    file: dict[str, Any],
    expected: tuple[str | None, str | None, str | None],
) -> None:
    assert chosen(flags, environ, file) == expected


@pytest.mark.parametrize(
    ("flags", "environ", "file"),
    [
        ({"model": "big"}, {}, {}),
        ({}, {"HERMES_MODEL": "big"}, {}),
        ({}, {}, {"api_key": "hunter2"}),
        ({}, {}, {"api_key": "hunter2", "default": "big"}),
    ],
)
def test_a_model_without_an_address(
    flags: dict[str, str], environ: dict[str, str], file: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=r"model\.base_url") as caught:
        chosen(flags, environ, file)
    assert "hunter2" not in str(caught.value)


def test_the_line_about_the_local_model() -> None:
    choice = choose_model(configured(), environ={})
    assert choice.is_local
    assert choice.context_length == CONTEXT_LENGTH
    assert choice.description == (
        "smollm2-135m, a tiny local model. For a better one, set HERMES_BASE_URL."
    )
    assert len(choice.description) <= 80
    client = choice.open()
    assert isinstance(client, LocalClient)
    client.close()


def test_the_line_about_an_endpoint_holds_no_secret() -> None:
    settings = configured(context_length=32000, first_byte_timeout=7.0)
    choice = choose_model(
        settings,
        base_url="http://ada:hunter2@gpu:8080/v1",
        environ={"HERMES_API_KEY": "hunter2", "HERMES_MODEL": "big"},
    )
    assert choice.description.startswith("big at gpu:8080. For another one, set HERMES_MODEL")
    assert "hunter2" not in choice.description
    assert "hunter2" not in repr(ChosenModel(settings, A, "hunter2", "m"))
    assert choice.context_length == 32000
    client = choice.open()
    assert isinstance(client, OpenAICompatibleClient)
    assert client.name == "big at gpu:8080"
    client.close()


def test_a_wrong_address_is_told_when_the_client_is_made() -> None:
    with pytest.raises(ConfigError, match="base_url"):
        choose_model(configured(base_url="gpu:8080"), environ={}).open()


def test_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        f"model:\n  base_url: {C}\n  api_key: ${{SOME_KEY}}\n  default: big\n", encoding="utf-8"
    )
    environ = {"SOME_KEY": "k"}
    settings = load_settings(tmp_path, environ)
    choice = choose_model(settings.model, environ=environ)
    assert (choice.base_url, choice.api_key, choice.model) == (C, "k", "big")


def test_choosing_loads_neither_network_nor_model() -> None:
    code = (
        "import sys\n"
        "import hermes_sessions.agent.clients.model_selection\n"
        "import hermes_sessions.agent.clients.openai_compatible\n"
        "assert not {'httpx', 'xllamacpp', 'ssl', 'asyncio'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
