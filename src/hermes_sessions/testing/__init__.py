"""What users of the store need for their own tests: a clock, and the conformance kit."""
