"""One rank: build the groups, say so, then answer commands until told to quit or the suite is gone."""

from __future__ import annotations

import argparse
import json
import os
import traceback
from collections.abc import Sequence
from typing import Any

from .channel import Channel


def main(argv: Sequence[str] | None = None) -> int:
    """Run one rank; the suite reads stdout, the log is stderr."""
    parser = argparse.ArgumentParser(prog="sglgate all-reduce worker", description=__doc__)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--init-method", required=True)
    parser.add_argument("--timeout-s", type=int, required=True)
    parser.add_argument("--settings", type=json.loads, default={})
    args = parser.parse_args(argv)
    channel = Channel(args.rank)
    try:
        rank = _Rank(args)
    except BaseException as error:
        channel.send(id=0, ok=False, error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        return 1
    channel.send(id=0, ok=True, result=rank.describe())
    channel.serve(
        {
            "prepare": rank.prepare,
            "engaged": rank.engaged,
            "exact": rank.exact,
            "time": rank.time,
        }
    )
    # Not a return: groups and their threads are torn down by the end of the process, which cannot hang.
    os._exit(0)


class _Rank:
    def __init__(self, args: argparse.Namespace) -> None:
        # Imported only now: whatever torch or sglang print or raise is already caught by the channel.
        from . import groups, seam

        self._seam = seam.make_seam(args.device, args.rank)
        self._world = groups.build(
            self._seam,
            rank=args.rank,
            world_size=args.world_size,
            init_method=args.init_method,
            timeout_s=args.timeout_s,
            settings=args.settings,
        )

    def describe(self) -> dict[str, Any]:
        import sglang
        import torch

        from . import groups

        return {
            "pid": os.getpid(),
            "sglang": sglang.__version__,
            "torch": torch.__version__,
            "graphs": self._seam.graphs,
            **groups.describe(self._world),
        }

    def prepare(self, *, hidden: int, max_rows: int) -> dict[str, Any]:
        from . import groups

        groups.prepare(self._world, hidden=hidden, max_rows=max_rows)
        return groups.describe(self._world)

    def engaged(
        self, *, cases: list[dict[str, Any]], mode: str, fault: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Per ``{"dtype", "shape"}``: the leaves entered and the kernels that ran, in one profiled call."""
        import torch

        from . import faults, inputs, observe
        from .seam import symmetric_allocation

        coordinator, answers = self._world.tensor_parallel, []
        symmetric = self._world.symmetric_memory
        with faults.planted(coordinator, fault):
            for case in cases:
                with symmetric_allocation(coordinator, symmetric):
                    tensor = torch.zeros(case["shape"], dtype=inputs.DTYPES[case["dtype"]], device=self._seam.device)

                def call(tensor: torch.Tensor = tensor) -> Any:
                    return coordinator.all_reduce(tensor)

                with observe.leaves(coordinator, symmetric_memory=symmetric) as entered:
                    work = self._seam.capture(call).replay if mode == "graph" else call
                    names = observe.kernels(self._seam, work)
                answers.append({**case, "mode": mode, "leaves": sorted(set(entered)), "kernels": names})
        return answers

    def exact(self, *, cases: list[dict[str, Any]], fault: dict[str, Any] | None = None) -> dict[str, Any]:
        from . import checks

        return checks.run(self._world, self._seam, cases, fault)

    def time(self, *, fault: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        from . import timing

        return timing.run(self._world, self._seam, fault=fault, **arguments)
