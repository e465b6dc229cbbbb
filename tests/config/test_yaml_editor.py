"""Editing the text of a configuration: comments and order stay."""

import pytest
import yaml

from hermes_sessions.config.yaml_editor import NotEditable, with_platform

VALUES = {"enabled": True, "token": "${TELEGRAM_BOT_TOKEN}", "allowed_users": ("7", "8")}
SECTION = """\
  telegram:
    enabled: true
    token: ${TELEGRAM_BOT_TOKEN}
    allowed_users: ['7', '8']
"""


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n", "---\n"])
def test_an_empty_file_gets_the_section(text: str) -> None:
    edited = with_platform(text, "telegram", VALUES)

    assert edited.startswith(text.rstrip("\n"))
    assert edited.endswith("platforms:\n" + SECTION)


def test_a_file_without_platforms_gets_them_at_its_end() -> None:
    text = "# mine\nmodel:\n  default: some-model # the small one\n"

    assert with_platform(text, "telegram", VALUES) == text + "\nplatforms:\n" + SECTION


def test_a_last_line_without_an_end_gets_one() -> None:
    edited = with_platform("model:\n  default: x", "telegram", VALUES)

    assert edited == "model:\n  default: x\n\nplatforms:\n" + SECTION


def test_another_platform_comes_after_those_that_are_there() -> None:
    text = (
        "platforms:\n"
        "    # the phone\n"
        "    signal:\n"
        "        account: '+491'   # ours\n"
        "        allowed_users:\n"
        "        - '+492'\n"
        "\n"
        "# how long\n"
        "streaming:\n"
        "    enabled: no\n"
    )

    edited = with_platform(text, "telegram", VALUES)

    before, after = text.split("\n\n")
    new = "".join(f"  {line}\n" for line in SECTION.splitlines())
    assert edited == f"{before}\n{new}\n{after}"


def test_known_keys_are_replaced_where_they_stand_and_others_stay() -> None:
    text = (
        "platforms:\n"
        "  telegram:\n"
        "    # from BotFather\n"
        "    token: ${OLD} # secret\n"
        "    require_mention: no\n"
        "    allowed_users:\n"
        "      - 1\n"
        "      # a friend\n"
        "      - 2\n"
        "    home_channel: 5\n"
        "  local: {enabled: true}\n"
    )

    edited = with_platform(text, "telegram", {**VALUES, "home_channel": None})

    assert edited == (
        "platforms:\n"
        "  telegram:\n"
        "    # from BotFather\n"
        "    token: ${TELEGRAM_BOT_TOKEN} # secret\n"
        "    require_mention: no\n"
        "    allowed_users: ['7', '8']\n"
        "    enabled: true\n"
        "  local: {enabled: true}\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "platforms:\n",
        "platforms: ~\n",
        "platforms: # none yet\nmodel: {}\n",
        "platforms:\n  telegram:\n",
        "platforms:\n  telegram: null # later\n  local:\n    enabled: true\n",
        "platforms:\n  Telegram:\n    token:\n",
        "platforms:\n  telegram:\n    token: |\n      abc\nmodel:\n  default: x\n",
        "platforms:\n  telegram:\n    token: >-\n      abc\n\n\n# end\n",
        "  platforms:\n    local:\n      enabled: true\n  model: {default: x}\n",
        "\ufeffplatforms:\r\n  local:\r\n    enabled: true\r\n",
    ],
)
def test_every_usual_way_of_writing_is_edited(text: str) -> None:
    edited = with_platform(text, "telegram", VALUES)

    platforms = yaml.safe_load(edited)["platforms"]
    section = {key.lower(): value for key, value in platforms.items()}["telegram"]
    assert section == {
        "enabled": True,
        "token": "${TELEGRAM_BOT_TOKEN}",
        "allowed_users": ["7", "8"],
    }
    assert edited.startswith("\ufeff") == text.startswith("\ufeff")
    assert edited.count("\r\n") in (0, edited.count("\n"))
    assert with_platform(edited, "telegram", VALUES) == edited


@pytest.mark.parametrize(
    "text",
    [
        "{platforms: {local: {enabled: true}}}\n",
        "platforms: {local: {enabled: true}}\n",
        "platforms:\n  telegram: {token: x}\n",
        "base: &b\n  token: x\nplatforms:\n  telegram: *b\n",
        "platforms:\n  telegram:\n    token: &t x\n  discord:\n    token: *t\n",
        "platforms:\n  telegram:\n    token: x\n    token: y\n",
        "- a\n",
        "platforms: [\n",
        "model: {}\n...\n",
    ],
)
def test_an_unusual_one_is_left_alone_and_the_lines_are_shown(text: str) -> None:
    with pytest.raises(NotEditable) as refused:
        with_platform(text, "telegram", VALUES)

    assert SECTION in str(refused.value)


@pytest.mark.parametrize(
    "value", ["null", "true", "1:30", "a: b", "# x", "'", '"', "*", "@a:b.org", "!room:b", "ü", "-"]
)
def test_any_text_is_read_back_as_it_is(value: str) -> None:
    edited = with_platform("", "matrix", {"user": value, "allowed_users": (value, "x")})

    section = yaml.safe_load(edited)["platforms"]["matrix"]
    assert section == {"user": value, "allowed_users": [value, "x"]}
