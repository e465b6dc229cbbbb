"""The doctor: a closed list of conditions, a real check for each, one next step, and a fix where
that is safe. Checking changes nothing and never waits for a lock.
"""
