"""Models: where they come from, how they are opened, and what they are written as."""
