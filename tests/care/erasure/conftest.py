"""Empty stores, on every kind of database."""

from hermes_sessions_testing.conformance import clock, db, open_another  # noqa: F401 - fixtures
from tests.lifecycle.conftest import open_store, store_url  # noqa: F401 - fixtures
