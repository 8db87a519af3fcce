"""Does what one GPU writes to another arrive? Every ordered pair, by the copy engine and by a kernel's own accesses.

    python probe_peers.py --out FILE --devices N

Capability bits lie: with ACS and a translating IOMMU "can access" is true and the data is lost. A copy alone does not
settle it either, as the driver may stage it through the host; custom all-reduce stores from its kernels. So a Triton
kernel on one device writes to and reads from the other's memory, and the bytes are compared where they belong.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import probe_common
import torch
import triton
import triton.language as tl

_ELEMENTS = 1 << 22  # 16 MiB of int32
_SPEED_ELEMENTS = 1 << 26  # 256 MiB
_SPEED_REPEATS = 8
_SMALL_REPEATS = 200


@triton.jit  # type: ignore[untyped-decorator]
def _copy_kernel(source, target, count, block: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    mask = offsets < count
    tl.store(target + offsets, tl.load(source + offsets, mask=mask), mask=mask)


def main() -> None:
    """Try all pairs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--devices", type=int, required=True)
    args = parser.parse_args()
    probe_common.die_with_parent()
    result: dict[str, Any] = {"torch": torch.__version__, "pairs": {}}
    for source in range(args.devices):
        for target in range(args.devices):
            if source == target:
                continue
            pair: dict[str, Any] = {"error": None, "can_access": torch.cuda.can_device_access_peer(source, target)}
            try:
                _verify(source, target, pair)
                _time(source, target, pair)
            except Exception as error:  # whatever it is, it is the answer
                pair["error"] = probe_common.text_of(error)
            result["pairs"][f"{source}>{target}"] = pair
            probe_common.write(args.out, result)
    probe_common.finish()


def _pattern(device: int, seed: int) -> torch.Tensor:
    # Every word differs from its neighbours and from run to run: stale data cannot look right.
    return torch.arange(_ELEMENTS, dtype=torch.int32, device=f"cuda:{device}") * 2654435 + seed


def _wrong_bytes(found: torch.Tensor, seed: int) -> int:
    """Compared on the CPU against what it computes itself: nothing of the path in question is trusted."""
    expected = torch.arange(_ELEMENTS, dtype=torch.int32) * 2654435 + seed
    return int((found.cpu() != expected).sum().item()) * 4


def _verify(source: int, target: int, pair: dict[str, Any]) -> None:
    seed = 1000 * source + target + 1
    sent, received = _pattern(source, seed), torch.zeros(_ELEMENTS, dtype=torch.int32, device=f"cuda:{target}")
    # The first copy between two devices also makes torch enable peer access, without which the kernels below fault.
    received.copy_(sent)
    _synchronize(source, target)
    pair["copy"] = _wrong_bytes(received, seed)
    if not pair["can_access"]:
        return
    received.zero_()
    _synchronize(source, target)
    _launch(source, sent, received)
    _synchronize(source, target)
    pair["kernel_write"] = _wrong_bytes(received, seed)
    # The other way round on the same pair: the target's data read by a kernel on the source.
    there, here = _pattern(target, seed + 7), torch.zeros(_ELEMENTS, dtype=torch.int32, device=f"cuda:{source}")
    _synchronize(source, target)
    _launch(source, there, here)
    _synchronize(source, target)
    pair["kernel_read"] = _wrong_bytes(here, seed + 7)


def _launch(device: int, source: torch.Tensor, target: torch.Tensor) -> None:
    block = 1024
    with torch.cuda.device(device):
        _copy_kernel[(triton.cdiv(_ELEMENTS, block),)](source, target, _ELEMENTS, block=block)


def _synchronize(*devices: int) -> None:
    for device in devices:
        torch.cuda.synchronize(device)


def _time(source: int, target: int, pair: dict[str, Any]) -> None:
    large = torch.zeros(_SPEED_ELEMENTS, dtype=torch.int32, device=f"cuda:{source}")
    there = torch.empty_like(large, device=f"cuda:{target}")
    seconds = _seconds(source, target, large, there, _SPEED_REPEATS)
    pair["gb_per_s"] = round(large.numel() * 4 / seconds / 1e9, 2)
    # One at a time, launch included: what a small message costs at least.
    small, small_there = large[:2], there[:2]
    pair["small_copy_us"] = round(_seconds(source, target, small, small_there, _SMALL_REPEATS) * 1e6, 2)


def _seconds(source: int, target: int, sent: torch.Tensor, received: torch.Tensor, repeats: int) -> float:
    """Seconds of one copy, the mean over ``repeats`` that are queued together."""
    received.copy_(sent)
    _synchronize(source, target)
    begun = time.perf_counter()
    for _ in range(repeats):
        received.copy_(sent)
    _synchronize(source, target)
    return (time.perf_counter() - begun) / repeats


if __name__ == "__main__":
    main()
