"""Features of the user's own, in a file; `srnet.shortcut_from` writes one from a Python function."""

from __future__ import annotations

from pathlib import Path

from srnet.bias.given import Given, check_rows, file_hash, read_given
from srnet.bias.numbers import LARGEST, beyond
from srnet.bias.shortcuts.base import FeatureOptions, Features, ShortcutKind, register
from srnet.core.errors import UserError
from srnet.tasks.base import Task


@register
class OwnFeatures(ShortcutKind):
    """A table with a column `split` and one for each feature, or an .npz file with one array for each split."""

    name = "features"
    about = "features of your own"
    sentence = "The suspected shortcut is in features of the user's own."
    noun = "what your own features tell"
    argument = "FILE"
    of_texts = False

    def files(self, argument: str) -> tuple[str, ...]:
        return (argument,)

    def problem(self, task: Task, argument: str) -> str | None:
        given = _checked(task, argument)
        missing = [name for name in task.splits if name not in given.by_split]
        return f"{argument} has no features for {missing[0]}" if missing else None

    def fit(self, task: Task, argument: str, options: FeatureOptions) -> Features:
        given = _checked(task, argument)
        width = given.by_split[task.train.name].shape[1]
        names = given.names or tuple(f"feature {n}" for n in range(1, width + 1))
        return Features(names, lambda split: given.by_split[split.name])

    def identity(self, task: Task, argument: str) -> str:
        return f"{self.name}@{file_hash(argument)}"

    def described(self, argument: str, vectors: str | None, extended: bool) -> str:
        return f"features of {Path(argument).name}"


def _checked(task: Task, path: str) -> Given:
    """The features of every split, each with the same columns and a usable number in every place."""
    given = read_given(task, path)
    arrays = {name: each[:, None] if each.ndim == 1 else each for name, each in given.by_split.items()}
    shapes = {each.shape[1:] for each in arrays.values()}
    if len(shapes) > 1 or any(len(shape) != 1 or not shape[0] for shape in shapes):
        raise UserError(f"{path}: the features of its splits have the shapes {sorted(shapes)}", "give rows x features")
    for name, each in arrays.items():
        check_rows(path, task.splits[name], each)
        if (wrong := beyond(each)).any():
            where = f"{path}, {name}, example '{task.splits[name].ids[int(wrong.argmax())]}'"
            raise UserError(f"{where}: a feature is not finite, or {LARGEST:g} or more", "replace it")
    return Given(given.names, arrays)
