"""What differs between a CUDA device and a CPU: timers, graphs, streams, delays. Nothing else may ask.

A CPU has no graphs. Its seam *records*: ``capture`` keeps the call and its fixed buffers, ``replay`` makes
the same call on them again. That exercises every line above the seam, and the rule that a replay must read
what lies in the buffers now; it says nothing about CUDA graphs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
import torch.distributed as dist

Call = Callable[[], Any]


class Recorded(Protocol):
    """A captured call: ``replay()`` runs it again and returns what it writes to."""

    def replay(self) -> Any:
        """Run the recorded work once more on the same buffers."""


class Seam(Protocol):
    """One device's way of doing what both can do."""

    backend: str
    device: torch.device
    graphs: str

    def synchronize(self) -> None:
        """Wait until all work given to the device is done."""

    def barrier(self, coordinator: Any) -> None:
        """Align the ranks as close to the work as the device allows."""

    def elapsed_s(self, call: Call) -> float:
        """Seconds that ``call``'s work took on the device."""

    def capture(self, call: Call) -> Recorded:
        """Record ``call`` for replay."""

    def delay(self, seconds: float) -> None:
        """Hold this rank back, where the device's queue is, not only the host."""

    def together(self, first: Call, second: Call) -> tuple[Any, Any]:
        """Run two calls so that they may overlap; returns both results."""


class CpuSeam:
    """gloo ranks on one host."""

    backend = "gloo"
    graphs = "recorded calls (a CPU has no graphs)"

    def __init__(self) -> None:
        # Ranks share the cores: a pool of threads in each would only fight over them.
        torch.set_num_threads(1)
        self.device = torch.device("cpu")

    def synchronize(self) -> None:
        """Nothing is queued on a CPU."""

    def barrier(self, coordinator: Any) -> None:
        """gloo's barrier."""
        dist.barrier(group=coordinator.cpu_group)

    def elapsed_s(self, call: Call) -> float:
        """By the host's clock."""
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    def capture(self, call: Call) -> Recorded:
        """Keep the call."""
        return _RecordedCall(call)

    def delay(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def together(self, first: Call, second: Call) -> tuple[Any, Any]:
        """Two threads."""
        results: list[Any] = [None, None]
        errors: list[BaseException] = []

        def run(slot: int, call: Call) -> None:
            try:
                results[slot] = call()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=item) for item in ((0, first), (1, second))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results[0], results[1]


class _RecordedCall:
    def __init__(self, call: Call) -> None:
        self._call = call

    def replay(self) -> Any:
        return self._call()


class CudaSeam:
    """NCCL ranks, one GPU each."""

    backend = "nccl"
    graphs = "CUDA graphs, captured by SGLang's graph_capture"

    def __init__(self, local_rank: int) -> None:
        torch.cuda.set_device(local_rank)
        self.device = torch.device(f"cuda:{local_rank}")
        self._token = torch.zeros(1, device=self.device)

    def synchronize(self) -> None:
        """Wait for all streams of the device."""
        torch.cuda.synchronize()

    def barrier(self, coordinator: Any) -> None:
        """An all-reduce of one element through the baseline, on the stream."""
        # On the stream: a host barrier leaves the ranks as far apart as their launches are.
        dist.all_reduce(self._token, group=coordinator.device_group)

    def elapsed_s(self, call: Call) -> float:
        """By events on the stream."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def capture(self, call: Call) -> Recorded:
        """A CUDA graph, captured as SGLang captures its own."""
        from sglang.srt.distributed.parallel_state import graph_capture

        # Warm up outside graph_capture: inside it, SGLang's custom all-reduce answers an uncaptured call with
        # zeros on purpose (custom_all_reduce.py, "true warmup"; 0.5.9 and 0.5.23).
        call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with graph_capture() as context, torch.cuda.graph(graph, stream=context.stream):
            output = call()
        torch.cuda.synchronize()
        return _CudaGraph(graph, output)

    def delay(self, seconds: float) -> None:
        """Spin on the GPU."""
        # About 1 GHz is the slowest clock to expect under load, so this waits at least as long as asked.
        torch.cuda._sleep(int(seconds * 1e9))

    def together(self, first: Call, second: Call) -> tuple[Any, Any]:
        """Two streams."""
        here = torch.cuda.current_stream()
        side = torch.cuda.Stream()
        side.wait_stream(here)
        left = first()
        with torch.cuda.stream(side):
            right = second()
        here.wait_stream(side)
        torch.cuda.synchronize()
        return left, right


class _CudaGraph:
    def __init__(self, graph: Any, output: Any) -> None:
        self._graph, self._output = graph, output

    def replay(self) -> Any:
        # No wait here: when this is timed, the end event must follow the work and not the host.
        self._graph.replay()
        return self._output


@contextlib.contextmanager
def symmetric_allocation(coordinator: Any, enabled: bool) -> Iterator[None]:
    """Allocate from NCCL's registered windows, as the layers of a server with ``--enable-symm-mem`` do."""
    if not enabled:
        yield
        return
    from sglang.srt.distributed.device_communicators.pynccl_allocator import use_symmetric_memory

    with use_symmetric_memory(coordinator):
        yield


def make_seam(device: str, local_rank: int) -> Seam:
    """The seam of ``cpu`` or ``cuda``."""
    if device == "cpu":
        return CpuSeam()
    if device == "cuda":
        return CudaSeam(local_rank)
    raise ValueError(f"no seam for device {device!r}; cpu or cuda")
