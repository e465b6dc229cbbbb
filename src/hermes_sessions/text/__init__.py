"""Pure text work: folding, tokens, queries, matching, snippets. No I/O, no clock.

One analysis for every database: `normalise` folds characters, `segment` turns text into tokens,
`encode` writes tokens as words that no engine changes, `snippet` shows matches in the original.
"""
