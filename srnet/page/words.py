"""Which words two texts share."""

from __future__ import annotations

import re
from dataclasses import dataclass

from srnet.audit import word_overlap
from srnet.bias.words import words

SHOWN = 500
"""Words of a text that are shown with marks."""
_WORD = re.compile(r"\w+")
Pieces = list[tuple[str, bool]]
"""Parts of a text, in order, and whether each is a word that the other text has too."""


@dataclass(frozen=True)
class Overlap:
    """How the words of the second text occur in the first."""

    share: float
    """As the bias model counts: of the second text's words, those that the first has."""
    words: int
    inside: int
    a: Pieces
    b: Pieces
    left_a: int
    left_b: int
    """Words at the end of a text that are not shown."""


def overlap_of(text_a: str, text_b: str) -> Overlap:
    own_a, own_b = words(text_a), words(text_b)
    inside = sum(map(set(own_a).__contains__, own_b))
    (a, left_a), (b, left_b) = marked(text_a, set(own_b)), marked(text_b, set(own_a))
    return Overlap(float(word_overlap([text_a], [text_b])[0]), len(own_b), inside, a, b, left_a, left_b)


def marked(text: str, other: set[str], most: int = SHOWN) -> tuple[Pieces, int]:
    """The beginning of the text with the words of `other` marked, and how many words are left out."""
    pieces: Pieces = []
    found, start = list(_WORD.finditer(text)), 0
    for word in found[:most]:
        own = words(word.group())  # none or several for the few letters that lower case takes apart
        if own and other.issuperset(own):
            pieces += [(text[start : word.start()], False), (word.group(), True)]
            start = word.end()
    end = found[most].start() if len(found) > most else len(text)
    pieces.append((text[start:end], False))
    return [piece for piece in pieces if piece[0]], max(0, len(found) - most)
