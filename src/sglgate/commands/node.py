"""``sglgate node``: who has this machine, who waits for it, and whether the last one left it clean."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

EXAMPLE = """examples:
  sglgate node                                    who holds the machine and its GPUs, and who waits
  sglgate node --end-leftovers                    after a job that was killed
  sglgate node --out-of-service /var/lib/sglgate/out-of-service    a dirty machine gets no further job"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "node",
        help="who has this machine, who waits, is it clean",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--end-leftovers", action="store_true", help="kill what an earlier run's servers left")
    parser.add_argument("--out-of-service", type=Path, metavar="FILE", help="there while the machine is dirty")
    parser.add_argument(
        "--gpu-tolerance-mib", type=int, default=1024, help="what a driver may hold on an idle GPU (default: 1024)"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 on a clean machine or one with a run that goes on, 3 on a dirty one."""
    from sglgate.dirt import end_leftovers, find_dirt, mark_out_of_service
    from sglgate.errors import ExitCode
    from sglgate.launch.grounds import read_leases
    from sglgate.launch.node_lock import default_lock_file, node_queue
    from sglgate.launch.seats import Seat

    ended = end_leftovers() if args.end_leftovers else []
    holder, waiting = Seat(default_lock_file()).holder(), node_queue(default_lock_file()).waiting()
    leases, lease_queue = read_leases()
    dirt = find_dirt(args.gpu_tolerance_mib)
    if args.out_of_service is not None:
        mark_out_of_service(args.out_of_service, dirt)
    if args.json:
        print(
            json.dumps(
                {
                    "holder": _data(holder),
                    "waiting": [_data(person) for person in waiting],
                    "leases": {slot: _data(person) for slot, person in leases.items()},
                    "waiting_for_leases": [_data(person) for person in lease_queue],
                    "ended": ended,
                    "dirt": dirt,
                }
            )
        )
        return int(ExitCode.UNFIT if dirt else ExitCode.GREEN)
    print(f"machine   {holder or 'free'}")
    for place, person in enumerate(waiting, 1):
        print(f"  {place}. waits  {person}")
    for slot, lessee in leases.items():
        print(f"{slot:<9} {lessee}")
    for place, person in enumerate(lease_queue, 1):
        print(f"  {place}. waits for slots  {person}")
    for line in ended:
        print(f"ended     {line}")
    for line in dirt:
        print(f"dirty     {line}")
    if not dirt:
        print("clean")
    return int(ExitCode.UNFIT if dirt else ExitCode.GREEN)


def _data(person: Any) -> Any:
    return dataclasses.asdict(person) if dataclasses.is_dataclass(person) and not isinstance(person, type) else person
