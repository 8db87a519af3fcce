"""Does this torch run a kernel on every device, with the right result? Then all devices work together for a while.

    python probe_kernels.py --out FILE --devices N [--load-s SECONDS]

``--devices 0`` means the CPU. A product of small whole numbers is exact in float32 and bfloat16: every element must
be right. The load is what the suite watches clocks, heat and links under.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import probe_common
import torch

_SIZE = 384
_LOAD_SIZE = 8192


def main() -> None:
    """Run on each device, then load all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--devices", type=int, required=True)
    parser.add_argument("--load-s", type=float, default=0)
    args = parser.parse_args()
    probe_common.die_with_parent()
    devices = [f"cuda:{index}" for index in range(args.devices)] or ["cpu"]
    result: dict[str, Any] = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "arches": torch.cuda.get_arch_list() if args.devices else [],
        "devices": {},
    }
    for device in devices:
        result["devices"][device] = _try(device)
        probe_common.write(args.out, result)
    if args.load_s and all(answer["error"] is None for answer in result["devices"].values()):
        _load(devices, args.load_s)
    probe_common.finish()


def _try(device: str) -> dict[str, Any]:
    try:
        wrong = sum(_wrong_elements(device, dtype) for dtype in (torch.float32, torch.bfloat16))
    except Exception as error:  # whatever it is, it is the answer
        return {"error": probe_common.text_of(error), "wrong_elements": None}
    return {"error": None, "wrong_elements": wrong}


def _wrong_elements(device: str, dtype: torch.dtype) -> int:
    # Rows and columns of -1, 0, 1: the sums are 0 or 256, which bfloat16 still holds exactly.
    row = (torch.arange(_SIZE, device=device) % 3 - 1).to(dtype)
    left = row.repeat(_SIZE, 1)
    right = row.unsqueeze(1).repeat(1, _SIZE) * ((torch.arange(_SIZE, device=device) % 2).to(dtype))
    product = left @ right
    squares = int((row.float() * row.float()).sum().item())
    expected = torch.full((_SIZE, _SIZE), float(squares)) * (torch.arange(_SIZE) % 2).float()
    return int((product.float().cpu() != expected.to(dtype).float()).sum().item())


def _load(devices: list[str], seconds: float) -> None:
    tensors = [torch.ones(_LOAD_SIZE, _LOAD_SIZE, dtype=torch.bfloat16, device=device) for device in devices]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for tensor in tensors:
            for _ in range(8):
                tensor @ tensor
        # In step with the devices, or the queue would go on long after the time is over.
        for device in devices:
            torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
