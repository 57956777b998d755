"""`python -m srnet`, also for torchrun: `torchrun --nproc-per-node 2 -m srnet reproduce ...`."""

from srnet.cli import main

if __name__ == "__main__":
    main()
