"""What is known about English words: which say little, and which forms one word has.

Used when a question finds nothing as it was asked. Forms are made by rule, so some are no words;
those find nothing and cost little.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

#: Words that a question has and its answer need not have, as tokens: ``don't`` is don and t.
STOP_WORDS: Final = frozenset(
    """
    a about after again all already also although am an and any anyone anything are as at
    be because been before being between both but by
    can could d did didn do does doesn doing don done during
    each either else ever every few for from get gets getting go going got
    had has hasn have haven having he her here hers him his how
    i if in into is isn it its itself just
    know let like ll m may maybe me might mine more most much must my myself
    neither no nor not now of off on once one only or other our ours out over
    please re s same say said shall she should shouldn show since so some something such
    t tell than that the their theirs them then there these they thing things this those though
    through to told too
    under until up upon us ve very via
    was wasn we were weren what when where whether which while who whom whose why will with
    within without won would wouldn
    yes yet you your yours
    au aux das de del der des die du ein eine el en es et ist la las le les los mit oder ou pour
    que se un una und une von y zu
    """.split()
)

_VOWELS: Final = frozenset("aeiou")
# Ends that are doubled before another syllable: plan, planned; refer, referred.
_DOUBLING: Final = (*"bdglmnpt", "fer", "cur")
_SHORTEST: Final = 3
_MOST_FORMS: Final = 24

# One family a line; every word of it stands for all of them.
_IRREGULAR: Final = """
    analysis analyses
    axis axes
    basis bases
    become becomes became becoming
    begin begins began begun beginning
    break breaks broke broken breaking
    bring brings brought bringing
    build builds built building builder builders
    buy buys bought buying
    catch catches caught catching
    child children
    choose chooses chose chosen choosing
    come comes came coming
    criterion criteria
    crisis crises
    decide decides decided deciding decision decisions
    die dies died dying
    do does did done doing
    drive drives drove driven driving driver drivers
    fall falls fell fallen falling
    feel feels felt feeling
    find finds found finding
    forget forgets forgot forgotten forgetting
    freeze freezes froze frozen freezing
    give gives gave given giving
    go goes went gone going
    grow grows grew grown growing
    hear hears heard hearing
    hide hides hid hidden hiding
    hold holds held holding
    index indexes indices indexed indexing
    keep keeps kept keeping
    lead leads led leading
    leave leaves left leaving
    lose loses lost losing
    make makes made making
    man men
    matrix matrices matrixes
    mean means meant meaning
    meet meets met meeting meetings
    mouse mice
    pay pays paid paying payment payments
    person people persons
    rewrite rewrites rewrote rewritten rewriting
    rise rises rose risen rising
    run runs ran running runner runners
    see sees saw seen seeing
    sell sells sold selling
    send sends sent sending sender senders
    set sets setting
    show shows showed shown showing
    speak speaks spoke spoken speaking speaker speakers
    spend spends spent spending
    stand stands stood standing
    steal steals stole stolen stealing
    take takes took taken taking
    teach teaches taught teaching teacher teachers
    tell tells told telling
    think thinks thought thinking
    throw throws threw thrown throwing
    understand understands understood understanding
    use uses used using user users usage
    vertex vertices
    wake wakes woke woken waking
    wear wears wore worn wearing
    win wins won winning winner winners
    woman women
    write writes wrote written writing writer writers
"""
_FAMILIES: Final = {
    word: frozenset(family)
    for family in map(str.split, _IRREGULAR.strip().splitlines())
    for word in family
}

# Endings of nouns and others made of verbs, and what stood in their place. The first that fits
# decides; nouns so made have no forms but a plural.
_DERIVED: Final = (
    ("isation", ("ise",)),
    ("ization", ("ize",)),
    ("ification", ("ify",)),
    ("ation", ("ate", "e", "")),
    ("ition", ("ite", "")),
    ("ssion", ("ss",)),
    ("ion", ("e", "")),
    ("ment", ("",)),
    ("ness", ("",)),
)
_DESCRIBING: Final = (("ily", ("y",)), ("ably", ("able",)), ("ly", ("",)), ("able", ("e", "")))


def stem_variants(word: str) -> frozenset[str]:
    """Return the forms of an English word that are worth trying, the word itself among them.

    ``deployments`` gives deployment, deploy, deploys, deployed, deploying and others. A word that
    is short, has digits or is not written in ASCII letters has only itself.
    """
    if len(word) < _SHORTEST or not (word.isascii() and word.isalpha() and word.islower()):
        return frozenset((word,))
    if word in _FAMILIES:
        return _FAMILIES[word]
    forms: dict[str, None] = {word: None}
    for base in _bases(word):
        forms.update(dict.fromkeys(_FAMILIES.get(base) or _forms(base)))
    return frozenset(islice(forms, _MOST_FORMS))


def _bases(word: str) -> list[str]:
    """Return what the word may be a form of, the likeliest first."""
    bases = dict.fromkeys(base for base in _uninflected(word) if _is_word(base))
    for base in list(bases):
        for ending, replacements in _DERIVED + _DESCRIBING:
            if base.endswith(ending) and len(base) - len(ending) >= _SHORTEST:
                stem = base.removesuffix(ending)
                bases.update(dict.fromkeys(stem + replacement for replacement in replacements))
                break
    return list(bases)


def _is_word(base: str) -> bool:
    return len(base) >= _SHORTEST and not _VOWELS.isdisjoint(base.replace("y", "i"))


def _uninflected(word: str) -> Iterator[str]:
    """Yield the word without its ending; where spelling leaves it open, every possibility."""
    for ending in ("ings", "ing", "ers", "er", "ed"):
        stem = word.removesuffix(ending)
        if stem == word or not _is_word(stem):
            continue
        if stem.endswith("i") and not ending.startswith("ing"):
            yield stem[:-1] + "y"
        elif stem[-1] == stem[-2] and stem[-1] not in "aeiou":
            yield from (stem[:-1], stem)
        elif _ends_in_short_syllable(stem) or stem[-1] in "cgsuvz":
            yield from (stem + "e", stem)
        else:
            yield from (stem, stem + "e")
        if ending != "ed":
            yield word.removesuffix("s")  # a noun of its own: server, meeting, number
        return
    if word.endswith("ies") and len(word) > 4:
        yield word[:-3] + "y"
    elif word.endswith(("sses", "shes", "xes", "zes", "oes")):
        yield word[:-2]
    elif word.endswith("ches"):
        yield from (word[:-2], word[:-1])
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        yield word[:-1]
    else:
        yield word


def _forms(base: str) -> Iterator[str]:
    """Yield a word, its regular forms, and nouns made of it."""
    yield base
    if base.endswith(("ly", "able")):
        return
    plural = _plural(base)
    yield plural
    if base.endswith(("ing", *(ending for ending, _ in _DERIVED))):
        return
    if base.endswith("y") and base[-2] not in _VOWELS:
        yield from (base[:-1] + "ied", base + "ing", base[:-1] + "ier")
    elif base.endswith("e"):
        yield from (base + "d", base[:-1] + "ing", base + "r", base + "rs")
    elif not (_ends_in_short_syllable(base) and base.endswith(_DOUBLING)):
        yield from (base + "ed", base + "ing", base + "er", base + "ers")
    else:
        doubled = base + base[-1]
        if sum(letter in _VOWELS for letter in base) > 1:  # it depends on what is stressed
            yield from (base + "ed", base + "ing", base + "er", base + "ers")
        yield from (doubled + "ed", doubled + "ing", doubled + "er", doubled + "ers")
    if len(base) > 4:
        for noun in _nouns(base):
            yield from (noun, noun + "s")


def _plural(base: str) -> str:
    if base.endswith("y") and base[-2] not in _VOWELS:
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "sh", "ch", "x", "z")) else "s")


def _nouns(verb: str) -> Iterator[str]:
    if verb.endswith("ify"):
        yield verb[:-1] + "ication"
    elif verb.endswith("te"):
        yield verb[:-1] + "ion"
    elif verb.endswith(("ct", "pt", "ss")):
        yield verb + "ion"
    elif verb.endswith("ll"):
        yield verb + "ation"
    elif verb.endswith(("ise", "ize", "ure", "ine")):
        yield verb[:-1] + "ation"
    elif not verb.endswith(("er", "or", "y")) or verb.endswith("oy"):
        yield verb + "ment"


def _ends_in_short_syllable(word: str) -> bool:
    """Whether consonant, vowel, consonant end it, as in plan."""
    return (
        len(word) >= 3
        and word[-1] not in "aeiouwxy"
        and word[-2] in _VOWELS
        and word[-3] not in _VOWELS
    )
