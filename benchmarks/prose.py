"""Writes the corpus' messages: prose, code, tool output, and text in three CJK languages.

Sentences come from pools made once for each writer, which keeps generating 200,000 messages a
matter of seconds; hashes, numbers and paths are fresh in every message.
"""

from __future__ import annotations

import json
import math
import random
from itertools import accumulate
from typing import Any

from benchmarks import vocabulary

MAXIMUM_CHARACTERS = 8000  # a planted word and JSON's closing brackets stay below 8 KB
SIZE_SIGMA = 0.9
CJK_SHARE = 0.15
GLUED_SHARE = 1 / 3
POOL_SIZE = 6000
TOOLS = ("read_file", "terminal", "web_search", "grep", "write_file")

#: What follows what in an agent's transcript, walked round and round.
TURN = (
    ("user", "prose"),
    ("assistant", "call"),
    ("tool", "output"),
    ("assistant", "code"),
    ("user", "prose"),
    ("assistant", "prose"),
)


class MessageWriter:
    """A stream of messages drawn from one random generator; equal seeds write equal messages."""

    def __init__(self, rng: random.Random, *, mean_characters: int) -> None:
        self._rng = rng
        self._mean = mean_characters
        self._written = 0
        self._words = _english_words(rng)
        self._weights = list(accumulate((rank + 4) ** -1.15 for rank in range(len(self._words))))
        self._sentences = [self._english_sentence() for _ in range(POOL_SIZE)]
        self._code = [self._code_block() for _ in range(POOL_SIZE // 4)]
        self._cjk = {
            glued: [self._cjk_sentence(glued=glued) for _ in range(POOL_SIZE // 2)]
            for glued in (False, True)
        }

    def system_prompt(self, size: int) -> str:
        """Instructions, the way agents repeat them in each session."""
        return self._fill(self._sentences, size)

    def message(self) -> dict[str, Any]:
        """The fields of the next message."""
        role, kind = TURN[self._written % len(TURN)]
        size = self._size()
        fields: dict[str, Any] = {"role": role}
        if self._rng.random() < CJK_SHARE:
            glued = self._rng.random() < GLUED_SHARE
            kind = "cjk-glued" if glued else "cjk"
            content = self._fill(self._cjk[glued], size)
        elif kind == "output":
            content = self._tool_output(size)
        elif kind == "code":
            content = self._fill(self._code, size, separator="\n\n")
        else:
            content = self._fill(self._sentences, size)
        if role == "tool":
            fields |= {"tool_name": self._rng.choice(TOOLS), "tool_call_id": self._call_id()}
        elif kind == "call":
            fields |= {"tool_calls": [self._tool_call()], "finish_reason": "tool_calls"}
        elif role == "assistant":
            fields |= {"token_count": size // 4, "finish_reason": "stop"}
        self._written += 1
        for word, distance in vocabulary.RARE_WORDS.items():
            if self._written % distance == 0:
                content = _plant(word, content, is_json=kind == "output")
        return fields | {"content": content, "kind": kind}

    def _size(self) -> int:
        location = math.log(self._mean) - SIZE_SIGMA**2 / 2
        drawn = self._rng.lognormvariate(location, SIZE_SIGMA)
        return max(8, min(int(drawn), MAXIMUM_CHARACTERS))

    def _fill(self, pool: list[str], size: int, *, separator: str = " ") -> str:
        pieces: list[str] = []
        length = 0
        while length < size:
            piece = self._rng.choice(pool)
            pieces.append(piece)
            length += len(piece) + len(separator)
        return separator.join(pieces)[:size].rstrip() or pieces[0]

    def _tool_output(self, size: int) -> str:
        lines: list[str] = []
        record = {"path": self._path(), "sha256": self._digest(), "exit_code": 0, "lines": lines}
        length = len(json.dumps(record))
        while length < size:
            line = f"{self._path()}:{self._rng.randrange(1, 4000)}: {self._digest()[:12]} " + (
                self._rng.choice(self._sentences)
            )
            line = line[: max(16, size - length - 4)].replace('"', "'")
            lines.append(line)
            length += len(line) + 4
        return json.dumps(record, ensure_ascii=False)

    def _tool_call(self) -> dict[str, Any]:
        arguments = {"path": self._path(), "query": " ".join(self._draw_words(3))}
        return {
            "id": self._call_id(),
            "type": "function",
            "function": {
                "name": self._rng.choice(TOOLS),
                "arguments": json.dumps(arguments, ensure_ascii=False),
            },
        }

    def _call_id(self) -> str:
        return f"call_{self._rng.getrandbits(96):024x}"

    def _digest(self) -> str:
        return f"{self._rng.getrandbits(256):064x}"

    def _path(self) -> str:
        first, second, third = self._draw_words(3)
        return f"/home/dev/projects/{first}/src/{second}_{third}.py"

    def _draw_words(self, count: int) -> list[str]:
        return self._rng.choices(self._words, cum_weights=self._weights, k=count)

    def _english_sentence(self) -> str:
        words = self._draw_words(self._rng.randrange(6, 18))
        if self._rng.random() < 0.15:
            words.insert(self._rng.randrange(len(words)), self._rng.choice(vocabulary.AWKWARD))
        sentence = " ".join(words)
        return sentence[0].upper() + sentence[1:] + self._rng.choice((".", ".", ".", "?", ":", "!"))

    def _code_block(self) -> str:
        verb, noun, value, error = self._draw_words(4)
        number = self._rng.randrange(1, 900)
        template = self._rng.randrange(3)
        if template == 0:
            return (
                f"def {verb}_{noun}({value}: str, limit: int = {number}) -> list[str]:\n"
                f'    """{self._rng.choice(self._sentences)}"""\n'
                f"    return [row.{noun} for row in {value}.{verb}(limit) if row is not None]"
            )
        if template == 1:
            return (
                f"class {noun.title()}{error.title()}(RuntimeError):\n"
                f"    @property\n    def {value}(self) -> int:\n        return {number}"
            )
        return (
            f"const {noun} = await {verb}('/api/v{number % 4}/{value}', {{ retries: {number} }});\n"
            f"if (!{noun}.ok) throw new Error(`{error}: ${{{noun}.status}}`);"
        )

    def _cjk_sentence(self, *, glued: bool) -> str:
        language = self._rng.randrange(3)
        words = (vocabulary.CHINESE, vocabulary.JAPANESE, vocabulary.KOREAN)[language]
        drawn = self._rng.choices(words, k=self._rng.randrange(5, 12))
        if glued:
            place = self._rng.randrange(1, len(drawn))
            drawn[place] = self._rng.choice(vocabulary.LATIN_IN_CJK) + drawn[place]
            drawn[place - 1 : place + 1] = [drawn[place - 1] + drawn[place]]
        return (" " if language == 2 else "").join(drawn) + ("." if language == 2 else "。")


def _english_words(rng: random.Random) -> list[str]:
    """Common words, then plain ones, then thousands of derived ones in a seeded order."""
    derived = {
        prefix + stem + suffix
        for stem in vocabulary.STEMS
        for prefix in vocabulary.PREFIXES
        for suffix in vocabulary.SUFFIXES
    }
    plain = sorted(set(vocabulary.STEMS) - set(vocabulary.COMMON))
    tail = sorted(derived - set(plain) - set(vocabulary.COMMON))
    rng.shuffle(plain)
    rng.shuffle(tail)
    return [*vocabulary.COMMON, *plain, *tail]


def _plant(word: str, content: str, *, is_json: bool) -> str:
    """Add a rare word, keeping JSON valid and the length within the limit."""
    if is_json:
        return json.dumps(json.loads(content) | {"note": word}, ensure_ascii=False)
    return f"{content[: MAXIMUM_CHARACTERS - len(word) - 1]} {word}"
