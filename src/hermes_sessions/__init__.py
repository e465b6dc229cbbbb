"""A durable, fast session store for AI agents."""
