"""Pure text work: folding, tokens, queries, matching, snippets. No I/O, no clock.

Every database uses the same analysis: `normalisation` folds characters, `tokenizer` turns text into
tokens, `token_encoder` writes tokens as words that no engine changes, `snippet` shows matches in
the original text.
"""
