"""Fake messenger servers: each speaks its messenger's protocol over real local sockets."""
