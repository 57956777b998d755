"""An unknown shortcut: whatever a model learns from very few examples."""

from __future__ import annotations

from srnet.bias.shortcuts.base import ShortcutKind, register


@register
class Unknown(ShortcutKind):
    """Measured by a weak model (`srnet.experiment.nodes.bias.WeakModel`), and not by features."""

    name = "unknown"
    about = "the answers of a model trained on very few examples"
    sentence = "The shortcut has no name: it is whatever a weak model learns from very few examples."
    noun = "what a weak model learns"
    options = ("examples", "epochs", "learning_rate", "backbone")
    is_linear = False
