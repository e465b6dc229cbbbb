"""What users need for their own tests: a clock, a scripted model, and the conformance kit."""
