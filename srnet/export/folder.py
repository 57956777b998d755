"""The subnetwork itself as a folder: mask bits, head, and what differs from the backbone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from srnet.export.card import write_card
from srnet.export.formats import Format, Source, register
from srnet.files import new_folder

LOAD = """
import srnet

model = srnet.load_subnetwork("DIR")  # this folder; backbone="..." says where the backbone lies
"""


@register
@dataclass(frozen=True)
class SubnetworkFolder(Format):
    """Mask bits, head and what differs from the backbone: far smaller. srnet.load_subnetwork reads it."""

    name = "subnetwork"

    def write(self, source: Source, out: Path) -> list[str]:
        with new_folder(out) as staging:
            source.subnetwork.write_into(staging)
            write_card(staging, source.subnetwork, source.about, self.name, LOAD)
        return []
