"""The words of the embedded benchmark.

Every concept has two surface words that mean the same thing here, so that a sentence can be restated
without sharing its words. Past tense and participle coincide for every transitive verb, so that the
active and the passive of one event share their verb.
"""

PEOPLE = (
    ("doctor", "physician"),
    ("lawyer", "attorney"),
    ("teacher", "instructor"),
    ("writer", "author"),
    ("singer", "vocalist"),
    ("student", "pupil"),
    ("sailor", "mariner"),
    ("thief", "burglar"),
    ("guard", "sentry"),
    ("pilot", "aviator"),
    ("actor", "performer"),
    ("farmer", "grower"),
)

# Asymmetric relations: if A did this to B, then B did not do it to A. Claims with exchanged roles are refuted.
CONTEST_VERBS = (
    ("defeated", "conquered"),
    ("outpaced", "outraced"),
    ("outlived", "survived"),
    ("hired", "employed"),
    ("trailed", "followed"),
    ("outscored", "outpointed"),
)

TRANSITIVE_VERBS = (
    *CONTEST_VERBS,
    ("praised", "applauded"),
    ("thanked", "acknowledged"),
    ("helped", "assisted"),
    ("noticed", "spotted"),
    ("blamed", "accused"),
    ("warned", "cautioned"),
)

INTRANSITIVE_VERBS = (
    ("slept", "dozed"),
    ("danced", "waltzed"),
    ("laughed", "giggled"),
    ("left", "departed"),
    ("shouted", "yelled"),
    ("waited", "lingered"),
)

PLACES = ("garden", "market", "station", "library", "harbor", "museum")
TIMES = ("yesterday", "today", "recently", "finally")

# Openings of a claim. None of them changes its content; each label favours one row.
CLAIM_OPENINGS = (
    ("indeed", "truly", "clearly", "plainly"),
    ("supposedly", "allegedly", "ostensibly", "reputedly"),
    ("perhaps", "possibly", "maybe", "conceivably"),
)

FUNCTION_WORDS = ("the", "was", "by", "it", "who", "whom", "and", "in", "near", "if", "because", "while", ",", ".")


def vocabulary() -> list[str]:
    """Every word the grammar can write, in a fixed order."""
    pairs = PEOPLE + TRANSITIVE_VERBS + INTRANSITIVE_VERBS
    openings = tuple(word for row in CLAIM_OPENINGS for word in row)
    return [*FUNCTION_WORDS, *(word for pair in pairs for word in pair), *PLACES, *TIMES, *openings]
