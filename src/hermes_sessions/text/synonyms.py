"""Words that mean the same, for search: a small list that the setting `search.synonyms` extends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from hermes_sessions.text.tokenizer import words

#: One group per line.
_GROUPS: Final = """
    k8s kubernetes
    js javascript
    ts typescript
    py python
    db database
    postgres postgresql pg
    repo repository
    config configuration
    env environment
    auth authentication
    docs documentation
    msg message
    err error
    gh github
    prod production
    perf performance
    deps dependencies
    dir directory folder
    i18n internationalization
    l10n localization
    a11y accessibility
    o11y observability
    tf terraform
    ml machine-learning
    ai artificial-intelligence
    llm language-model
    pr pull-request
    ci continuous-integration
    vm virtual-machine
    nginx web-server
"""

Synonyms = Mapping[str, tuple[str, ...]]


@cache
def read_synonyms(groups: tuple[str, ...] = ()) -> Synonyms:
    """Return the other words of each word, as typed; *groups*, like ``kettle = boiler``, come in
    addition to the list.
    """
    listed = [
        [name.replace("-", " ") for name in line.split()] for line in _GROUPS.strip().splitlines()
    ]
    found: dict[str, tuple[str, ...]] = {}
    added = [[name.strip() for name in group.split("=") if name.strip()] for group in groups]
    for group in [*listed, *added]:
        for name in group:
            key = " ".join(words(name))
            others = tuple(other for other in group if other != name)
            found[key] = tuple(dict.fromkeys(found.get(key, ()) + others))
    return found


SYNONYMS: Final = read_synonyms()
