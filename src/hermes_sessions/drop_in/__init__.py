"""The drop-in for ``hermes_state``, the module in which hermes-agent keeps its sessions.

`hermes_state` itself only exports these names. The package adds to the store what hermes-agent
expects and other callers do not need: private names, its way to open stores, its functions for
files. hermes-agent is not a dependency: nothing here imports it.
"""
