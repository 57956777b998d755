"""For the reference: the default of a field that is written `option(0.01, expert=True)` is 0.01."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, ExprCall, Extension


class Fields(Extension):
    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        value = attr.value
        if isinstance(value, ExprCall) and str(value.function) == "option":
            attr.value = value.arguments[0]
