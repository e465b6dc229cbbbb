"""Clients of language models, and the port that they implement."""
