"""Formats that a model is written in and read from: one class and one file each, registered once.

The fields of a format are its command-line options. A folder of a format has a manifest whose `kind` is the format's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from srnet.config.fields import Described
from srnet.core.errors import choose
from srnet.masks.granularity import Granularity
from srnet.models.exported import Exported
from srnet.models.formats.card import About
from srnet.models.heads import token_ids
from srnet.models.model import OpenModel
from srnet.tasks.base import Task

if TYPE_CHECKING:
    from srnet.models.backbones import LoadedBackbone
    from srnet.models.subnetwork import Subnetwork


@dataclass(frozen=True)
class Source:
    """A model that is exported, and what is known about it."""

    subnetwork: Subnetwork
    loaded: LoadedBackbone | None = None
    """Its backbone, if it is in memory already."""
    about: About = field(default_factory=About)
    task: Task | None = None
    """Its data, if they are available: what is exported can be scored on them."""

    @property
    def max_length(self) -> int:
        """Tokens at which texts are cut."""
        return self.subnetwork.max_length or 128

    @cached_property
    def base(self) -> LoadedBackbone:
        """The backbone, with a tokenizer that truncates as it did in training, where that is known."""
        base = self.loaded or self.subnetwork.base()
        if self.subnetwork.max_length is not None and not self.subnetwork.head.language:  # which generates longer texts
            base.tokenizer.model_max_length = base.max_length(self.max_length)
        return base

    @property
    def pipeline(self) -> str:
        """The Hub's name for what the model does."""
        return self.subnetwork.head.pipeline(self.base.model.config)

    def exported(self, kind: str) -> Exported:
        """The facts for the manifest of a folder."""
        head, base = self.subnetwork.head, self.base
        return Exported(
            kind,
            self.subnetwork.labels,
            label_words=head.words,
            label_word_ids=tuple(token_ids(head.words, base.tokenizer)),
            per_token=head.per_token,
            as_is=head.as_is,
            language=head.language,
            max_length=base.max_length(self.max_length),
            inputs=tuple(base.tokenizer.model_input_names),
            sparsity=self.subnetwork.sparsity,
        )


@dataclass(frozen=True)
class Format(Described, ABC):
    """A way to write a model, and to read it again. Subclasses register themselves under `name`."""

    name: ClassVar[str]
    kind: ClassVar[str] = ""
    """In the manifest of its folders; none for a format that cannot be read as a model."""
    is_file: ClassVar[bool] = False
    """Whether it writes one file, not a folder."""

    def check(self, granularity: Granularity) -> None:
        """Refuse, before anything is trained for it, masks of a granularity that this format cannot hold."""
        return

    @abstractmethod
    def write(self, source: Source, out: Path) -> list[str]:
        """Write what is new, whole or not at all, and return remarks on it."""

    @classmethod
    def read(cls, folder: Path) -> OpenModel:
        """The model of a folder of this kind."""
        raise NotImplementedError


FORMATS: dict[str, type[Format]] = {}
F = TypeVar("F", bound=type[Format])


def register(format: F) -> F:
    FORMATS[format.name] = format
    return format


def get_format(name: str) -> type[Format]:
    return FORMATS[choose("format", name, FORMATS)]
