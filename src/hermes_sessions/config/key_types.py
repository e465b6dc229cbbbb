"""Kinds of values: parse the text of a key, show a value, and describe what is allowed.

A kind reads text, never YAML's own types: values of ``${VAR}`` and of environment variables are
text, and YAML would turn ``on`` and ``1:30`` into something else.
"""

import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from hermes_sessions.config.paths import absolute_path
from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.price import PRICE_FORM, Price, format_price, read_price

_WHOLE = r"[+-]?[0-9](?:_?[0-9]){0,17}"
_DECIMAL = r"[+-]?[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][+-]?[0-9]{1,3})?"
_SIZE = r"([0-9](?:_?[0-9]){0,17})\s*([A-Za-z]*)"

# One meaning per unit: KB and KiB are both 1024 bytes, as usual for limits.
_UNITS: dict[str, int] = {"": 1, "b": 1} | {
    name + ending: 1024**power
    for power, name in enumerate(("k", "m", "g"), start=1)
    for ending in ("", "b", "ib")
}


class ParseContext(NamedTuple):
    """What the value of a key may depend on."""

    home: Path
    environ: Mapping[str, str]
    #: The environment and the file ``.env``, if there is one.
    kept: Mapping[str, str] | None = None

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables for ``${VAR}``."""
        return self.environ if self.kept is None else self.kept


#: For kinds that need neither.
NO_CONTEXT: Final = ParseContext(Path(), {})


class NotAllowed(Exception):
    """The text is not a value of this kind; the caller writes the message."""


class Kind(Protocol):
    """One kind of value."""

    @property
    def allowed(self) -> str:
        """The allowed values, in words that follow "allowed:"."""
        ...

    def parse(self, text: str, context: ParseContext, /) -> object:
        """Return the value that ``text`` stands for, or raise NotAllowed."""
        ...

    def show(self, value: object) -> str:
        """Return ``value`` as a person would write it; ``parse`` reads it back."""
        ...


class Choice:
    """One of a few words, in any case."""

    def __init__(self, options: tuple[str, ...]) -> None:
        self.options = options
        self.allowed = ", ".join(options)

    def parse(self, text: str, _context: ParseContext) -> str:
        """Return the option as declared, or raise NotAllowed."""
        word = text.strip().lower()
        if word not in self.options:
            raise NotAllowed
        return word

    def show(self, value: object) -> str:
        """Return the option itself."""
        return str(value)


class ChoiceOrPlugin(Choice):
    """One of a few words, or a name that an installed package offers as an entry point."""

    def __init__(self, options: tuple[str, ...], group: str) -> None:
        super().__init__(options)
        self._group = group

    def parse(self, text: str, context: ParseContext) -> str:
        """Return the word as declared, or raise NotAllowed."""
        try:
            return super().parse(text, context)
        except NotAllowed:
            from importlib.metadata import entry_points  # slow, and hardly ever needed

            if text.strip() in entry_points(group=self._group).names:
                return text.strip()
            raise


class WholeNumber:
    """A whole number within bounds, both included."""

    def __init__(self, *, at_least: int, at_most: int) -> None:
        self._bounds = range(at_least, at_most + 1)
        self.allowed = f"a whole number from {at_least} to {at_most}"

    def parse(self, text: str, _context: ParseContext) -> int:
        """Return the number, or raise NotAllowed."""
        if not re.fullmatch(_WHOLE, text.strip()) or (number := int(text)) not in self._bounds:
            raise NotAllowed
        return number

    def show(self, value: object) -> str:
        """Return the number in digits."""
        return str(value)


class OptionalValue:
    """A value of another kind, or nothing when it is blank."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.allowed = kind.allowed

    def parse(self, text: str, context: ParseContext) -> object:
        """Return the value, None when the text is blank, or raise NotAllowed."""
        return self.kind.parse(text, context) if text.strip() else None

    def show(self, value: object) -> str:
        """Return the value as its kind shows it, nothing for None."""
        return "" if value is None else self.kind.show(value)


class Seconds:
    """A duration in seconds, fractions allowed; above zero, or at least *at_least*."""

    def __init__(self, *, at_most: int, at_least: int | None = None) -> None:
        self._at_most = at_most
        self._at_least = at_least
        beginning = "above 0" if at_least is None else f"from {at_least}"
        self.allowed = f"a number of seconds {beginning}, at most {at_most}"

    def parse(self, text: str, _context: ParseContext) -> float:
        """Return the seconds, or raise NotAllowed."""
        if not re.fullmatch(_DECIMAL, text.strip()):
            raise NotAllowed
        seconds = float(text)
        is_enough = seconds > 0 if self._at_least is None else seconds >= self._at_least
        if not math.isfinite(seconds) or not is_enough or seconds > self._at_most:
            raise NotAllowed
        return seconds

    def show(self, value: object) -> str:
        """Return the seconds, whole ones without a fraction."""
        return str(value).removesuffix(".0")


class Size:
    """A number of bytes, plain or with a unit: ``8388608``, ``8192KB``, ``8MB``."""

    def __init__(self, *, at_least: int, at_most: int) -> None:
        self._bounds = range(at_least, at_most + 1)
        self.allowed = (
            f"a size from {self.show(at_least)} to {self.show(at_most)}, like 8388608 or 8MB"
        )

    def parse(self, text: str, _context: ParseContext) -> int:
        """Return the bytes, or raise NotAllowed."""
        match = re.fullmatch(_SIZE, text.strip())
        unit = _UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise NotAllowed
        size = int(match[1]) * unit
        if size not in self._bounds:
            raise NotAllowed
        return size

    def show(self, value: object) -> str:
        """Return the size with the largest unit that divides it."""
        size = int(str(value))
        for unit in ("GB", "MB", "KB"):
            factor = _UNITS[unit.lower()]
            if size and size % factor == 0:
                return f"{size // factor}{unit}"
        return str(size)


class FilePath:
    """A path of a file; ``~`` is expanded and a relative path starts at the home directory."""

    allowed = "a path (absolute, starting with ~, or relative to the home directory)"

    def parse(self, text: str, context: ParseContext) -> Path:
        """Return the absolute path, or raise NotAllowed."""
        # A URL would become directories with odd names.
        if not text.strip() or "\0" in text or "://" in text:
            raise NotAllowed
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise NotAllowed from None
        return absolute_path(text.strip(), context.environ, context.home)

    def show(self, value: object) -> str:
        """Return the path."""
        return str(value)


class Text:
    """Any text; nothing when it is empty."""

    allowed = "text"

    def parse(self, text: str, _context: ParseContext) -> str | None:
        """Return the text, None when it is blank, or raise NotAllowed."""
        if "\0" in text:
            raise NotAllowed
        return text.strip() or None

    def show(self, value: object) -> str:
        """Return the text itself."""
        return "" if value is None else str(value)


class Name:
    """A short name of lower-case letters, digits, ``_`` and ``-``."""

    allowed = "a name of lower-case letters, digits, - and _"

    def parse(self, text: str, _context: ParseContext) -> str:
        """Return the name, or raise NotAllowed."""
        name = text.strip().lower()
        if not re.fullmatch(r"[a-z_][a-z0-9_-]{0,62}", name):
            raise NotAllowed
        return name

    def show(self, value: object) -> str:
        """Return the name itself."""
        return str(value)


class YesNo:
    """True or false, in any of the usual words."""

    allowed = "true or false (also yes, on, 1 and no, off, 0)"

    def parse(self, text: str, _context: ParseContext) -> bool:
        """Return the answer, or raise NotAllowed."""
        word = text.strip().lower()
        if word in {"true", "yes", "on", "1"}:
            return True
        if word in {"false", "no", "off", "0"}:
            return False
        raise NotAllowed

    def show(self, value: object) -> str:
        """Return ``true`` or ``false``."""
        return "true" if value else "false"


class TimeZone:
    """The name of a time zone."""

    allowed = "the name of a time zone that this machine knows, like Europe/Berlin"

    def parse(self, text: str, _context: ParseContext) -> str:
        """Return the name, or raise NotAllowed."""
        from hermes_sessions.model.reset_policy import is_zone  # calendars are slow to load

        if not is_zone(text.strip()):
            raise NotAllowed
        return text.strip()

    def show(self, value: object) -> str:
        """Return the name itself."""
        return str(value)


class TextList:
    """Several texts, like ids: a list, or one text with commas between them."""

    allowed = "a list, like [123, 456]"

    def parse(self, text: str, _context: ParseContext) -> tuple[str, ...]:
        """Return the texts."""
        return tuple(word.strip() for word in text.split(",") if word.strip())

    def show(self, value: object) -> str:
        """Return them with commas between them."""
        return ", ".join(value) if isinstance(value, tuple) else str(value)


class NameList:
    """Several names: a list, or one text with commas between them."""

    allowed = "a list of names"

    def parse(self, text: str, context: ParseContext) -> tuple[str, ...]:
        """Return the names, or raise NotAllowed."""
        words = [word for word in text.split(",") if word.strip()]
        return tuple(Name().parse(word, context) for word in words)

    def show(self, value: object) -> str:
        """Return the names with commas between them."""
        return ", ".join(value) if isinstance(value, tuple) else str(value)


class ModelPrice:
    """What a model costs: ``0.15 in, 0.60 out, 0.075 cached``."""

    allowed = PRICE_FORM

    def parse(self, text: str, _context: ParseContext) -> Price:
        """Return the price, or raise NotAllowed."""
        try:
            return read_price(text)
        except InvalidInput:
            raise NotAllowed from None

    def show(self, value: object) -> str:
        """Return the price in words."""
        return format_price(value) if isinstance(value, Price) else str(value)


class MapOf:
    """A section whose names are free and whose values are all of one kind."""

    def __init__(self, kind: Kind, names: str) -> None:
        self.kind = kind
        self.allowed = f"for each {names}, {kind.allowed}"

    def parse(self, text: str, _context: ParseContext) -> tuple[tuple[str, object], ...]:
        """Return no entries for blank text; entries are written as a section, each by its kind."""
        if text.strip():
            raise NotAllowed
        return ()

    def show(self, value: object) -> str:
        """Return the entries in one line, nothing when there are none."""
        entries = value if isinstance(value, tuple) else ()
        return "; ".join(f"{name}: {self.kind.show(each)}" for name, each in entries)


#: The default of a key that has none.
REQUIRED: Final = object()


class HomeDefault(NamedTuple):
    """A default that depends on the home directory, and its description."""

    value: Callable[[Path], object]
    described: str


class Key(NamedTuple):
    """One key: dotted path, kind of value, default, and one line of documentation."""

    path: str
    kind: Kind
    default: object
    doc: str
    environment: tuple[str, ...] = ()
    """Environment variables that override the file; the first that is set and not empty."""

    may_be_unset: bool = False
    """Whether a `${VAR}` that is not set means the default: the store works without this key."""

    invalid_means_default: bool = False
    """Whether an invalid value is only a warning and means the default."""

    ask: object = None
    """How the set-up of a platform asks for it: an `Ask` of ``gateway.platforms.spec``, or None."""

    @property
    def default_text(self) -> str:
        """The default in words, as errors and the reference show it."""
        if isinstance(self.default, HomeDefault):
            return self.default.described
        if self.default is REQUIRED:
            return "required"
        if self.default is None or self.default in ((), frozenset()):
            return "not set"
        return self.kind.show(self.default)

    def default_value(self, home: Path) -> object:
        """The value of the key when it is not configured."""
        return self.default.value(home) if isinstance(self.default, HomeDefault) else self.default
