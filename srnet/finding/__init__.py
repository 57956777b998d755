"""The sparsest subnetwork that keeps the ID score, within a time budget."""
