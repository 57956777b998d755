"""Kinds of answers (classes, numbers, spans), one file each, with everything that depends on them."""

from srnet.tasks.answers import classes, numbers, spans  # noqa: F401  each registers its kind
