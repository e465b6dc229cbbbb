"""The conformance kit of platforms on Discord."""

from hermes_sessions.testing.platforms import *  # noqa: F403 - that is how the kit is used
