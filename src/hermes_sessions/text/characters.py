"""Character classes that every part of the text analysis shares.

Each constant is the inside of a regular-expression character class. The tables are written out, not
taken from the running Python, so that a text has the same tokens on every version. Only characters
that survive `normalisation.fold` matter. Code points of no class separate words. The tables follow
Unicode 14; gaps between characters of one kind belong to that kind.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

# Where a text may be cut: never between a letter and its marks, nor inside an emoji.
#
# A cluster is what a reader sees as one character: a base with its marks, an emoji with its
# modifiers and joined emoji, a flag of two letters. No folding rule crosses a cluster boundary.


_JOINER: Final = "\u200d"
# No legible cluster has more code points; longer clusters and rows of flags may be cut.
_LONGEST: Final = 1_000


@cache
def cluster_pattern() -> re.Pattern[str]:
    """Return the pattern that matches one cluster at any boundary."""
    return re.compile(_cluster(), re.DOTALL)


def cluster_start(text: str, position: int) -> int:
    """Return the start of the cluster that *position* is in: *position* itself at a boundary."""
    return _cluster_at(text, position)[0]


def cluster_end(text: str, position: int) -> int:
    """Return the end of the cluster that *position* is in: *position* itself at a boundary."""
    return _cluster_at(text, position)[1]


def _cluster_at(text: str, position: int) -> tuple[int, int]:
    if not 0 < position < len(text) or text[position].isascii():
        return position, position
    start = position
    while start > 0 and not _is_certain_start(text, start):
        start -= 1
        if position - start > _LONGEST:
            return position, position
    match = cluster_pattern().match
    end = start
    while end < position:
        start = end
        found = match(text, start, position + _LONGEST)
        end = start + 1 if found is None else found.end()
    return (start, end) if end > position else (position, position)


def _is_certain_start(text: str, position: int) -> bool:
    """Whether a cluster starts here regardless of the text before."""
    return text[position - 1] != _JOINER and _may_follow().match(text, position) is None


@cache
def _may_follow() -> re.Pattern[str]:
    return re.compile(f"[{EXTENDER}{REGIONAL_INDICATOR}]")


def _cluster() -> str:
    extenders = f"[{EXTENDER}]*+"
    flag = f"[{REGIONAL_INDICATOR}]{{2}}"
    emoji = f"[{SYMBOL}]{extenders}(?:(?<={_JOINER})[{SYMBOL}]{extenders})*+"
    return f"{flag}{extenders}|{emoji}|.{extenders}"


# Letters and numbers, CJK apart. Apostrophe-like letters (U+02B9-U+02BF) separate, as ' does.
_BMP_WORD = (
    "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u02c0\u02c1\u02c6-\u02d1\u02ec\u0370-\u0373"
    "\u0376-\u037d\u037f-\u0386\u0388-\u03f3\u03f7-\u0481\u048a-\u0559\u0560-\u0588"
    "\u05d0-\u05f2\u0620-\u064a\u0660-\u0669\u066e\u066f\u0671-\u06d3\u06d5\u06e5\u06e6"
    "\u06ee-\u06fc\u06ff\u0710\u0712-\u072f\u074d-\u07a5\u07b1-\u07ea\u07f4\u07f5\u07fa"
    "\u0800-\u0815\u081a\u0824\u0828\u0840-\u0858\u0860-\u0887\u0889-\u088e\u08a0-\u08c9"
    "\u0904-\u0939\u093d\u0950\u0960\u0961\u0966-\u096f\u0971-\u0980\u0985-\u09b9\u09bd\u09ce"
    "\u09e0\u09e1\u09e6-\u09f1\u09f4-\u09f9\u09fc\u0a05-\u0a39\u0a5c-\u0a6f\u0a72-\u0a74"
    "\u0a85-\u0ab9\u0abd\u0ad0-\u0ae1\u0ae6-\u0aef\u0af9\u0b05-\u0b39\u0b3d\u0b5f-\u0b61"
    "\u0b66-\u0b6f\u0b71-\u0b77\u0b83-\u0bb9\u0bd0\u0be6-\u0bf2\u0c05-\u0c39\u0c3d\u0c58-\u0c61"
    "\u0c66-\u0c6f\u0c78-\u0c7e\u0c80\u0c85-\u0cb9\u0cbd\u0cdd-\u0ce1\u0ce6-\u0cf2\u0d04-\u0d3a"
    "\u0d3d\u0d4e\u0d54-\u0d56\u0d58-\u0d61\u0d66-\u0d78\u0d7a-\u0d7f\u0d85-\u0dc6\u0de6-\u0def"
    "\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e50-\u0e59\u0e81-\u0eb0\u0eb2\u0ebd-\u0ec6\u0ed0-\u0f00"
    "\u0f20-\u0f33\u0f40-\u0f6c\u0f88-\u0f8c\u1000-\u102a\u103f-\u1049\u1050-\u1055"
    "\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1090-\u1099\u10a0-\u10fa"
    "\u10fd-\u10ff\u1200-\u135a\u1369-\u138f\u13a0-\u13fd\u1401-\u166c\u166f-\u167f"
    "\u1681-\u169a\u16a0-\u16ea\u16ee-\u1711\u171f-\u1731\u1740-\u1751\u1760-\u1770"
    "\u1780-\u17b3\u17d7\u17dc\u17e0-\u17f9\u1810-\u1884\u1887-\u18a8\u18aa-\u191e\u1946-\u19da"
    "\u1a00-\u1a16\u1a20-\u1a54\u1a80-\u1a99\u1aa7\u1b05-\u1b33\u1b45-\u1b59\u1b83-\u1ba0"
    "\u1bae-\u1be5\u1c00-\u1c23\u1c40-\u1c7d\u1c80-\u1cbf\u1ce9-\u1cec\u1cee-\u1cf3\u1cf5\u1cf6"
    "\u1cfa-\u1d9a\u1e00-\u1ffc\u2132\u214e\u2180-\u2188\u2c00-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\u2cfd\u2d00-\u2d67\u2d80-\u2dde\u2e2f\ua000-\ua48c\ua4d0-\ua4fd\ua500-\ua60c\ua610-\ua66e"
    "\ua67f-\ua69b\ua6a0-\ua6ef\ua717-\ua71f\ua722-\ua788\ua78b-\ua801\ua803-\ua805"
    "\ua807-\ua80a\ua80c-\ua822\ua830-\ua835\ua840-\ua873\ua882-\ua8b3\ua8d0-\ua8d9"
    "\ua8f2-\ua8f7\ua8fb\ua8fd\ua8fe\ua900-\ua925\ua930-\ua946\ua984-\ua9b2\ua9cf-\ua9d9"
    "\ua9e0-\ua9e4\ua9e6-\uaa28\uaa40-\uaa42\uaa44-\uaa4b\uaa50-\uaa59\uaa60-\uaa76\uaa7a"
    "\uaa7e-\uaaaf\uaab1\uaab5\uaab6\uaab9-\uaabd\uaac0\uaac2-\uaadd\uaae0-\uaaea\uaaf2-\uaaf4"
    "\uab01-\uab5a\uab60-\uab68\uab70-\uabe2\uabf0-\uabf9\ufe73"
)

# Combining marks: they continue a word and never start one.
_BMP_MARK = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a"
    "\u07a6-\u07b0\u07eb-\u07f3\u07fd\u0816-\u0819\u081b-\u0823\u0825-\u0827\u0829-\u082d"
    "\u0859-\u085b\u0898-\u089f\u08ca-\u08e1\u08e3-\u0903\u093a-\u093c\u093e-\u094f"
    "\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc\u09be-\u09cd\u09d7\u09e2\u09e3\u09fe-\u0a03"
    "\u0a3c-\u0a51\u0a70\u0a71\u0a75\u0a81-\u0a83\u0abc\u0abe-\u0acd\u0ae2\u0ae3\u0afa-\u0b03"
    "\u0b3c\u0b3e-\u0b57\u0b62\u0b63\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04\u0c3c\u0c3e-\u0c56"
    "\u0c62\u0c63\u0c81-\u0c83\u0cbc\u0cbe-\u0cd6\u0ce2\u0ce3\u0d00-\u0d03\u0d3b\u0d3c"
    "\u0d3e-\u0d4d\u0d57\u0d62\u0d63\u0d81-\u0d83\u0dca-\u0ddf\u0df2\u0df3\u0e31\u0e34-\u0e3a"
    "\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e\u0f3f"
    "\u0f71-\u0f84\u0f86\u0f87\u0f8d-\u0fbc\u0fc6\u102b-\u103e\u1056-\u1059\u105e-\u1060"
    "\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u135d-\u135f"
    "\u1712-\u1715\u1732-\u1734\u1752\u1753\u1772\u1773\u17b4-\u17d3\u17dd\u180b-\u180d\u180f"
    "\u1885\u1886\u18a9\u1920-\u193b\u1a17-\u1a1b\u1a55-\u1a7f\u1ab0-\u1b04\u1b34-\u1b44"
    "\u1b6b-\u1b73\u1b80-\u1b82\u1ba1-\u1bad\u1be6-\u1bf3\u1c24-\u1c37\u1cd0-\u1cd2"
    "\u1cd4-\u1ce8\u1ced\u1cf4\u1cf7-\u1cf9\u1dc0-\u1dff\u20d0-\u20f0\u2cef-\u2cf1\u2d7f"
    "\u2de0-\u2dff\u302a-\u302f\u3099\u309a\ua66f-\ua672\ua674-\ua67d\ua69e\ua69f\ua6f0\ua6f1"
    "\ua802\ua806\ua80b\ua823-\ua827\ua82c\ua880\ua881\ua8b4-\ua8c5\ua8e0-\ua8f1\ua8ff"
    "\ua926-\ua92d\ua947-\ua953\ua980-\ua983\ua9b3-\ua9c0\ua9e5\uaa29-\uaa36\uaa43\uaa4c\uaa4d"
    "\uaa7b-\uaa7d\uaab0\uaab2-\uaab4\uaab7\uaab8\uaabe\uaabf\uaac1\uaaeb-\uaaef\uaaf5\uaaf6"
    "\uabe3-\uabea\uabec\uabed\ufb1e\ufe00-\ufe0f\ufe20-\ufe2f"
)

_ASTRAL_MARK = (
    "\U000101fd\U000102e0\U00010376-\U0001037a\U00010a01-\U00010a0f\U00010a38-\U00010a3f"
    "\U00010ae5\U00010ae6\U00010d24-\U00010d27\U00010eab\U00010eac\U00010f46-\U00010f50"
    "\U00010f82-\U00010f85\U00011000-\U00011002\U00011038-\U00011046\U00011070"
    "\U00011073\U00011074\U0001107f-\U00011082\U000110b0-\U000110ba\U000110c2"
    "\U00011100-\U00011102\U00011127-\U00011134\U00011145\U00011146\U00011173"
    "\U00011180-\U00011182\U000111b3-\U000111c0\U000111c9-\U000111cc\U000111ce\U000111cf"
    "\U0001122c-\U00011237\U0001123e\U000112df-\U000112ea\U00011300-\U00011303"
    "\U0001133b\U0001133c\U0001133e-\U0001134d\U00011357\U00011362-\U00011374"
    "\U00011435-\U00011446\U0001145e\U000114b0-\U000114c3\U000115af-\U000115c0"
    "\U000115dc\U000115dd\U00011630-\U00011640\U000116ab-\U000116b7\U0001171d-\U0001172b"
    "\U0001182c-\U0001183a\U00011930-\U0001193e\U00011940\U00011942\U00011943"
    "\U000119d1-\U000119e0\U000119e4\U00011a01-\U00011a0a\U00011a33-\U00011a39"
    "\U00011a3b-\U00011a3e\U00011a47\U00011a51-\U00011a5b\U00011a8a-\U00011a99"
    "\U00011c2f-\U00011c3f\U00011c92-\U00011cb6\U00011d31-\U00011d45\U00011d47"
    "\U00011d8a-\U00011d97\U00011ef3-\U00011ef6\U00016af0-\U00016af4\U00016b30-\U00016b36"
    "\U00016f4f\U00016f51-\U00016f92\U00016fe4-\U00016ff1\U0001bc9d\U0001bc9e"
    "\U0001cf00-\U0001cf46\U0001d165-\U0001d169\U0001d16d-\U0001d172\U0001d17b-\U0001d182"
    "\U0001d185-\U0001d18b\U0001d1aa-\U0001d1ad\U0001d242-\U0001d244\U0001da00-\U0001da36"
    "\U0001da3b-\U0001da6c\U0001da75\U0001da84\U0001da9b-\U0001daaf\U0001e000-\U0001e02a"
    "\U0001e130-\U0001e136\U0001e2ae\U0001e2ec-\U0001e2ef\U0001e8d0-\U0001e8d6"
    "\U0001e944-\U0001e94a"
)

# Emoji, arrows, currency and other signs; circled digits that have no plain equivalent.
_BMP_SYMBOL = (
    "\u00a2-\u00a6\u00a9\u00ac\u00ae-\u00b1\u00d7\u00f7\u02c2-\u02c5\u02d2-\u02eb\u02ed"
    "\u02ef-\u02ff\u0375\u03f6\u0482\u058d-\u058f\u0606-\u0608\u060b\u060e\u060f\u06de\u06e9"
    "\u06fd\u06fe\u07f6\u07fe\u07ff\u0888\u09f2\u09f3\u09fa\u09fb\u0af1\u0b70\u0bf3-\u0bfa"
    "\u0c7f\u0d4f\u0d79\u0e3f\u0f01-\u0f03\u0f13\u0f15-\u0f17\u0f1a-\u0f1f\u0f34\u0f36\u0f38"
    "\u0fbe-\u0fc5\u0fc7-\u0fcf\u0fd5-\u0fd8\u109e\u109f\u1390-\u1399\u166d\u17db\u1940"
    "\u19de-\u19ff\u1b61-\u1b6a\u1b74-\u1b7c\u2044\u2052\u20a0-\u20c0\u2104-\u212e\u213a-\u214d"
    "\u214f\u218a-\u2307\u230c-\u2328\u232b-\u2767\u2776-\u27c4\u27c7-\u27e5\u27f0-\u2982"
    "\u2999-\u29d7\u29dc-\u29fb\u29fe-\u2bff\u2ce5-\u2cea\u2e50\u2e51\u2ff0-\u2ffb\u3004"
    "\u3012\u3013\u3020\u3037\u303e\u303f\u3190\u3191\u3248-\u327f\u4dc0-\u4dff\ua490-\ua4c6"
    "\ua700-\ua716\ua720\ua721\ua789\ua78a\ua828-\ua82b\ua836-\ua839\uaa77-\uaa79\uab5b"
    "\uab6a\uab6b\ufbb2-\ufbc2\ufd40-\ufdff\ufffc\ufffd"
)

# Beyond the first plane whole blocks are enough: rare code points there are letters or symbols.
_ASTRAL_WORD = (
    "\U00010000-\U00010136\U00010140-\U00010178\U000101fd-\U0001afef\U0001b170-\U0001cf46"
    "\U0001d246-\U0001d2ff\U0001d357-\U0001d7ff\U0001da87-\U0001eeef"
)
_ASTRAL_SYMBOL = (
    "\U00010137-\U0001013f\U00010179-\U000101fc\U0001cf50-\U0001d245\U0001d300-\U0001d356"
    "\U0001d800-\U0001da86\U0001eef0-\U0001f1e5\U0001f200-\U0001fbff"
)

# Scripts written without blanks between words: Han, Kana, Hangul, Bopomofo.
CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)

# Two of these make a flag.
REGIONAL_INDICATOR = "\U0001f1e6-\U0001f1ff"

WORD_START = "a-z0-9" + _BMP_WORD + _ASTRAL_WORD
WORD_PART = WORD_START + _BMP_MARK
SYMBOL = _BMP_SYMBOL + _ASTRAL_SYMBOL

# Characters without a visible shape: joiners, variation selectors, soft hyphens, direction
# marks, fillers and tags.
IGNORED = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff"
)

# Marks that accent Latin, Greek and Cyrillic letters, or enclose any character.
ACCENT = (
    "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u2de0-\u2dff"
    "\u302a-\u302f\ua66f-\ua672\ua674-\ua67d\ua69e\ua69f\ufe20-\ufe2f"
)

# Characters that belong to the one before: marks, ignored characters, skin tones, the Thai and Lao
# vowel AM, Arabic stretching, and Hangul vowels and finals and Kana voiced marks, which merge with
# it when folded.
EXTENDER = (
    _BMP_MARK
    + _ASTRAL_MARK
    + IGNORED
    + "\u0640\ufcf2-\ufcf4\ufe71\ufe77\ufe79\ufe7b\ufe7d\ufe7f"
    + "\u0e33\u0eb3\u1160-\u11ff\u3133\u3135\u3136\u313a-\u3140\u3144\u314f-\u3163"
    + "\ud7b0-\ud7ff\uff9e\uff9f\uffa3\uffa5\uffa6\uffaa-\uffb0\uffb4\uffc2-\uffdc"
    + "\U0001f3fb-\U0001f3ff"
)
