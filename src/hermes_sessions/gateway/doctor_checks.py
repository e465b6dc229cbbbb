"""The doctor's checks of the gateway's own files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hermes_sessions.gateway.inbound_spool import NEXT_STEP, spool_directory
from hermes_sessions.storage.care.doctor.check_runner import Check, ExaminedStore
from hermes_sessions.storage.care.doctor.report import Finding
from hermes_sessions.storage.spool import spool_status


def _spool(subject: ExaminedStore) -> Iterable[Finding]:
    place = spool_directory(subject.settings.home)
    found = spool_status(place)
    if found.entries:
        yield Finding.of("gateway-spool", f"{found.entries} in {place}.")
    if found.put_aside:
        yield Finding.of("gateway-spool", found.describe_set_aside(place, NEXT_STEP))


GATEWAY: Final = (Check(("gateway-spool",), _spool, needs="nothing"),)
