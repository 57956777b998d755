"""A local page with two classifiers side by side: type a pair, step through the rows on which they differ."""
