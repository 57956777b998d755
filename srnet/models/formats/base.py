"""What a model can leave as: one class a format, registered once. Its fields are its command-line options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from srnet.core.errors import choose
from srnet.core.files import require_new
from srnet.masks.granularity import Granularity
from srnet.models.exported import Exported, Kind
from srnet.models.formats.card import About
from srnet.models.heads import token_ids
from srnet.tasks.base import Task

if TYPE_CHECKING:
    from srnet.models.backbones import LoadedBackbone
    from srnet.models.subnetwork import Subnetwork


@dataclass(frozen=True)
class Source:
    """A model that leaves, and what is known about it."""

    subnetwork: Subnetwork
    backbone: str | None = None
    """Where the backbone lies, if not where the subnetwork says."""
    about: About = field(default_factory=About)
    task: Task | None = None
    """Its data, if they are at hand: what is exported can be scored on them."""

    @property
    def max_length(self) -> int:
        """Where texts are cut."""
        return self.subnetwork.max_length or 128

    def base(self) -> LoadedBackbone:
        """With a tokenizer that truncates as it did in training, where that is known."""
        base = self.subnetwork.base(self.backbone)
        if self.subnetwork.max_length is not None:
            base.tokenizer.model_max_length = base.max_length(self.max_length)
        return base

    def exported(self, kind: Kind, base: LoadedBackbone) -> Exported:
        """The facts for the card of a folder."""
        head = self.subnetwork.head
        ids = tuple(token_ids(head.words, base.tokenizer)) if head.words else ()
        length, inputs = base.max_length(self.max_length), tuple(base.tokenizer.model_input_names)
        return Exported(kind, self.subnetwork.labels, head, ids, length, inputs, self.subnetwork.sparsity)


@dataclass(frozen=True)
class Format(ABC):
    """A way to write a model. Subclasses register themselves under `name`."""

    name: ClassVar[str]
    is_file: ClassVar[bool] = False
    """Whether it writes one file, not a folder."""

    def check(self, granularity: Granularity) -> None:
        """Refuse, before anything is trained for it, masks of a granularity that this format cannot hold."""
        return

    @abstractmethod
    def write(self, source: Source, out: Path) -> list[str]:
        """Write what is new, whole or not at all, and say what one should know about it."""


FORMATS: dict[str, type[Format]] = {}
F = TypeVar("F", bound=type[Format])


def register(format: F) -> F:
    FORMATS[format.name] = format
    return format


def get_format(name: str) -> type[Format]:
    return FORMATS[choose("format", name, FORMATS)]


def write(format: Format, source: Source, out: Path) -> list[str]:
    """Refuses to overwrite anything."""
    return format.write(source, out if format.is_file else require_new(out))
