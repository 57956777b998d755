"""Run many cases and say which went wrong: `python -m tests.fuzz --cases 5000 --seed 1`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from itertools import islice, product

from .doors import DOORS, EVERY, prepare
from .harness import hostile, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="over all doors together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each door")
    parser.add_argument("--door", choices=DOORS, action="append", help="only this one; repeatable")
    parser.add_argument("--case", type=int, help="only the case of this number")
    given = parser.parse_args()
    if failed := prepare():
        sys.exit("\n".join(["what the cases damage is not valid", *failed]))
    doors = given.door or list(DOORS)
    numbers = range(given.first, given.first + given.cases) if given.case is None else [given.case]
    every = {} if given.door or given.case is not None else EVERY
    turns = ((number, door) for number, door in product(numbers, doors) if number % every.get(door, 1) == 0)
    chosen = list(islice(turns, given.cases))
    cases = (hostile(door, DOORS[door], number, given.seed) for number, door in chosen)
    codes: Counter[int] = Counter()
    bad, started = 0, time.monotonic()
    for outcome in run(cases):
        codes[outcome.code] += 1
        if outcome.problem or given.case is not None:
            bad += outcome.problem is not None
            print(outcome, flush=True)
        if codes.total() % 100 == 0:
            print(f"{codes.total()} cases, {bad} of them bad", file=sys.stderr, flush=True)
    ended = ", ".join(f"{count} with exit code {code}" for code, count in sorted(codes.items()))
    print(f"{len(chosen)} cases, {bad} of them bad ({ended}; {time.monotonic() - started:.0f} s)")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
