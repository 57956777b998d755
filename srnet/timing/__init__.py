"""The speed of models: measured side by side, and as a table of latencies."""
