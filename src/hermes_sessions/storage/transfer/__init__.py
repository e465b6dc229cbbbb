"""Moving sessions between databases: a copy that can be resumed and proves itself."""
