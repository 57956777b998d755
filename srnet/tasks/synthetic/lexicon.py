"""The words of the embedded benchmark.

Every concept has two words that mean the same thing here, so that a sentence can be restated without sharing its
words. Past tense and participle coincide for every transitive verb, so that the active and the passive of one event
share their verb.
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

# Asymmetric relations: if A did this to B, then B did not do it to A. Claims about them can be refuted.
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

MANNERS = (
    ("recently", "lately"),
    ("finally", "eventually"),
    ("often", "frequently"),
    ("suddenly", "abruptly"),
    ("secretly", "covertly"),
    ("openly", "publicly"),
)

# Words without a synonym, for what a sentence says beside its event.
INTRANSITIVE_VERBS = ("slept", "danced", "laughed", "left", "shouted", "waited")
QUALITIES = ("old", "tall", "rich", "calm", "clever", "angry")

# Openings of a claim. None of them changes what the claim says. A cue points at a label by a word of that label's row,
# the second word more strongly than the first; a plain opening points nowhere.
PLAIN_OPENINGS = ("today", "here", "meanwhile")
CUE_OPENINGS = (("indeed", "truly"), ("supposedly", "allegedly"), ("perhaps", "possibly"))

FUNCTION_WORDS = ("the", "was", "by", "it", "who", "whom", "while", ",")
SYNONYMS = PEOPLE + TRANSITIVE_VERBS + MANNERS


def vocabulary() -> list[str]:
    """Every word the grammar can write, in a fixed order."""
    cues = (word for row in CUE_OPENINGS for word in row)
    words = (word for pair in SYNONYMS for word in pair)
    return [*FUNCTION_WORDS, *words, *INTRANSITIVE_VERBS, *QUALITIES, *PLAIN_OPENINGS, *cues]
