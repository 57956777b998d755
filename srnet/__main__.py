"""`srnet` and `python -m srnet`, which is also what torchrun starts: `torchrun --nproc-per-node 2 -m srnet ...`."""

import sys

from srnet.core.network import isolate_process

isolate_process()  # before any library is imported
try:
    from srnet.cli.program import main
except KeyboardInterrupt:  # importing takes a while, in which Ctrl-C is no reason for a traceback
    print("stopped; run the same command again to continue", file=sys.stderr)
    sys.exit(130)

if __name__ == "__main__":
    main()
