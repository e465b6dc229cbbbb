"""``python -m hermes_sessions`` is the ``hermes`` command."""

from __future__ import annotations

import sys

from hermes_sessions.cli.main import run

sys.exit(run())
