"""Headers of NumPy files, which may be damaged or malicious. Nothing is unpickled."""

from __future__ import annotations

from typing import IO

import numpy as np

from srnet.errors import UserError

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npy_header(file: IO[bytes], source: str) -> tuple[tuple[int, ...], bool, np.dtype]:  # type: ignore[type-arg]
    """Shape, whether it is stored by column, and type; `file` is then at the first number."""
    try:
        shape, fortran, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
    except Exception as error:  # a damaged header is parsed as Python: SyntaxError, TokenError, RecursionError, ...
        raise UserError(f"{source} is not an .npy file", "it may be damaged: download it again") from error
    if dtype.hasobject or not all(type(size) is int and size >= 0 for size in shape):
        raise UserError(f"{source} is not an array of numbers", "it may be damaged: download it again")
    return shape, fortran, dtype
