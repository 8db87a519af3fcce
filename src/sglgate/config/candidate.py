"""One server configuration to judge: what to launch, and what is expected of it."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, field_validator

from sglgate.causes import KNOWN_CAUSES
from sglgate.config.eagle3 import Eagle3Need, Looks, Template
from sglgate.config.profile import ArgumentValue, Name, _Strict
from sglgate.errors import nearest

Suite = Literal["launch", "kv", "allreduce", "eagle3"]
SUITES_HELP: Final = "the suites that judge it; absent: all that apply"
#: The suite owns these: a candidate that sets one would be judged at another address than it was launched at.
RESERVED_ARGUMENTS: Final = {"model-path", "model", "host", "port", "config"}


def _is_specifier(text: str) -> str:
    # Deferred: most candidates name no release.
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError("not a range of releases") from None
    return text


Releases = Annotated[str, AfterValidator(_is_specifier)]
RELEASES_HELP: Final = 'the SGLang releases that have all of this, such as ">=0.5.14" or ">=0.5.9,<0.5.23"'


class ExpectedFailure(_Strict):
    """A launch that must fail, and for this cause only."""

    cause: str = Field(description="a cause that `sglgate diagnose` knows")
    reason: str = Field(min_length=1, description="why it cannot work here")
    link: str = Field(min_length=1, description="where that is documented")

    @field_validator("cause")
    @classmethod
    def _known(cls, cause: str) -> str:
        # "unknown" would accept every crash that nobody has seen yet.
        usable = sorted(set(KNOWN_CAUSES) - {"none", "unknown"})
        if cause not in usable:
            near = nearest(cause, usable)
            raise ValueError(f"no such cause; did you mean {near!r}?" if near else f"one of {', '.join(usable)}")
        return cause


class KvNeed(_Strict):
    """What the KV pool must hold."""

    min_tokens: int | None = Field(default=None, gt=0, description="tokens on every rank")
    requests: int | None = Field(default=None, gt=0, description="requests that must fit together")
    request_tokens: int | None = Field(default=None, gt=0, description="tokens of each such request")
    answers: dict[str, str] = Field(
        default={}, description='prompt = text that its greedy answer must contain, such as "Paris"'
    )
    fill: float = Field(default=0.9, ge=0, lt=1, description="share of the pool to fill with requests; 0 for none")
    relaunch: bool = Field(default=False, description="launch it twice: both pools must agree")
    window_margin: float | None = Field(
        default=None, gt=0, lt=0.2, description="launch it this far below and above the smallest fraction that works"
    )
    fill_deadline_s: float = Field(default=300, gt=0, description="how long the filling may take, seconds")


class ExpectedRefusal(_Strict):
    """A path that the candidate asks for and that SGLang must decline on this machine."""

    path: str = Field(description="custom_v1, torch_symm_mem, ...")
    reason: str = Field(min_length=1, description="why it cannot serve here")
    link: str = Field(min_length=1, description="where that is documented")


class AllreducePath(_Strict):
    """Which all-reduce path must serve."""

    path: str = Field(description="nccl, custom_v1, custom_v2, pcie_ipc, gloo, shm, ...")
    margin: float = Field(default=0.03, gt=0, lt=1, description="what still counts as no slower")
    also_ranks: list[int] = Field(default=[], description="further world sizes to try, outside a server")
    refused: ExpectedRefusal | None = Field(default=None, description="the path that `path` serves instead of")


class _Load(_Strict):
    kind: str = Field(default="chat", description="prompt set")
    concurrency: int = Field(default=1, gt=0, description="requests at once")
    requests: int = Field(default=8, gt=0, description="measured requests a launch")
    output_tokens: int = Field(default=64, ge=2, description="tokens of each request")
    template: Template = "{prompt}"


class SpeedAgainstRelease(_Load):
    """Tokens per second of this release over that of the one that serves now, where a run names it (``--against``)."""

    max_loss: float = Field(default=0.03, gt=0, lt=1, description="what may be lost, a fraction of tokens per second")
    design_effect: float | None = Field(
        default=None, gt=0, lt=1, description="the difference that the machine must be able to show; absent: max_loss"
    )
    looks: Looks = Field(default=[2, 4, 6, 8], description="valid blocks at which a verdict may fall; last: cap")
    aa_looks: Looks = Field(default=[2, 4, 6], description="the same for the release against itself, before")
    turns: int = Field(
        default=0,
        ge=0,
        multiple_of=2,
        description="both servers up at once, answering in so many turns of a block; 0: one launch after the other",
    )


class SpeedOverLaunches(_Load):
    """Tokens per second, with an interval over launches: what another release is held against in a sign-off."""

    min_tok_per_s: float = Field(gt=0, description="floor of the whole interval")
    launches: int = Field(default=8, ge=3, description="fresh launches; the interval is over them")


class Expect(_Strict):
    """All that is expected of a candidate; suites read the part that is theirs."""

    failure: ExpectedFailure | None = None
    speed: SpeedOverLaunches | None = None
    release: SpeedAgainstRelease | None = None
    kv: KvNeed = KvNeed()
    allreduce: AllreducePath | None = None
    eagle3: Eagle3Need | None = None


class Candidate(_Strict):
    """A candidate as it will be launched: inheritance and matrix resolved, profile's share merged in."""

    name: Name
    profile: Name
    file: str = Field(description="the TOML file it comes from")
    extends: Name | None = Field(default=None, description="the candidate whose arguments it began with")
    reason: str = Field(min_length=1, description="why it is judged, in prose")
    model: str = Field(min_length=1, description="a recipe of fixtures/models, a folder, or a hub id")
    sglang: Releases | None = Field(default=None, description=RELEASES_HELP)
    suites: list[Suite] | None = Field(default=None, description=SUITES_HELP)
    arguments: dict[str, ArgumentValue] = Field(default={}, description="server arguments without the dashes")
    environment: dict[str, str] = Field(default={}, description="environment of the server")
    expect: Expect = Expect()

    @field_validator("arguments")
    @classmethod
    def _no_reserved(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        for key in arguments:
            if key.startswith("-") or "_" in key:
                right = key.strip("-").replace("_", "-")
                raise ValueError(f"argument {key!r}: write it as {right!r}")
            if key in RESERVED_ARGUMENTS:
                raise ValueError(f"argument {key!r} belongs to the suite")
        return arguments

    def fits(self, release: str) -> bool:
        """Whether an SGLang of that version has what this candidate asks for."""
        from packaging.specifiers import SpecifierSet

        return self.sglang is None or SpecifierSet(self.sglang).contains(release, prereleases=True)

    @property
    def configuration(self) -> str:
        """Digest of what is launched: two candidates with one digest are one server under two names."""
        launched = json.dumps([self.model, self.arguments, self.environment], sort_keys=True)
        return hashlib.sha256(launched.encode()).hexdigest()[:12]

    @property
    def tensor_parallel(self) -> int:
        """World size of the tensor-parallel group."""
        size = self.arguments.get("tp", self.arguments.get("tp-size", self.arguments.get("tensor-parallel-size", 1)))
        return int(size) if isinstance(size, int) else 1

    def command_line(self) -> list[str]:
        """The server arguments as argv; ``true`` is a bare flag, ``false`` leaves the flag out."""
        argv: list[str] = []
        for key, value in self.arguments.items():
            if value is False:
                continue
            argv.append(f"--{key}")
            if isinstance(value, list):
                argv.extend(str(item) for item in value)
            elif value is not True:
                argv.append(str(value))
        return argv
