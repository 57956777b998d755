"""The one exception a user is meant to read."""


class UserError(Exception):
    """Something the user can mend. The message is one line: what is wrong, where, and the fix."""

    def __init__(self, problem: str, fix: str | None = None) -> None:
        super().__init__(problem if fix is None else f"{problem}; {fix}")


def choose(kind: str, name: str, known: object) -> str:
    """`name` if it is one of `known`, else an error that lists what is."""
    names = sorted(str(each) for each in known)  # type: ignore[attr-defined]
    if name not in names:
        raise UserError(f"unknown {kind} '{name}'", f"choose one of: {', '.join(names)}")
    return name
