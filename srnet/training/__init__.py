"""One training run: batches, the Trainer, checkpoints, selection."""
