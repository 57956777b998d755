"""Every command as a function."""
