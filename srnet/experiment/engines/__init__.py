"""Executors: this process, a pool of processes, Ray. One scheduler for all of them."""
