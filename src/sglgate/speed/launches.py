"""One figure out of several launches of one server, with the interval that launches give it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from sglgate.load.stats import Estimate

_LEVEL = 0.95


def over_launches(values: Sequence[float]) -> Estimate:
    """Geometric mean of one positive value a launch, with its 95 % t interval of logarithms.

    Requests of one launch are no samples of the release: what a launch settles (where its threads and pages lie) stays
    for all of them.
    """
    # Deferred: a collection must not pay for scipy.
    from scipy.special import stdtrit

    logs = [math.log(value) for value in values]
    middle, n = fmean(logs), len(logs)
    reach = float(stdtrit(n - 1, 0.5 + _LEVEL / 2)) * stdev(logs) / math.sqrt(n)
    return Estimate(math.exp(middle), (math.exp(middle - reach), math.exp(middle + reach)), n)
