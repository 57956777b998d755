"""Every command as a function; `srnet` exports them."""
