"""What the doctor looks for among the gateway's own files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hermes_sessions.gateway.inbound_spool import NEXT_STEP, spool_directory
from hermes_sessions.storage.care.doctor.check_runner import Check, Subject
from hermes_sessions.storage.care.doctor.report import Finding
from hermes_sessions.storage.spool import waiting_below


def _spool(subject: Subject) -> Iterable[Finding]:
    place = spool_directory(subject.settings.home)
    found = waiting_below(place)
    if found.entries:
        yield Finding.of("gateway-spool", f"{found.entries} in {place}.")
    if found.put_aside:
        yield Finding.of("gateway-spool", found.words_about_put_aside(place, NEXT_STEP))


GATEWAY: Final = (Check(("gateway-spool",), _spool, needs="nothing"),)
