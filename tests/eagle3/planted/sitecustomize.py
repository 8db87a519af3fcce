"""On a real server's PYTHONPATH, in tests only: plants a fault in the CPU stack's verify. ``PLANTED`` names it.

accepts-a-wrong-token: of the first forty verifies, which serve the greedy answers, every fifth takes the first draft
token as the target's own.
slow-round: after each round the verify sleeps a tenth of it, while the file that ``PLANTED_WHILE`` names is there.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
import time
from pathlib import Path

FAULT = os.environ.get("PLANTED", "")
#: A longer pause than any round: the server had nothing to do.
IDLE_S = 2.0


def accepts_a_wrong_token(verify):
    calls = 0

    def wrapped(*, candidates, target_predict, **rest):
        nonlocal calls
        calls += 1
        if calls <= 40 and calls % 5 == 0:
            # A chain: node 1 is the first draft.
            target_predict.view(candidates.shape)[:, 0] = candidates[:, 1]
        verify(candidates=candidates, target_predict=target_predict, **rest)

    return wrapped


def slow_round(verify):
    ended = 0.0

    def wrapped(**tree):
        nonlocal ended
        verify(**tree)
        round_s = time.monotonic() - ended
        if round_s < IDLE_S and Path(os.environ["PLANTED_WHILE"]).exists():
            time.sleep(0.1 * round_s)
        ended = time.monotonic()

    return wrapped


class Finder(importlib.abc.MetaPathFinder):
    """Lets the stack's own finder find ``sgl_kernel``, and wraps its verify once it is loaded."""

    def find_spec(self, name, path, target=None):
        if name != "sgl_kernel":
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next(found for found in others if found is not None)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            plant = {"accepts-a-wrong-token": accepts_a_wrong_token, "slow-round": slow_round}[FAULT]
            module.verify_tree_greedy_cpu = plant(module.verify_tree_greedy_cpu)
            # Its parent learns from the log that the fault is in: a control that planted nothing proves nothing.
            print(f"planted: {FAULT}", flush=True)

        spec.loader.exec_module = exec_module
        return spec


if FAULT:
    sys.meta_path.insert(0, Finder())
