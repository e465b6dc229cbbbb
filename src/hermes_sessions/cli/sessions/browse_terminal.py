"""The picker on a terminal, drawn by prompt_toolkit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from hermes_sessions.cli.render.picker import LEAST_COLUMNS, LEAST_LINES, Piece
from hermes_sessions.cli.sessions.browse_picker import Picker

#: Seconds after which an Esc is not the beginning of an arrow key.
_ESCAPE_WAITS = 0.05

#: Returns the screen's lines for a number of columns and lines.
Draw = Callable[[int, int], list[list[Piece]]]


def pick(picker: Picker, draw: Draw, *, colour: bool) -> str | None:
    """Let the user choose a session and return its id; None if they quit.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """

    def fragments() -> StyleAndTextTuples:
        size: Size = app.output.get_size()
        if size.columns < LEAST_COLUMNS or size.rows < LEAST_LINES:
            return [("", f"The window is too small (at least {LEAST_COLUMNS}x{LEAST_LINES}).")]
        shown: StyleAndTextTuples = []
        for line in draw(size.columns, size.rows):
            shown += [(look if colour or look == "reverse" else "", text) for look, text in line]
            shown.append(("", "\n"))
        return shown[:-1]

    app: Application[str | None] = Application(
        layout=Layout(Window(FormattedTextControl(fragments, show_cursor=False), wrap_lines=False)),
        key_bindings=_keys(picker),
        full_screen=True,
        mouse_support=False,
    )
    app.ttimeoutlen = _ESCAPE_WAITS
    return app.run()


def _keys(picker: Picker) -> KeyBindings:
    keys = KeyBindings()
    for names, action in _actions(picker).items():
        for name in names.split():
            keys.add(name)(partial(_pressed, picker, action))

    @keys.add("enter")
    def _choose(event: KeyPressEvent) -> None:
        if picker.chosen is not None:
            event.app.exit(result=picker.chosen.id)

    @keys.add("c-c")
    def _interrupt(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt)

    @keys.add(Keys.Any)
    @keys.add(Keys.BracketedPaste)
    def _type(event: KeyPressEvent) -> None:
        pasted = " ".join(event.data.split()) if len(event.data) > 1 else event.data
        _pressed(picker, partial(picker.type, pasted), event)

    return keys


def _actions(picker: Picker) -> dict[str, Callable[[], None]]:
    """Return the actions of the keys that move or edit."""
    return {
        "up c-p": lambda: picker.move(-1),
        "down c-n": lambda: picker.move(1),
        "pageup": lambda: picker.move(-picker.page),
        "pagedown": lambda: picker.move(picker.page),
        "home": picker.first,
        "end": picker.last,
        "backspace": picker.erase,
        "c-u": picker.clear,
        "escape": picker.escape,
        "c-d": picker.leave,
    }


def _pressed(picker: Picker, action: Callable[[], None], event: KeyPressEvent) -> None:
    action()
    if picker.left:
        event.app.exit(result=None)
