"""Arrays from elsewhere: headers of NumPy files, which may be damaged or malicious, and the logits of models."""

from __future__ import annotations

from typing import IO

import numpy as np

from srnet.core.errors import UserError

MODEL = "the model"
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npy_header(file: IO[bytes], source: str) -> tuple[tuple[int, ...], bool, np.dtype]:  # type: ignore[type-arg]
    """Shape, whether it is stored by column, and type; `file` is then at the first number. Nothing is unpickled."""
    try:
        shape, fortran, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
    except Exception as error:  # a damaged header is parsed as Python: SyntaxError, TokenError, RecursionError, ...
        raise UserError(f"{source} is not an .npy file", "it may be damaged: download it again") from error
    if dtype.hasobject or not all(type(size) is int and size >= 0 for size in shape):
        raise UserError(f"{source} is not an array of numbers", "it may be damaged: download it again")
    return shape, fortran, dtype


def finite_logits(logits: np.ndarray, source: str = MODEL) -> np.ndarray:
    """The logits, which are an error where they are non-finite: any answer read from them would be arbitrary."""
    check_finite(bool(np.isfinite(logits).all()), source)
    return logits


def check_finite(finite: bool, source: str) -> None:
    """An error unless all logits of the model `source` are finite."""
    if not finite:
        raise UserError(
            f"{source} gives non-finite logits", "train it again, with lower learning rates, or export it again"
        )
