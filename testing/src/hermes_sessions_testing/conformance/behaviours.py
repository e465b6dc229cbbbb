"""The numbered behaviours of the documented API, as this store keeps them.

The numbers are those under which the behaviours of the documented ``hermes_state`` module were
first written down; those from 103 on are of verbs that it did not have. Numbers that are not here
belong to a subject outside the kit: files of SQLite (10, 84 to 89).
Where the documented module had a defect, the sentence says what this store does instead.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Final

BEHAVIOURS: Final[dict[int, str]] = {
    1: "Creating a session twice keeps the first values and returns the id both times.",
    2: "An unknown keyword is a TypeError and stores nothing.",
    3: "An unknown parent is an IntegrityError and stores nothing.",
    4: "`model_config` reads back as JSON text; an empty one is None.",
    5: "The first end of a session wins, reason and time.",
    6: "Reopening clears the end; the session can end again.",
    7: "End, reopen and prompt of an unknown id return None and log a warning.",
    8: "`get_session` of an unknown id is None.",
    9: "Closing twice is no error.",
    11: "Runs of white space in a title become one blank.",
    12: "Control characters in a title vanish.",
    13: "Line and paragraph separators in a title vanish.",
    14: "A title of which nothing visible is left is None.",
    15: "A title has at most 100 characters after cleaning; the ValueError states both numbers.",
    16: "A title that another session has is a ValueError naming the title and its holder.",
    17: "A session may be given the title it has.",
    18: "Titles that differ in case are different.",
    19: "A blank title clears, and returns True.",
    20: "An unknown session gets no title: False, or a ValueError when the title is taken.",
    21: "A title resolves to the newest of its numbered continuations.",
    22: "Only ` #<number>` continues a title; of the variants, the newest activity wins.",
    23: "Numbered variants are found regardless of ASCII case, the bare title exactly.",
    24: "The next title is the highest number plus one; an unused title starts bare.",
    25: "No character of a title is a wildcard.",
    26: "A unique prefix resolves to its id, an ambiguous one to None, an exact id to itself.",
    27: "Prefixes ignore the case of ASCII letters.",
    28: "No character of a prefix is a wildcard.",
    29: "Appending to an unknown session is an IntegrityError.",
    30: "Tool calls are counted by the length of their list; a tool's answer counts nothing.",
    31: "Content reads back as the list, dict, None or text it was.",
    32: "`get_messages` decodes tool calls; other JSON columns are text.",
    33: "Tool calls that cannot be read are [] for every reader.",
    34: "Replay leaves recalled memory out of user and assistant texts, and of no others.",
    35: "Replay keeps an empty `reasoning_content` and leaves out an empty `reasoning`.",
    36: "Replay gives reasoning and finish reason of assistants only.",
    37: "Replacing gives new ids and rising times, recounts, and drops reasoning of users.",
    38: "Replacing with a bad item raises, and the old messages are still there.",
    39: "Replacing nothing in an unknown session does nothing.",
    40: "Clearing deletes the messages and sets the counters to 0.",
    41: "With ancestors, a question that nobody has answered yet is replayed once.",
    42: "With ancestors, messages come in the order of their arrival over all sessions.",
    43: "The conversation of an unknown id is [].",
    44: "A preview has 60 characters and `...`; any run of white space is one blank.",
    45: "A compressed thread is listed as one row: the tip's state, the head's identity.",
    46: "Without projection the head is listed; with children, every session.",
    47: "Subagents are hidden and branches shown, as decided when they were created.",
    48: "Lists are ordered by the activity of the whole thread; by start on request.",
    49: "Pages are cut from what is shown; an empty list of exclusions excludes nothing.",
    50: "A session without messages was last active when it began and has an empty preview.",
    51: "`search_sessions` includes children and adds `last_active` only.",
    52: "The tip of an unknown id is that id.",
    53: "Resuming goes to the tip; from an empty session to the next one with messages.",
    54: "Increments add; model and route keep the first value, labels the newest.",
    55: "Absolute totals overwrite; what is left out becomes 0, the actual cost stays.",
    56: "Usage of an unknown session creates it with source `unknown`.",
    57: "Case and order of words do not matter; phrases, `deploy*` and `NOT` mean what they say.",
    58: "A snippet shows what matched between `>>>` and `<<<`, as it was written.",
    59: "Words joined by hyphens, dots, underscores or other signs match as phrases.",
    60: "Names and arguments of tool calls, names of tools and text parts are found.",
    61: "Results have the documented keys, a snippet and no content.",
    62: "The context is the message before, the hit and the one after, 200 characters of each.",
    63: "Unfinished quotes, lone operators and stars are mended, and the answer says so.",
    64: "An empty source filter finds nothing; empty roles and exclusions filter nothing.",
    65: "Chinese, Japanese and Korean are found from one character on, with markers.",
    66: "`OR` unites, in every script.",
    67: "Words of different scripts must all occur.",
    68: "No character of a query or filter is a wildcard of the database.",
    69: "What was deleted, cleared or replaced is not found.",
    70: "Accents, case and width make no difference.",
    71: "Any text is a query: none raises, and one with nothing to search for says so.",
    72: "Deleting an unknown session is False; a known one goes with its messages, children stay.",
    73: "Deleting removes the transcript files of that session and no others.",
    74: "Pruning deletes whole conversations that ended and were last active long ago.",
    75: "Pruning again finds nothing.",
    76: "Ghosts are ended, untitled, empty `tui` sessions older than a day; children stay.",
    77: "Maintenance runs once per interval, forgives bad memory, and never raises.",
    78: "Exports have messages and `last_active`; of an unknown session None.",
    79: "Meta values are overwritten; a missing one is None.",
    80: "A handoff is asked for once, taken on by one, and may be asked for again after its end.",
    81: "The handoff of a session without one is three None values, of an unknown session None.",
    82: "Topics that nobody uses are off, unbound and []; the first use needs no preparation.",
    83: "A session has one topic at most, a topic may change its session; no session, no binding.",
    90: "A write that fails is rolled back, its error comes through, later writes are fine.",
    91: "Creating again fills in what the first time left out, and keeps the source.",
    92: "A rewind goes to a user message, hides the tail, and is counted every time.",
    93: "Rewound text is found only with `include_inactive`; compacted text is found.",
    94: "A compression lock has one holder, who may renew it; it expires.",
    95: "A continuation may take the title of the session it continues.",
    96: "Archiving takes the whole compression chain out of lists and counts.",
    97: "Deleting a session deletes its subagents and leaves its branches.",
    98: "An import brings back an export, skips what is there, and refuses all for one bad id.",
    99: "Usage is kept per model, route and task; side tasks do not count for the session.",
    100: "Lone surrogates and NUL read back unchanged, in every text column.",
    101: "Only accidental ends are promoted to `session_reset`.",
    102: "Writing through a read-only handle is an OperationalError.",
    103: "Insights count what was used; a cost that nobody stated is None, never 0.",
    104: "What is pinned is never pruned, nor is its conversation; a chain is pinned as a whole.",
    105: "Forgetting a person takes all that belongs to their sessions, and leaves a receipt.",
    106: "Whoever is in the middle of a turn in what is forgotten stores nothing more.",
    107: "What is on hold is not deleted, neither by name nor by age, nor is its conversation.",
    108: "Limits by class, age, number and size move whole conversations to the trash.",
    109: "Nothing goes before somebody agreed to these very limits.",
    110: "Pins, holds and leases win over limits; so does whoever comes back.",
    111: "What was never ended is ended after a time without activity, in classes with limits.",
}

_MENTION = re.compile(r"\bbehaviours? ((?:\d+(?:, | and | to )?)+)", re.IGNORECASE)


def numbers_named_in(text: str) -> set[int]:
    """Return the numbers after "behaviour" or "behaviours", ranges ("11 to 14") filled in."""
    found: set[int] = set()
    for mention in _MENTION.findall(text):
        for part in re.split(r", | and ", mention):
            bounds = [int(number) for number in re.findall(r"\d+", part)]
            found.update(range(bounds[0], bounds[-1] + 1) if bounds else ())
    return found


def numbers_tested_by(suites: Iterable[type]) -> dict[int, list[str]]:
    """Return for each number the tests that name it in their docstring."""
    tests: dict[int, list[str]] = {}
    for suite in suites:
        for name, test in inspect.getmembers(suite, inspect.isfunction):
            if name.startswith("test_"):
                for number in numbers_named_in(inspect.getdoc(test) or ""):
                    tests.setdefault(number, []).append(f"{suite.__name__}::{name}")
    return tests
