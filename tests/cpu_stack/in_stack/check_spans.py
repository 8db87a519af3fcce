"""Speculative attention against softmax written out query by query."""

import math
import random
import unittest

import torch
from sglgate_cpu_stack.spans import Span, attend, draft_step_spans, extend_spans, verify_spans

from tests.cpu_stack.in_stack import raises

POOL_LEN, KV_SLOTS = 40, 400


def random_pool(rng, requests):
    """Return a request table whose rows hold distinct slots, and the rows that the requests use."""
    rows = rng.sample(range(requests + 2), requests)
    slots = rng.sample(range(KV_SLOTS), POOL_LEN * (requests + 2))
    return torch.tensor(slots, dtype=torch.int32).view(-1, POOL_LEN), rows


def seen_slots(span):
    """Return, for each query of a span, the slots that it sees, in order."""
    visible = span.visible if span.visible is not None else torch.ones(span.queries, len(span.slots)).bool()
    return [[int(s) for s, v in zip(span.slots, row, strict=True) if v] for row in visible]


class Spans(unittest.TestCase):
    def test_a_chain_is_verified_causally_after_the_verified_tokens(self):
        rng = random.Random(1)
        for requests in (0, 1, 3):
            table, rows = random_pool(rng, requests)
            verified = [rng.randint(0, 30) for _ in rows]
            spans = verify_spans(table, torch.tensor(rows), torch.tensor(verified), 4, None)
            for row, length, span in zip(rows, verified, spans, strict=True):
                expected = [table[row, : length + node + 1].tolist() for node in range(4)]
                assert seen_slots(span) == expected

    def test_a_tree_node_sees_the_verified_tokens_and_what_its_mask_row_says(self):
        rng = random.Random(2)
        table, rows = random_pool(rng, 3)
        verified = [rng.randint(0, 30) for _ in rows]
        mask = torch.rand(3, 6, 6) < 0.5
        spans = verify_spans(table, torch.tensor(rows), torch.tensor(verified), 6, mask.flatten())
        for i, span in enumerate(spans):
            slots = table[rows[i]].tolist()
            expected = [
                slots[: verified[i]] + [slots[verified[i] + other] for other in range(6) if mask[i, node, other]]
                for node in range(6)
            ]
            assert seen_slots(span) == expected

    def test_an_extend_covers_the_last_tokens_causally(self):
        rng = random.Random(3)
        for requests in (0, 1, 3):
            table, rows = random_pool(rng, requests)
            lengths = [rng.randint(1, 5) for _ in rows]
            ends = [length + rng.randint(0, 30) for length in lengths]
            spans = extend_spans(table, torch.tensor(rows), torch.tensor(ends), torch.tensor(lengths))
            for row, end, length, span in zip(rows, ends, lengths, spans, strict=True):
                assert seen_slots(span) == [table[row, : end - length + q + 1].tolist() for q in range(length)]

    def test_a_draft_branch_sees_the_verified_tokens_and_its_own_slots(self):
        rng = random.Random(4)
        for topk, steps in ((1, 3), (4, 3)):
            table, rows = random_pool(rng, 3)
            verified = [rng.randint(0, 20) for _ in rows]
            for step in range(steps - 1):
                spans = draft_step_spans(table, torch.tensor(rows), torch.tensor(verified), topk, steps, step)
                expected = []
                for row, length in zip(rows, verified, strict=True):
                    for branch in range(topk):
                        first = length + branch * steps
                        expected.append([*table[row, :length].tolist(), *table[row, first : first + step + 1].tolist()])
                assert [seen_slots(span) for span in spans] == [[slots] for slots in expected]


class Attend(unittest.TestCase):
    def test_equals_softmax_written_out(self):
        rng = random.Random(5)
        torch.manual_seed(5)
        for heads, kv_heads in ((1, 1), (4, 2), (9, 3)):
            keys, values = torch.randn(50, kv_heads, 8), torch.randn(50, kv_heads, 8)
            spans = []
            for queries in (1, 4, 2):
                slots = torch.tensor(rng.sample(range(50), queries + 5))
                visible = torch.rand(queries, queries + 5) < 0.6
                visible[:, 0] = True
                spans.append(Span(queries, slots, visible if queries > 1 else None))
            query = torch.randn(7, heads, 8)
            result = attend(query, keys, values, spans, 0.3)
            token = 0
            for span in spans:
                for slots in seen_slots(span):
                    for head in range(heads):
                        shared = head // (heads // kv_heads)
                        weights = [math.exp(0.3 * float(query[token, head] @ keys[s, shared])) for s in slots]
                        expected = sum(w * values[s, shared] for w, s in zip(weights, slots, strict=True))
                        torch.testing.assert_close(result[token, head], expected / sum(weights))
                    token += 1

    def test_an_empty_batch_stays_empty(self):
        empty = torch.zeros(0, 2, 8)
        assert attend(empty, torch.zeros(5, 2, 8), torch.zeros(5, 2, 8), [], 1.0).shape == (0, 2, 8)

    def test_queries_that_no_span_covers_are_refused(self):
        pool = torch.zeros(5, 1, 8)
        with raises(ValueError, "cover 1 queries, the batch has 2"):
            attend(torch.zeros(2, 1, 8), pool, pool, [Span(1, torch.tensor([0]), None)], 1.0)
