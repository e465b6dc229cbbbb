"""The numbered behaviours of the documented API, as this store implements them.

Numbers up to 102 come from the first description of the documented ``hermes_state`` module; those
from 103 on belong to methods that it did not have. Missing numbers (10, 84 to 89) are about SQLite
files, which the kit does not test. Where the documented module had a defect, the sentence says what
this store does instead.
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
    5: "The first end of a session wins: its reason and its time stay.",
    6: "Reopening clears the end; the session can end again.",
    7: "Ending, reopening or setting the prompt of an unknown id returns None and logs a warning.",
    8: "`get_session` of an unknown id is None.",
    9: "Closing twice is allowed.",
    11: "Runs of white space in a title become one space.",
    12: "Control characters are removed from a title.",
    13: "Line and paragraph separators are removed from a title.",
    14: "A title without a visible character is None.",
    15: "A title has at most 100 characters after cleaning; the ValueError states both numbers.",
    16: "A title of another session is a ValueError that names the title and that session.",
    17: "Setting the title that a session already has succeeds.",
    18: "Titles that differ in case are different.",
    19: "A blank title clears the title and returns True.",
    20: "Titling an unknown session returns False, or raises ValueError if the title is taken.",
    21: "A title resolves to the newest of its numbered continuations.",
    22: "Only ` #<number>` continues a title; among the variants, the most recently active wins.",
    23: "Numbered variants match regardless of ASCII case, the bare title exactly.",
    24: "The next title has the highest number plus one; an unused title has no number.",
    25: "No character of a title is a wildcard.",
    26: "A unique prefix resolves to its id, an ambiguous one to None, an exact id to itself.",
    27: "Prefixes ignore the case of ASCII letters.",
    28: "No character of a prefix is a wildcard.",
    29: "Appending to an unknown session is an IntegrityError.",
    30: "Tool calls are counted by the length of their list; tool results are not counted.",
    31: "Content reads back as the same list, dict, None or text.",
    32: "`get_messages` decodes tool calls; other JSON columns are text.",
    33: "Unreadable tool calls are [] for every reader.",
    34: "Replay removes recalled memory from user and assistant texts only.",
    35: "Replay keeps an empty `reasoning_content` and omits an empty `reasoning`.",
    36: "Replay returns reasoning and finish reason for assistant messages only.",
    37: "Replacing assigns new ids and rising times, recounts, and drops reasoning of users.",
    38: "Replacing with an invalid item raises and keeps the old messages.",
    39: "Replacing with no messages in an unknown session does nothing.",
    40: "Clearing deletes the messages and sets the counters to 0.",
    41: "With ancestors, an unanswered question is replayed once.",
    42: "With ancestors, messages are in order of arrival across all sessions.",
    43: "The conversation of an unknown id is [].",
    44: "A preview has 60 characters and `...`; any run of white space is one space.",
    45: "A compressed thread is listed as one row: the tip's state, the head's identity.",
    46: "Without projection the head is listed; with children, every session.",
    47: "Subagents are hidden and branches listed, as decided when they were created.",
    48: "Lists are ordered by the activity of the whole thread, or by start on request.",
    49: "Pages are cut from the listed rows; an empty list of exclusions excludes nothing.",
    50: "A session without messages was last active at its start and has an empty preview.",
    51: "`search_sessions` includes children and adds only `last_active`.",
    52: "The tip of an unknown id is that id.",
    53: "Resuming goes to the tip, and from an empty session to the next one with messages.",
    54: "Increments add up; model and route keep the first value, labels the newest.",
    55: "Absolute totals overwrite; omitted ones become 0, the actual cost stays.",
    56: "Usage of an unknown session creates it with source `unknown`.",
    57: "Case and word order do not matter; phrases, `deploy*` and `NOT` work as documented.",
    58: "A snippet shows the matched text as written, between `>>>` and `<<<`.",
    59: "Words joined by hyphens, dots, underscores or other symbols match as phrases.",
    60: "Names and arguments of tool calls, names of tools and text parts are found.",
    61: "Results have the documented keys, a snippet and no content.",
    62: "The context is the message before, the hit and the one after, 200 characters of each.",
    63: "Unfinished quotes, lone operators and stars are repaired, and the result reports it.",
    64: "An empty source filter finds nothing; empty roles and exclusions filter nothing.",
    65: "Chinese, Japanese and Korean match from one character on, with markers.",
    66: "`OR` matches either side, in every script.",
    67: "Words of different scripts must all occur.",
    68: "No character of a query or filter is a database wildcard.",
    69: "Deleted, cleared and replaced text is not found.",
    70: "Accents, case and width make no difference.",
    71: "Any text is a valid query; one without anything to search for reports that.",
    72: "Deleting an unknown id returns False; else session and messages go, children stay.",
    73: "Deleting removes the transcript files of that session and no others.",
    74: "Pruning deletes whole conversations that ended and were last active long ago.",
    75: "Pruning again deletes nothing.",
    76: "Ghosts are ended, untitled, empty `tui` sessions older than a day; children stay.",
    77: "Maintenance runs once per interval, ignores unreadable earlier records, never raises.",
    78: "Exports have messages and `last_active`; the export of an unknown session is None.",
    79: "Meta values are overwritten; a missing one is None.",
    80: "A handoff is requested once, accepted by one caller, and can be requested again later.",
    81: "A session without a handoff has three None values; an unknown session has None.",
    82: "Unused topics are off, unbound and []; the first use needs no preparation.",
    83: "A session has at most one topic; a topic can change its session, which must exist.",
    90: "A failed write is rolled back and raises its error; later writes succeed.",
    91: "Creating again fills in missing values and keeps the source.",
    92: "A rewind goes to a user message, hides later messages, and is counted every time.",
    93: "Rewound text is found only with `include_inactive`; compacted text is found.",
    94: "A compression lock has one holder, who can renew it, and expires.",
    95: "A continuation can take the title of the session it continues.",
    96: "Archiving removes the whole compression chain from lists and counts.",
    97: "Deleting a session deletes its subagents and keeps its branches.",
    98: "An import restores an export, skips existing sessions, and refuses all for one bad id.",
    99: "Usage is stored per model, route and task; side tasks do not count for the session.",
    100: "Lone surrogates and NUL read back unchanged, in every text column.",
    101: "Only accidental ends are promoted to `session_reset`.",
    102: "Writing through a read-only handle is an OperationalError.",
    103: "Insights count usage; an unstated cost is None, never 0.",
    104: "A pinned session is never pruned, nor is its conversation; a chain is pinned as a whole.",
    105: "Forgetting a user deletes everything in their sessions and leaves a receipt.",
    106: "A turn that runs in a forgotten session stores nothing more.",
    107: "A session on hold is not deleted, by name or by age, nor is its conversation.",
    108: "Limits by class, age, number and size move whole conversations to the trash.",
    109: "Nothing is moved before a user has approved exactly these limits.",
    110: "Pins, holds and leases take precedence over limits, as does renewed activity.",
    111: "In classes with limits, idle sessions that never ended are ended after a time.",
    112: "A payload, any JSON value, reads back deep-equal from every reader.",
    113: "A payload that is not JSON is a ValueError and stores nothing.",
    114: "An item that is only a payload counts, but is not replayed to a model.",
    115: "A payload is neither searched nor in a preview.",
    116: "Payloads are read by range of ordinals; a limit takes the newest, oldest first.",
    117: "Tags are folded, sorted and shared by a compression chain; metadata is a JSON object.",
    118: "Lists and searches select by tags and by values of the metadata.",
    119: "The revision of a session grows with every change of its messages, labels or state.",
    120: "A write that expects another revision stores nothing; the error has both numbers.",
    121: "Of writers that expect the same revision, exactly one succeeds.",
    122: "Sessions of one directory or repository share a workspace, which children inherit.",
    123: "A merge of workspaces changes no session and can be undone.",
    124: "A workspace is deleted with its last session.",
    125: "The newest message of any role is popped and returned as it was, or None.",
    126: "What was popped, cleared or replaced is recorded and restored like a rewind.",
    127: "A soft clear hides every message; otherwise clearing deletes.",
    128: "The end of a transcript is replaced in one step, and the first messages stay.",
    129: "Concurrent pops give each message to one caller.",
    130: "A state document of a session, a user or an app reads back deep-equal.",
    131: "A state document is changed only at its expected revision; 0 means that it is new.",
    132: "State of a session is fenced, raises its revision, and is deleted with it.",
    133: "Too large or too many state documents are a ValueError and store nothing.",
    134: "Forgetting a user deletes the state documents of the user.",
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
