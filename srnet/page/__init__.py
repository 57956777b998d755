"""A local page with two models side by side: type a text or a pair, step through the rows on which they differ."""
