"""Names of results that documents showed before they were renamed still work."""

from __future__ import annotations

from hermes_sessions.lifecycle.expiry_watcher import ExpiryPass, Pass
from hermes_sessions.lifecycle.gateway_process import Recovery, RecoveryReport
from hermes_sessions.storage.care.retention.plan import Consent, RetentionApproval


def test_former_names() -> None:
    assert (Pass, Recovery, Consent) == (ExpiryPass, RecoveryReport, RetentionApproval)
    assert ExpiryPass([], [], ["s1"]).left_behind == ["s1"]
