"""Experiments as expressions: the demonstration, the papers' figures and tables, and what users write in YAML."""
