"""Data for every rank whose sum is known to the last bit.

Each family is a pattern of a prime number of elements, repeated over the tensor. Prime, so that no block,
tile or vector width divides it: data moved by any such distance lands on other values. Patterns depend on the
round, so an answer left over from an earlier call is wrong.

``small_ints``       integers whose sum over all ranks is exact in the dtype
``exact_any_order``  k * 2^e with wide exponents and full significands: every partial sum, in any order, is
                     exact in the dtype (the idea of nccl-tests' verifiable floats). A lower-precision step on
                     the way loses low bits and shows
``fp32_accumulate``  partial sums that are exact in fp32 only, final sums exact in the dtype. Only for paths
                     that claim to accumulate in fp32: NCCL and gloo round to the dtype at each step
``signed_zeros``     all ranks -0 gives -0; any +0, or x and -x, gives +0
``specials``         infinities and NaN on single ranks, infinities of both signs, among finite numbers
``random``           normal numbers without a reference: for equality over ranks and over repetitions
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

PATTERN_ELEMENTS = 65521
FAMILIES = ("small_ints", "exact_any_order", "fp32_accumulate", "signed_zeros", "specials", "random")
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

# Significand bits, hidden one included: integers up to 2^bits are exact.
_SIGNIFICAND_BITS = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24}
# Exponents e for k * 2^e with |k| <= 2^bits: no overflow, and nothing subnormal that a device might flush.
_EXPONENTS = {torch.bfloat16: (-60, 60), torch.float16: (-14, 4), torch.float32: (-60, 60)}


@dataclass(frozen=True)
class Data:
    """One round of one family.

    ``parts`` is ``[world_size, PATTERN_ELEMENTS]`` in float64, each value exact in the dtype; ``total`` is
    ``[PATTERN_ELEMENTS]`` in the dtype, or None for a family without a reference.
    """

    dtype: torch.dtype
    parts: torch.Tensor
    total: torch.Tensor | None

    def of_rank(self, rank: int, elements: int, device: torch.device) -> torch.Tensor:
        """That rank's input, ``[elements]`` in the dtype."""
        return tiled(self.parts[rank].to(self.dtype), elements, device)

    def expected(self, elements: int, device: torch.device) -> torch.Tensor | None:
        """The exact sum, ``[elements]`` in the dtype."""
        return None if self.total is None else tiled(self.total, elements, device)


def tiled(pattern: torch.Tensor, elements: int, device: torch.device) -> torch.Tensor:
    """``pattern`` repeated to ``elements`` elements on ``device``."""
    pattern = pattern.to(device)
    return pattern.repeat(-(-elements // pattern.numel()))[:elements]


def applies(family: str, dtype: torch.dtype, world_size: int) -> bool:
    """``fp32_accumulate`` needs a dtype below fp32 and three ranks: one addition rounds once either way."""
    return family != "fp32_accumulate" or (dtype != torch.float32 and world_size >= 3)


def make(family: str, dtype: torch.dtype, world_size: int, round_number: int) -> Data:
    """The data of one round; the same on every rank."""
    generator = torch.Generator()
    generator.manual_seed(round_number * 1009 + FAMILIES.index(family) * 31 + list(DTYPES.values()).index(dtype))
    parts = _MAKERS[family](dtype, world_size, generator).double()
    if family == "random":
        return Data(dtype, parts.to(dtype).double(), None)
    # Added up one by one: a reduction that starts from +0 would turn a sum of -0 into +0.
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return Data(dtype, parts, total.to(dtype))


def _integers(low: int, high: int, ranks: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(low, high + 1, (ranks, PATTERN_ELEMENTS), generator=generator)


def _small_ints(dtype: torch.dtype, ranks: int, generator: torch.Generator) -> torch.Tensor:
    limit = min(15, 2 ** _SIGNIFICAND_BITS[dtype] // ranks)
    return _integers(-limit, limit, ranks, generator)


def _exact_any_order(dtype: torch.dtype, ranks: int, generator: torch.Generator) -> torch.Tensor:
    limit = 2 ** _SIGNIFICAND_BITS[dtype] // ranks
    low, high = _EXPONENTS[dtype]
    exponents = torch.randint(low, high + 1, (PATTERN_ELEMENTS,), generator=generator)
    return torch.ldexp(_integers(-limit, limit, ranks, generator).double(), exponents)


def _fp32_accumulate(dtype: torch.dtype, ranks: int, generator: torch.Generator) -> torch.Tensor:
    # Two ranks hold +B and -B with B so large that the dtype's spacing there swallows the others' odd values.
    parts = (_integers(-4, 3, ranks, generator) * 2 + 1).double()
    big = float(2 ** (_SIGNIFICAND_BITS[dtype] + 4))
    order = torch.rand((ranks, PATTERN_ELEMENTS), generator=generator).argsort(dim=0)
    columns = torch.arange(PATTERN_ELEMENTS)
    parts[order[0], columns] = big
    parts[order[1], columns] = -big
    return parts


def _signed_zeros(dtype: torch.dtype, ranks: int, generator: torch.Generator) -> torch.Tensor:
    parts = torch.where(_integers(0, 1, ranks, generator) == 0, 0.0, -0.0).double()
    kind = torch.randint(0, 4, (PATTERN_ELEMENTS,), generator=generator)
    parts[:, kind == 0] = -0.0
    cancel = kind == 1
    parts[0, cancel], parts[1, cancel] = 3.0, -3.0
    return parts


def _specials(dtype: torch.dtype, ranks: int, generator: torch.Generator) -> torch.Tensor:
    parts = _integers(-3, 3, ranks, generator).double()
    kind = torch.randint(0, 8, (PATTERN_ELEMENTS,), generator=generator)
    first = torch.randint(0, ranks, (PATTERN_ELEMENTS,), generator=generator)
    second = (first + 1) % ranks
    columns = torch.arange(PATTERN_ELEMENTS)
    inf, nan = float("inf"), float("nan")
    for number, (left, right) in enumerate(((inf, None), (-inf, None), (nan, None), (inf, -inf), (inf, inf))):
        chosen = columns[kind == number]
        parts[first[chosen], chosen] = left
        if right is not None:
            parts[second[chosen], chosen] = right
    return parts


def _random(dtype: torch.dtype, ranks: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn((ranks, PATTERN_ELEMENTS), generator=generator)


_MAKERS = {
    "small_ints": _small_ints,
    "exact_any_order": _exact_any_order,
    "fp32_accumulate": _fp32_accumulate,
    "signed_zeros": _signed_zeros,
    "specials": _specials,
    "random": _random,
}
