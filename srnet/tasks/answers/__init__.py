"""Kinds of answers (classes, numbers, spans), one file each, with everything that depends on them."""

from srnet.tasks.answers.base import ANSWERS, METRICS, AnswerKind, Measure, get_answer, register
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.answers.numbers import NUMBERS
from srnet.tasks.answers.spans import SPANS

__all__ = ["ANSWERS", "CLASSES", "METRICS", "NUMBERS", "SPANS", "AnswerKind", "Measure", "get_answer", "register"]
