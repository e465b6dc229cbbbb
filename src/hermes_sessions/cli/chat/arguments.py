"""The arguments of ``hermes`` that start a chat.

``hermes``, ``hermes -c``, ``hermes -c my project --model x`` and ``hermes chat -r 2025`` are one
command: names of sessions may have several words without quotes, and ``chat`` may be omitted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

#: Options whose value, the name of a session, extends to the next option.
_NAMED: Final = {
    "-c": "--continue",
    "--continue": "--continue",
    "-r": "--resume",
    "--resume": "--resume",
}
_VALUED: Final = {
    "-q": "--query",
    "--query": "--query",
    "--model": "--model",
    "-m": "--model",
    "--base-url": "--base-url",
}
#: Options that only a chat has.
_FLAGS: Final = ("--incognito", "--here")
#: Top-level options, which may stand before a command.
_GLOBAL: Final = ("--plain",)


def as_chat(arguments: Sequence[str], commands: Collection[str], *, on_terminal: bool) -> list[str]:
    """Return *arguments* of a chat with ``chat`` and with each option's value in one word; return
    other arguments unchanged. No arguments start a chat only *on a terminal*.
    """
    before: list[str] = []
    options: list[str] = []
    is_chat = not [a for a in arguments if a not in _GLOBAL] and on_terminal
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        name, is_set, value = word.partition("=")
        if word in _GLOBAL and not options:
            before.append(word)
        elif name in _NAMED:
            is_chat = True
            words = [value] if is_set else []
            while waiting and not waiting[0].startswith("-"):
                words.append(waiting.pop(0))
            options.append(f"{_NAMED[name]}={' '.join(words)}")
        elif name in _VALUED:
            is_chat = True
            if not is_set and not waiting:
                options.append(word)
                continue
            options.append(f"{_VALUED[name]}={value if is_set else waiting.pop(0)}")
        elif word in _FLAGS:
            is_chat = True
            options.append(word)
        elif word == "chat":
            is_chat = True
        elif word in commands or (not word.startswith("-") and not is_chat):
            return list(arguments)
        else:
            options.append(word)
    return [*before, "chat", *options] if is_chat else list(arguments)
