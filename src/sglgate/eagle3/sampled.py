"""At a temperature above 0 both arms must draw from one distribution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from sglgate.launch.client import Client

CPU_IS_GREEDY: Final = (
    "SGLang 0.5.23 verifies greedily on a CPU whatever the temperature (srt/speculative/eagle_utils.py), so what it "
    "draws there are no samples"
)
SAMPLES: Final = 256
#: The first token is the prefill's; those behind it come from verify steps.
TOKENS: Final = 4
_LEAST_EXPECTED: Final = 5.0


def draw_samples(client: Client, prompt: str, samples: int = SAMPLES) -> list[tuple[int, ...]]:
    """Answers of a few tokens at temperature 1.

    Raises:
        ServerError: one was not answered.
    """
    sampling = {"temperature": 1.0, "top_p": 1.0}
    answers = (
        client.generate(prompt, max_new_tokens=TOKENS, deadline_s=60, ignore_eos=True, sampling_params=sampling)
        for _ in range(samples)
    )
    return [tuple(answer["output_ids"]) for answer in answers]


def compare_samples(left: Sequence[tuple[int, ...]], right: Sequence[tuple[int, ...]]) -> tuple[float, int]:
    """p of "one distribution" (chi square, smallest over the positions, Bonferroni), and the samples of both arms.

    Rare tokens are one class, so that each has an expected count of at least 5 in either arm.
    """
    from scipy.stats import chi2_contingency

    least, places = 1.0, range(1, TOKENS)
    for place in places:
        a, b = (Counter(ids[place] for ids in arm) for arm in (left, right))
        both = a + b
        share = min(len(left), len(right)) / (len(left) + len(right))
        often = [token for token, count in both.items() if count * share >= _LEAST_EXPECTED]
        table = [[counts[token] for token in often] for counts in (a, b)]
        rest = [sum(counts.values()) - sum(row) for counts, row in zip((a, b), table, strict=True)]
        if sum(rest):
            table = [[*row, other] for row, other in zip(table, rest, strict=True)]
        if len(table[0]) > 1:
            least = min(least, float(chi2_contingency(table).pvalue) * len(places))
    return min(1.0, least), len(left) + len(right)
