"""`srnet` and `python -m srnet`, which is also what torchrun starts: `torchrun --nproc-per-node 2 -m srnet ...`."""

import sys

from srnet.core.network import isolate_process


def main() -> None:
    isolate_process()
    try:
        from srnet.cli.program import main as run  # takes a while, in which Ctrl-C is no reason for a traceback

        run()
    except KeyboardInterrupt:
        print("stopped; run the same command again to continue", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
