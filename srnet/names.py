"""Names that several rooms use, and the rule for names that users choose.

Imports nothing heavy, so that `srnet --help` is quick.
"""

import re

from srnet.errors import UserError

EMBEDDED = "srnet-tiny"
"""The backbone that ships with the package."""

EMBEDDED_OTHER = "srnet-small"
"""The other one, with one layer more: to check whether a finding depends on the backbone."""

DOWNLOAD_VARIABLE = "SRNET_DOWNLOAD"
"""Set to 1 to allow downloads from the hub."""

LONGEST_NAME = 100
"""In bytes: file systems allow 255, and endings and temporary names are added."""
_FORBIDDEN = re.compile(r"""[/\\:*?"<>|]|[^ -~\w]|^[ .-]|[ .]$""")
_RESERVED = re.compile(r"(file|allow_pickle|con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""Names of arguments of `numpy.savez`, and of devices."""


def file_name(what: str, name: str) -> str:
    """`name` if a file can be called that on every system, else an error."""
    if not isinstance(name, str):
        raise UserError(f"the name of {what} must be a string, not {name!r:.80}")
    if not name or _FORBIDDEN.search(name) or _RESERVED.fullmatch(name) or len(name.encode()) > LONGEST_NAME:
        raise UserError(
            f"{what} cannot be called '{name}': files are named after it",
            f"use at most {LONGEST_NAME} letters, digits, spaces, '.', '_' and '-', a letter or a digit first",
        )
    return name
