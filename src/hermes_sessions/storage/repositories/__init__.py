"""The verbs of the store, written once over the provider port."""
