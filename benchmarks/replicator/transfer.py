"""Replication, backup and restore against plain copies; the table in docs/replicator.md.

Run: python benchmarks/replicator/transfer.py [--nodes 2 4] [--sizes 64Mi 512Mi] [--rounds 5]
(the same as `stowplan-replicator bench`).
"""

import sys

from replicator.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
