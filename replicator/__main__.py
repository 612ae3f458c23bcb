"""`python -m replicator` is `stowplan-replicator`."""

from __future__ import annotations

import sys

from replicator.console import main

sys.exit(main())
