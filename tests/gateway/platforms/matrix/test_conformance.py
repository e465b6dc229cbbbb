"""The conformance kit of platforms on Matrix: a real Synapse."""

from hermes_sessions.testing.platforms import *  # noqa: F403 - that is how the kit is used
