"""Expressions, their identity, the store and the engine that runs them."""
