"""The exception for errors that a user can correct."""

LONGEST = 600
"""Characters of a problem or a fix. Both quote the input, which may be a megabyte."""


class UserError(Exception):
    """An error that the user can correct. The message is one line: what is wrong, where, and the fix."""

    def __init__(self, problem: str, fix: str | None = None) -> None:
        super().__init__("; ".join(shortened(part) for part in (problem, fix) if part is not None))


def shortened(text: str, longest: int = LONGEST) -> str:
    """`text` on one line, without control characters, and without its middle where it is too long."""
    half = longest // 2
    text = text if len(text) <= longest else f"{text[:half]} ... {text[-half:]}"
    return "".join(each if each.isprintable() else " " if each.isspace() else "\ufffd" for each in text)


def choose(kind: str, name: str, known: object) -> str:
    """`name` if it is one of `known`, else an error that lists them."""
    names = sorted(str(each) for each in known)  # type: ignore[attr-defined]
    if name not in names:
        raise UserError(f"unknown {kind} '{name}'", f"choose one of: {', '.join(names)}")
    return name
