"""The mask as a value, its budget and schedule, and its place in a model."""
