"""Fields of dataclasses as command-line options and as YAML."""
