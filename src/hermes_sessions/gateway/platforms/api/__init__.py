"""HTTP: a native API, and one that speaks as OpenAI does."""
