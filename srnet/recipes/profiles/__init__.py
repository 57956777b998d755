"""Settings at three scales: the embedded benchmark, a small real backbone, the papers' own."""
