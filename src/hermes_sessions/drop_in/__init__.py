"""The drop-in for ``hermes_state``, the module in which hermes-agent keeps its sessions.

`hermes_state` itself only exports these names. The package adds to the store what hermes-agent
expects and other callers do not need: results with its keys in its order, its own rules, private
names, its way to open stores, its functions for files. hermes-agent is not a dependency: nothing
here needs it. See docs/decisions/0023-hermes-0.19.md.
"""
