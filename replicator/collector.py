"""Python's cyclic garbage collector, set for a coordinator of many nodes.

What it holds for each node are small tuples and dictionaries without cycles: a million of them for
10,000 nodes. With Python's defaults all of them are looked at again and again while they come in,
so that the cost per node grows with the number of nodes.
"""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (50_000, 50, 100)
"""New objects before a look at the youngest; looks at those before one at the older, the oldest."""


def calm() -> None:
    """Leave what is there now alone for good, and look at the rest more rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
