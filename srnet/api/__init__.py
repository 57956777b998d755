"""Every command as a function."""

import srnet
from srnet.lazy import exports

# imported at first use: plans do without torch
_WHERE = {name: where.removeprefix("api.") for name, where in srnet._WHERE.items() if where.startswith("api.")}
__getattr__ = exports(__name__, _WHERE)
