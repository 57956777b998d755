"""Reports on results: tables, curves, the paper's claims, one page."""
