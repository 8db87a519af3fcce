"""What past runs measured: SQLite beside the runs, or PostgreSQL for a fleet. Nothing here decides a verdict."""

from sglgate.store.aa import aa_history, recorded_noise
from sglgate.store.baselines import NoBaselineError, Pin, baseline, pin, pins, story
from sglgate.store.database import Store, StoreError, default_store
from sglgate.store.importing import Outcome, import_run, node_digest, remember
from sglgate.store.queries import Filter, ResultRow, RunRow, board, records, results, runs, trend

__all__ = [
    "Filter",
    "NoBaselineError",
    "Outcome",
    "Pin",
    "ResultRow",
    "RunRow",
    "Store",
    "StoreError",
    "aa_history",
    "baseline",
    "board",
    "default_store",
    "import_run",
    "node_digest",
    "pin",
    "pins",
    "recorded_noise",
    "records",
    "remember",
    "results",
    "runs",
    "story",
    "trend",
]
