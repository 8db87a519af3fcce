from sglgate.allreduce import layout
from sglgate.allreduce.messages import Failure


def failure(runs: list, *, wrong: int, elements: int = 1000, runs_total: int | None = None, **rest: object) -> Failure:
    return Failure.model_validate(
        {
            "kind": "wrong_elements",
            "case": 0,
            "rank": 0,
            "dtype": "bf16",
            "shape": (1, elements),
            "family": "small_ints",
            "mode": "eager",
            "round": 0,
            "delayed_rank": -1,
            "replays": 0,
            "runs": runs,
            "wrong": wrong,
            "elements": elements,
            "runs_total": len(runs) if runs_total is None else runs_total,
            **rest,
        }
    )


def test_one_element() -> None:
    assert layout.describe(failure([(17, 1)], wrong=1)) == "one element, 17"


def test_nearly_everything_is_the_whole_tensor() -> None:
    assert layout.describe(failure([(3, 990)], wrong=950)) == "the whole tensor"


def test_a_block_is_placed() -> None:
    assert layout.describe(failure([(0, 64)], wrong=60)) == "one block of 64 at 0, the head"
    assert layout.describe(failure([(936, 64)], wrong=60)) == "one block of 64 at 936, the tail"
    assert layout.describe(failure([(128, 64)], wrong=60)) == "one block of 64 at 128"


def test_blocks_at_a_stride() -> None:
    runs = [(start, 16) for start in range(32, 1000, 128)]
    assert layout.describe(failure(runs, wrong=120)) == "8 blocks of about 16 at a stride of 128 from 32"


def test_scattered_blocks_are_not_called_a_stride() -> None:
    described = layout.describe(failure([(1, 4), (90, 4), (700, 4)], wrong=12))
    assert described == "3 scattered blocks, the first of 4 at 1"


def test_exchanged_blocks() -> None:
    found = failure([(0, 64), (128, 64)], wrong=120, exchanged=(0, 128, 64))
    assert layout.describe(found) == "blocks of 64 at 0 and 128 hold each other's answer"


def test_a_cause_needs_nearly_all_elements() -> None:
    assert layout.explain(failure([(0, 9)], wrong=9, explained={"rank 3 missing": 1.0})) == "rank 3 missing"
    assert layout.explain(failure([(0, 9)], wrong=9, explained={"rank 3 missing": 0.5})) == ""


def test_a_missing_rank_is_preferred_to_the_same_numbers_as_an_own_input() -> None:
    explained = {"this rank's own input": 1.0, "rank 1 missing": 1.0}
    assert layout.explain(failure([(0, 9)], wrong=9, explained=explained)) == "rank 1 missing"


def test_two_ranks_that_explain_alike_explain_nothing() -> None:
    explained = {"rank 0 missing": 1.0, "rank 1 missing": 1.0}
    assert layout.explain(failure([(0, 9)], wrong=9, explained=explained)) == ""


def test_a_stale_answer_is_preferred_to_anything() -> None:
    explained = {"rank 0 missing": 1.0, "the previous call's answer": 1.0}
    assert layout.explain(failure([(0, 9)], wrong=9, explained=explained)) == "the previous call's answer"
