"""Run many cases and say which went wrong: `python -m tests.fuzz --cases 5000 --seed 1`."""

from __future__ import annotations

import argparse
import sys
from itertools import islice, product

from .doors import DOORS, prepare
from .harness import Outcome, run_case


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="over all doors together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--door", choices=DOORS, action="append", help="only this one; repeatable")
    parser.add_argument("--case", type=int, help="only the case of this number")
    given = parser.parse_args()
    prepare()
    doors = given.door or list(DOORS)
    numbers = range(given.cases) if given.case is None else [given.case]
    cases = list(islice(product(numbers, doors), given.cases))
    bad = 0
    for number, door in cases:
        outcome: Outcome = run_case(door, DOORS[door], number, given.seed)
        if outcome.problem or given.case is not None:
            bad += outcome.problem is not None
            print(outcome, flush=True)
    print(f"{len(cases):,} cases, {bad} of them bad")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
