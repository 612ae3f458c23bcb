"""What each change does to a running cluster: a table with a source per row.

Rows are tried in order; the first that fits a field gives its class. A row with an empty path
speaks of the resource as a whole when it is added, deleted or replaced. A field that no row covers
is ``unknown``, never silently fine.
"""

from __future__ import annotations

from generator.diff.impact_rows.delivery import DELIVERY_ROWS
from generator.diff.impact_rows.kubernetes import CORE_ROWS, META_ROWS, STORAGE_ROWS
from generator.diff.impact_rows.queueing import FLAVOR_ROWS, PRIORITY_ROWS, QUEUE_ROWS
from generator.diff.impact_rows.row import Row
from generator.diff.impact_rows.training import CPC_ROWS, JOBSET_ROWS

TABLE: tuple[Row, ...] = (
    *JOBSET_ROWS,
    *CPC_ROWS,
    *QUEUE_ROWS,
    *FLAVOR_ROWS,
    *PRIORITY_ROWS,
    *STORAGE_ROWS,
    *CORE_ROWS,
    *DELIVERY_ROWS,
    *META_ROWS,
)
"""Every row, in the order in which they are tried."""
