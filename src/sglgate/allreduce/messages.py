"""What a rank answers, read at the border: a field that is missing or new is an error, not a default."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Communicator(_Message):
    """One communicator of the tensor-parallel group; limits as it states them."""

    class_name: str = Field(alias="class")
    disabled: bool
    max_bytes: int | None
    max_numel: int | None


class GroupState(_Message):
    """What SGLang's dispatch can choose from, and what building it said."""

    backend: str
    group: str
    communicators: dict[str, Communicator]
    log_lines: tuple[str, ...]


class Ready(GroupState):
    """A rank whose groups stand."""

    pid: int
    sglang: str
    torch: str
    graphs: str


class Served(_Message):
    """One profiled call: the leaves of the dispatch that were entered, the kernels that ran."""

    dtype: str
    shape: tuple[int, ...]
    mode: Literal["eager", "graph"]
    leaves: tuple[str, ...]
    kernels: tuple[str, ...]


class Failure(_Message):
    """One broken property of one call on one rank. Which fields are set depends on ``kind``."""

    kind: Literal[
        "wrong_elements",
        "wrong_shape",
        "input_mutated",
        "guard_overwritten",
        "neighbour_overwritten",
        "not_repeatable",
    ]
    case: int
    rank: int
    dtype: str
    shape: tuple[int, ...]
    family: str
    mode: Literal["eager", "graph", "together"]
    round: int
    delayed_rank: int
    replays: int
    replay: int | None = None
    group: str | None = None
    in_place: bool | None = None
    wrong: int = 0
    elements: int = 0
    first_index: int | None = None
    got: Any = None
    wanted: Any = None
    got_bits: str = ""
    wanted_bits: str = ""
    runs: tuple[tuple[int, int], ...] = ()
    runs_total: int = 0
    explained: dict[str, float] = Field(default_factory=dict)
    exchanged: tuple[int, int, int] | None = None
    offsets: tuple[int, ...] = ()


class ExactAnswer(_Message):
    """One rank's answer to a list of cases; ``digests`` by case number, for data without a reference."""

    checked: int
    failures: tuple[Failure, ...]
    served: tuple[tuple[str, ...], ...]
    digests: dict[int, str]


class TimedBlock(_Message):
    """One contender's block on one rank: seconds a call, one value an iteration."""

    who: Literal["candidate", "baseline"]
    seconds: tuple[float, ...]


class TimedAnswer(_Message):
    """One rank's blocks, in the order in which they were run."""

    blocks: tuple[TimedBlock, ...]
