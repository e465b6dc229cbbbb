"""The conformance kit of platforms on Discord."""

from hermes_sessions_testing.platforms import *  # noqa: F403 - that is how the kit is used
