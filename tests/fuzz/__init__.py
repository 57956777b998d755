"""Hostile input through every door of the program: `python -m tests.fuzz --cases 5000 --seed 1`."""
