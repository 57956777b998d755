"""The options of an audit, apart from it so that `--help` imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from srnet.config.fields import Described, option
from srnet.config.values import NAMES, Count, MaxLength
from srnet.core.errors import UserError


@dataclass(frozen=True)
class AuditOptions(Described):
    """What an audit looks at beyond the task's own rows, and how models read texts."""

    contrast: bool = option(False, alone=True)
    """Also change rows of ID dev by rules, and count wrong answers to the changed rows."""
    contrast_rows: Count | None = None
    """Rows of ID dev that are changed, the same ones in every audit. Default: 1,000."""
    max_length: MaxLength | None = None
    """Tokens that a pair is cut at. Default: as the model was trained; a model of others reads as much as it can."""
    labels_are: tuple[tuple[str, str], ...] = option((), kind=NAMES)
    """Labels of a model that are called otherwise in the task: LABEL_0=negative,LABEL_1=positive."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contrast_rows is not None and not self.contrast:
            raise UserError("a number of rows to change, and none is changed", "add --contrast")
