"""Sparse and robust subnetworks inside pre-trained language models."""

__version__ = "0.1.0"
