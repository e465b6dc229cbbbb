"""Everything at once: writers, readers, searches, gateways, an earlier version, backups, restarts,
full disks, retention; and in the end every checksum is verified.

What happens, and in which order, is decided by a seed. How much each process writes in between is a
number, not a time.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.care.backups import create_backup, restore_backup, verify_backup
from hermes_sessions.storage.care.backups.verification import sums_of
from tests.lifecycle.test_competing_processes import check as check_lanes
from tests.servers.server_processes import (
    Server,
    mysql_connection,
    start_mariadb,
    start_postgresql,
)
from tests.soak.harness import SoakHarness
from tests.soak.workers import path_of
from tests.storage.sqlite.integrity import require_sound
from tests.update.versions import unpack

#: How often everything happens once: in a long run, for more than half an hour.
_ROUNDS, _LONG = 1, 100


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SoakHarness]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    earlier = unpack("0.1.0", tmp_path)
    with ExitStack() as servers:
        server: Server | None = None
        if request.param == "sqlite":
            url = f"sqlite:///{home / 'state.db'}"
        elif request.param == "postgresql":
            server = start_postgresql()
            url = f"postgresql://hermes@127.0.0.1:{server.port}/postgres"
        else:
            # Else it writes its log when it likes, and a killed server has lost commits.
            server = start_mariadb("--innodb-flush-log-at-trx-commit=2")
            with mysql_connection(server) as connection:
                connection.cursor().execute("CREATE DATABASE soak")
            url = f"mysql://root@127.0.0.1:{server.port}/soak"
        if server is not None:
            servers.callback(server.destroy)
            section = url.partition(":")[0]
            config = home / "config.yaml"
            config.write_text(
                f"sessiondb:\n  provider: {section}\n  {section}:\n    dsn: {url}\n"
                f"    lock_timeout: 120\n"
            )
            config.chmod(0o600)
        with closing(SoakHarness(url, home, earlier, server, seed=8)) as made:
            yield made


@pytest.mark.slow
@pytest.mark.fault(
    "Everything at once: an update, kills, restarts, full disks, backups, retention, gateways",
    "Every acknowledged message is there once, in order; the last backup has the same checksums; "
    "the doctor finds nothing",
)
def test_everything_at_once(harness: SoakHarness, long_run: bool) -> None:
    harness.start_workers()
    number = 0
    for _ in range(_LONG if long_run else _ROUNDS):
        incidents = list(harness.incidents().items())
        harness.chance.shuffle(incidents)
        for what, happen in incidents:
            try:
                harness.let(happen, number)
            except AssertionError as error:
                error.add_note(f"in round {number}: {what}")
                raise
            number += 1
    harness.stop_workers()

    require_all_stored(harness)
    check_lanes(harness.sessions, harness.sent, harness.keys)
    require_same_in_a_backup(harness)
    require_healthy(harness)
    if harness.url.startswith("sqlite"):
        assert harness.found_full
        harness.close()
        require_sound(path_of(harness.url))


def require_all_stored(harness: SoakHarness) -> None:
    """Each acknowledged message is there once and in its writer's order, and can be found."""
    db = harness.db
    stored: dict[str, list[int]] = defaultdict(list)
    for session in db.list_sessions_rich(limit=100_000):
        ordinals = []
        for message in db.get_messages(session["id"]):
            ordinals.append(message["ordinal"])
            match str(message["content"]).split()[:2]:
                case [who, count] if who in harness.acknowledged:
                    stored[who].append(int(count))
        assert ordinals == list(range(1, len(ordinals) + 1)), session["id"]
    assert harness.acknowledged
    for who, acknowledged in harness.acknowledged.items():
        assert [n for n, times in Counter(stored[who]).items() if times > 1] == []
        assert sorted(set(acknowledged) - set(stored[who])) == [], f"of {who}, lost"
        # One more may be stored whose acknowledgement was never said.
        assert len(stored[who]) - len(acknowledged) in (0, 1)
    for who in random.Random(3).sample(sorted(harness.acknowledged), 4):
        assert len(db.search_messages(who, limit=-1)) == len(stored[who])
    visible = {session["id"] for session in db.list_sessions_rich(limit=100_000)}
    assert visible & harness.gone == set()
    for who in harness.acknowledged:
        mine = [
            int(message["content"].split()[1])
            for session in (who, "shared")
            if db.get_session(session) is not None
            for message in db.get_messages(session)
            if message["content"].split()[0] == who
        ]
        assert sorted(mine) == sorted(stored[who])


def require_same_in_a_backup(harness: SoakHarness) -> None:
    """The last backup, restored elsewhere, has the checksums of the store."""
    made = create_backup(harness.db, harness.backups, portable=True)
    verify_backup(made.path)
    with harness.db.provider.read() as tx:
        wanted = list(sums_of(tx))
    target = harness.home.with_name("restored.db")
    restore_backup(made.path, target)
    with SessionDB(target) as restored, restored.provider.read() as tx:
        assert list(sums_of(tx)) == wanted
    assert len(wanted) > 5
    assert sum(each.messages for each in wanted) == made.messages
    require_sound(target)


def require_healthy(harness: SoakHarness) -> None:
    """What the killed have left can be mended; then nothing is left to say."""
    harness.db.optimize_search()
    before = harness.examine("--full", "--fix")
    assert [each for each in before["mended"] if not each["done"]] == []
    after = harness.examine("--full")
    assert (after["state"], after["findings"], after["unknown"]) == ("healthy", [], [])
