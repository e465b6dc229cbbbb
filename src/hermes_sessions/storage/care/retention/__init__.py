"""Rules by class of session, the plan they make, the consent it needs; see docs/retention.md."""
