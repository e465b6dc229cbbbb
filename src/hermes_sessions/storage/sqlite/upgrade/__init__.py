"""Upgrades a file of the documented Hermes layout, versions 1 to 11, to a store of ours.

``procedure`` is the whole; ``layout`` changes tables, indexes and triggers; ``keys``, ``messages``
and ``sessions`` bring rows into our form, with ``values`` deciding about single values and ``scan``
reading what may not even be text; ``lineage`` makes explicit what the old layout left to clocks.
"""

from hermes_sessions.storage.sqlite.upgrade.file_upgrade import upgrade_documented_layout

__all__ = ["upgrade_documented_layout"]
