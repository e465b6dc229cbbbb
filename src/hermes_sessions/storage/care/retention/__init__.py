"""Retention: rules by class of session, the plan, and its approval; see docs/retention.md."""
