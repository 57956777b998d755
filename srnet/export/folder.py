"""The subnetwork itself as a folder: only what the backbone lacks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from srnet.export.card import write_card
from srnet.export.formats import Format, Source, register
from srnet.export.rounding import EXACT, logits_moved, sample_of
from srnet.files import new_folder

LOAD = """
import srnet

model = srnet.load_subnetwork("DIR")  # this folder; backbone="..." is the backbone's location, if it has moved
"""


@register
@dataclass(frozen=True)
class SubnetworkFolder(Format):
    """Only what the backbone lacks: the coded mask, the head and the differences, for load_subnetwork and MaskBank."""

    name = "subnetwork"
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """Of the differences from the backbone: float32 is exact, the others round them."""

    def write(self, source: Source, out: Path) -> list[str]:
        base, lines, fields = source.base(), list[str](), dict[str, Any]()
        if self.dtype != EXACT:
            sample = sample_of(source.task, base, source.max_length)
            rounded = source.subnetwork.rounded(base, self.dtype)
            moved = logits_moved(source.subnetwork, rounded, source.base, sample)
            fields["logits_moved"] = {"by": moved, "on": sample.name}
            lines.append(f"stored as {self.dtype}: logits move by at most {moved:.2g} ({sample.name})")
        with new_folder(out) as staging:
            source.subnetwork.write_coded_into(staging, base, self.dtype, **fields)
            write_card(staging, source.subnetwork, source.about.with_remarks(lines), self.name, LOAD)
        return lines
