"""Every command as a function."""

import srnet

__getattr__ = srnet.__getattr__  # imported at first use: plans do without torch
