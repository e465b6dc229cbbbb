"""A MariaDB Galera cluster of three nodes on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from scripts.local_servers import Server, ServerFailed, free_port, make_mariadb, program
from tests.servers.server_processes import mysql_connection

_LIBRARY: Final = Path("/usr/lib/galera/libgalera_smm.so")
_NODES: Final = 3
#: A node that says nothing for three seconds is left out.
_PROVIDER_OPTIONS: Final = (
    *("gcache.size=16M", "gcache.page_size=16M", "pc.recovery=false"),
    *("evs.suspect_timeout=PT3S", "evs.inactive_timeout=PT6S", "evs.install_timeout=PT6S"),
)


class Cluster:
    """Three running nodes; each one accepts writes."""

    def __init__(self) -> None:
        if not _LIBRARY.exists():
            raise ServerFailed("galera-4 is not installed. Run ./test, which installs it.")
        program("wsrep_sst_rsync")
        peers = [free_port() for _ in range(_NODES)]
        self.nodes = [_make(peers, place) for place in range(_NODES)]
        try:
            self.nodes[0].start("--wsrep-new-cluster")
            for node in self.nodes[1:]:
                node.start()
        except BaseException:
            self.destroy()
            raise

    def url(self, database: str, *, first: int = 0, count: int = _NODES) -> str:
        """The URL of *count* nodes, beginning with the one number *first*."""
        nodes = [self.nodes[(first + place) % _NODES] for place in range(count)]
        return f"mysql://root@{','.join(f'127.0.0.1:{node.port}' for node in nodes)}/{database}"

    def run(self, *statements: str, node: int = 0) -> list[tuple[Any, ...]]:
        """Execute statements on a node, after all that was written before; return the last rows."""
        with mysql_connection(self.nodes[node]) as connection:
            cursor = connection.cursor()
            cursor.execute("SET wsrep_sync_wait = 7")
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def isolate(self, node: int, isolated: bool = True) -> None:
        """Cut a node off from the others, or connect it again."""
        with mysql_connection(self.nodes[node]) as connection:
            connection.cursor().execute(
                f"SET GLOBAL wsrep_provider_options = 'gmcast.isolate={int(isolated)}'"
            )

    def status(self, name: str, node: int = 0) -> str:
        """A status variable of a node."""
        return _status(self.nodes[node], name)

    def wait_until_whole(self) -> None:
        """Return when all nodes take statements again."""
        wait_until(lambda: all(_is_whole(node) for node in self.nodes))

    def destroy(self) -> None:
        """Kill all nodes and remove what they stored."""
        for node in self.nodes:
            node.destroy()


def _make(peers: list[int], place: int) -> Server:
    address = f"127.0.0.1:{peers[place]}"
    options = (
        f"base_host=127.0.0.1;base_port={peers[place]}",
        f"gmcast.listen_addr=tcp://{address}",
        f"ist.recv_addr=127.0.0.1:{free_port()}",
        *_PROVIDER_OPTIONS,
    )
    node = make_mariadb(
        [
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=16M",
            "--innodb-autoinc-lock-mode=2",
            "--max-connections=200",
            "--binlog-format=ROW",
            "--wsrep-on=ON",
            f"--wsrep-provider={_LIBRARY}",
            f"--wsrep-cluster-address=gcomm://{','.join(f'127.0.0.1:{port}' for port in peers)}",
            "--wsrep-cluster-name=hermes-tests",
            f"--wsrep-node-address={address}",
            "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address=127.0.0.1:{free_port()}",
            f"--wsrep-provider-options={';'.join(options)}",
        ]
    )
    node.probe = lambda: _require_synced(node)
    return node


def _status(node: Server, name: str) -> str:
    with mysql_connection(node) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")
        [(_, value)] = cursor.fetchall()
        return str(value)


def _require_synced(node: Server) -> None:
    found = _status(node, "wsrep_local_state_comment"), _status(node, "wsrep_ready")
    if found != ("Synced", "ON"):
        raise ServerFailed(f"the node is {found}")


def _is_whole(node: Server) -> bool:
    try:
        _require_synced(node)
    except ServerFailed:
        return False
    return _status(node, "wsrep_cluster_size") == str(_NODES)


def wait_until(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    """Return when *happened* is true; fail after the given seconds."""
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)
