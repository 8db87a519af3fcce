"""The data itself, in the stack's torch: what is called exact is exact in every order, and wrong sums differ."""

import subprocess
from pathlib import Path

import pytest

import sglgate.stack_side

pytestmark = pytest.mark.stack

FOLDER = Path(sglgate.stack_side.__file__).parent / "allreduce"
PREAMBLE = f"""
import importlib.util, itertools, random, sys
import torch
spec = importlib.util.spec_from_file_location(
    "pkg", {str(FOLDER / "__init__.py")!r}, submodule_search_locations=[{str(FOLDER)!r}])
sys.modules["pkg"] = importlib.util.module_from_spec(spec)
from pkg import inputs
torch.set_num_threads(1)

def bits(t):
    return t.view(torch.int32 if t.dtype.itemsize == 4 else torch.int16)

def same(a, b):
    return bool(((bits(a) == bits(b)) | (a.isnan() & b.isnan())).all())

def summed(data, order, accumulator):
    total = data.parts[order[0]].to(data.dtype).to(accumulator)
    for rank in order[1:]:
        total = (total + data.parts[rank].to(data.dtype).to(accumulator)).to(accumulator)
    return total.to(data.dtype)

def orders(world):
    ranks = list(range(world))
    yield ranks
    yield ranks[::-1]
    for seed in range(4):
        random.Random(seed).shuffle(ranks)
        yield list(ranks)
"""

CHECKS = {
    "every_family_with_a_reference_is_exact_in_any_order_of_its_claim": """
for dtype in inputs.DTYPES.values():
    for world in (2, 4, 8):
        for family in inputs.FAMILIES[:-1]:
            if inputs.applies(family, dtype, world):
                data = inputs.make(family, dtype, world, 3)
                assert same(data.parts.to(dtype).double().flatten().to(dtype), data.parts.flatten().to(dtype))
                accumulator = torch.float32 if family == "fp32_accumulate" else dtype
                for order in orders(world):
                    assert same(summed(data, order, accumulator), data.total), (dtype, world, family, order)
""",
    "a_bf16_accumulator_is_seen_in_every_order": """
for dtype in (torch.bfloat16, torch.float16):
    for world in (3, 4, 8):
        data = inputs.make("fp32_accumulate", dtype, world, 0)
        for order in orders(world):
            wrong = bits(summed(data, order, dtype)) != bits(data.total)
            assert wrong.double().mean() > 0.1, (dtype, world, order)
for world in (2, 8):
    data = inputs.make("exact_any_order", torch.float32, world, 0)
    wrong = bits(summed(data, range(world), torch.bfloat16)) != bits(data.total)
    assert wrong.double().mean() > 0.9
""",
    "rounds_and_ranks_differ_and_a_rank_makes_the_same_data_twice": """
one, two = (inputs.make("small_ints", torch.bfloat16, 4, number) for number in (0, 1))
assert not same(one.total, two.total)
assert not same(one.of_rank(0, 99, torch.device("cpu")), one.of_rank(1, 99, torch.device("cpu")))
assert same(one.total, inputs.make("small_ints", torch.bfloat16, 4, 0).total)
""",
    "the_pattern_is_prime_and_repeats_over_a_large_tensor": """
period = inputs.PATTERN_ELEMENTS
assert all(period % divisor for divisor in range(2, int(period ** 0.5) + 1))
data = inputs.make("small_ints", torch.bfloat16, 2, 0)
large = data.expected(3 * period + 5, torch.device("cpu"))
assert large.numel() == 3 * period + 5 and same(large[period:2 * period], data.total)
for block in (8, 64, 4096, 65536):
    assert not same(large[:block], large[block:2 * block]), block
""",
    "signed_zeros_hold_both_and_specials_hold_all_kinds": """
zeros = inputs.make("signed_zeros", torch.float32, 4, 0).total
negative = bits(zeros) != 0
assert bool((zeros == 0).all()) and 0.2 < negative.double().mean() < 0.8
special = inputs.make("specials", torch.float16, 4, 0).total
assert special.isnan().any() and special.isposinf().any() and special.isneginf().any() and special.isfinite().any()
""",
}


@pytest.mark.parametrize("name", CHECKS)
def test_inputs(name: str, stack_python: Path) -> None:
    script = PREAMBLE + CHECKS[name]
    done = subprocess.run([str(stack_python), "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
