"""Ratios measured side by side in one run. Absolute times mean little on a shared machine, so none is asserted."""
