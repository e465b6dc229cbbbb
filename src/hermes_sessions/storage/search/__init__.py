"""Search: one set of tokens, any database; candidates from the index, decision in shared code."""
