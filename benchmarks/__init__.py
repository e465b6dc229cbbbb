"""Benchmarks of the session store against its neighbours: one command, one run, ratios.

``python -m benchmarks`` from the repository's root. See ``benchmarks/README.md``.
"""
