"""What is searched for: classes of queries over the corpus, and ordinary questions with answers.

Most queries are fixed words of the vocabulary. A phrase, a path and a mixed-script run are taken
from the first messages that have one, so that every store is asked for something that is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from benchmarks.corpus import CorpusMessage, CorpusSession

Queries = dict[str, tuple[str, ...]]

#: Classes whose queries are the same for every corpus. Names are parts of metrics.
FIXED: Queries = {
    "word_rare": ("oxbowlantern", "zanthurium"),
    "word_common": ("water", "people"),
    "and": ("quillfeather water", "water people"),
    "or": ("quillfeather OR zanthurium", "water OR people"),
    "not": ("quillfeather NOT water", "people NOT water"),
    "prefix": ("quillf*", "snapsh*"),
    "email": ("ops@example.org",),
    "identifier": ("base_events.py", "app-server"),
    "cjk_1": ("山", "中", "不"),
    "cjk_2": ("部署", "東京", "검색"),
    "cjk_4": ("鯨落霧島", "サーバー", "없습니다"),
    "question": (
        "what did we decide about the timeout of the cache?",
        "how do I restore a snapshot when the disk is full?",
    ),
    "nothing": ("xylqworztian", "vrokkelish brumptlefax"),
}

_WORDS = re.compile(r"(?<![\w.'/-])[a-z]{4,} [a-z]{4,} [a-z]{4,}(?= )")
_GLUED = re.compile(r"[\u4e00-\u9fff]{2}[A-Za-z]+[\u4e00-\u9fff]{2}")

#: Things people type, each with a message that has it. None of them is an unusual question.
ORDINARY: tuple[tuple[str, str], ...] = (
    ("don't", "Please don't restart it yet."),
    ("50 %", "The disk was at 50 % this morning."),
    ("100%", "It is 100% finished."),
    ("rm -rf", "Somebody ran rm -rf build again."),
    ("/var/log/nginx/error.log", "See /var/log/nginx/error.log for the rest."),
    ("path/to/file", "Replace path/to/file by your own."),
    ("user@example.com", "Write to user@example.com about the invoice."),
    ("https://example.net/docs?page=2", "It is explained at https://example.net/docs?page=2 now."),
    ("@property", "    @property\n    def total(self) -> int: ..."),
    ("os.path.join(a, b)", "Use os.path.join(a, b) instead of adding strings."),
    ("what is a descriptor?", "A descriptor is an object with __get__; that is what it means."),
    ("what is the plan for tomorrow?", "The plan for tomorrow: migrate the ledger."),
    ("error: timeout", "It failed with error: timeout after a minute."),
    ("read, write", "Three rights: read, write and execute."),
    ("app-server", "The app-server listens on 8080."),
    ("base_events.py", "The traceback ends in base_events.py, line 400."),
    ("v1.2.3", "We released v1.2.3 on Monday."),
    ("C++", "The parser is written in C++ for speed."),
    ("foo::bar", "Call foo::bar before the loop."),
    ("SELECT * FROM users", "SELECT * FROM users WHERE id = 7"),
    ("#42", "This closes #42 for good."),
    ("--force", "Push with --force only if you must."),
    ('"unfinished quote', "There was an unfinished quote in the file."),
    ("ledger AND", "The ledger is balanced."),
    ("(ledger", "The ledger is balanced."),
    ("café", "We met at the café in Lyon."),
    ("部署", "今天部署完成。"),
    ("山", "桂林山水很美。"),
    ("数据库 NOT 缓存", "数据库已经恢复。"),
    ("桂林 -天气", "桂林山水很美。"),
    ("Terraform", "我们使用Terraform部署服务。"),
    ("使用Terraform部署", "我们使用Terraform部署服务。"),
    ("東京", "明日は東京で会議です。"),
    ("검색", "메시지 검색 결과를 확인해 주세요."),
)


def classes(sessions: Iterable[CorpusSession]) -> Queries:
    """The classes of queries for a store with these sessions; reads as few as it needs.

    Raises :class:`LookupError` for a corpus without code paths, prose or mixed script.
    """
    wanted = {"phrase": _phrase, "path": _path, "mixed": _mixed}
    taken: Queries = {}
    for message in _messages(sessions):
        for name, take in wanted.items():
            query = None if name in taken else take(message)
            if query is not None:
                taken[name] = (query,)
        if len(taken) == len(wanted):
            return FIXED | taken | {"mixed": (*taken["mixed"], "Kubernetes 部署")}
    raise LookupError(f"the corpus has no {', '.join(sorted(wanted.keys() - taken.keys()))}")


def _messages(sessions: Iterable[CorpusSession]) -> Iterator[CorpusMessage]:
    for session in sessions:
        yield from session.messages


def _phrase(message: CorpusMessage) -> str | None:
    found = _WORDS.search(message.content) if message.kind == "prose" else None
    return None if found is None else f'"{found.group()}"'


def _path(message: CorpusMessage) -> str | None:
    return str(json.loads(message.content)["path"]) if message.kind == "output" else None


def _mixed(message: CorpusMessage) -> str | None:
    found = _GLUED.search(message.content) if message.kind == "cjk-glued" else None
    return None if found is None else found.group()
