"""The slot ops against plain loops over Python lists."""

import random
import unittest

import sgl_kernel
import torch

from tests.cpu_stack.in_stack import raises


def random_requests(rng: random.Random, count: int, pool_len: int = 40):
    """Return distinct pool rows with a span of columns each; spans may be empty."""
    rows = rng.sample(range(count + 3), count)
    starts = [rng.randint(0, pool_len) for _ in rows]
    ends = [rng.randint(start, pool_len) for start in starts]
    return rows, starts, ends


def ints(values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype)


class AssignReqToTokenPool(unittest.TestCase):
    op = "assign_req_to_token_pool_cpu"

    def test_writes_each_request_its_own_slots_and_nothing_else(self):
        rng = random.Random(1)
        for count in (0, 1, 2, 7):
            for _ in range(30):
                rows, starts, ends = random_requests(rng, count)
                pool = torch.full((count + 3, 40), -7, dtype=torch.int32)
                slots = rng.sample(range(1000), sum(ends) - sum(starts) + 4)
                expected = pool.tolist()
                supply = iter(slots)
                for row, start, end in zip(rows, starts, ends, strict=True):
                    for column in range(start, end):
                        expected[row][column] = next(supply)
                sgl_kernel.assign_req_to_token_pool_cpu(
                    ints(rows), pool, ints(starts, torch.int32), ints(ends), ints(slots), 40
                )
                assert pool.tolist() == expected

    def test_refuses_a_span_past_the_row(self):
        pool = torch.zeros(2, 8, dtype=torch.int32)
        with raises(IndexError, "columns 6:9 of request row 1"):
            sgl_kernel.assign_req_to_token_pool_cpu(ints([1]), pool, ints([6]), ints([9]), ints([1, 2, 3]), 8)


class AssignExtendCacheLocs(unittest.TestCase):
    op = "assign_extend_cache_locs_cpu"

    def test_packs_the_spans_in_request_order_and_leaves_the_tail(self):
        rng = random.Random(2)
        for count in (0, 1, 2, 7):
            for _ in range(30):
                rows, starts, ends = random_requests(rng, count)
                pool = torch.randint(0, 1 << 30, (count + 3, 40), dtype=torch.int32)
                table = pool.tolist()
                packed = [
                    table[row][column]
                    for row, start, end in zip(rows, starts, ends, strict=True)
                    for column in range(start, end)
                ]
                out = torch.full((len(packed) + 5,), -9, dtype=torch.int64)
                sgl_kernel.assign_extend_cache_locs_cpu(ints(rows), pool, ints(starts), ints(ends), out, 40)
                assert out.tolist() == packed + [-9] * 5
                assert pool.tolist() == table

    def test_is_the_reverse_of_the_assignment(self):
        rows, starts, ends = [4, 0, 2], [3, 0, 10], [7, 1, 10]
        pool = torch.zeros(5, 12, dtype=torch.int32)
        slots = ints([11, 12, 13, 14, 15])
        sgl_kernel.assign_req_to_token_pool_cpu(ints(rows), pool, ints(starts), ints(ends), slots, 12)
        out = torch.empty(5, dtype=torch.int64)
        sgl_kernel.assign_extend_cache_locs_cpu(ints(rows), pool, ints(starts), ints(ends), out, 12)
        assert out.tolist() == slots.tolist()


class AssignDraftCacheLocsContiguous(unittest.TestCase):
    op = "assign_draft_cache_locs_contiguous_cpu"

    def test_reads_the_next_slots_of_each_request(self):
        rng = random.Random(3)
        for count in (0, 1, 5):
            for topk, steps in ((1, 1), (1, 3), (4, 3)):
                rows = rng.sample(range(count + 3), count)
                lengths = [rng.randint(0, 40 - topk * steps) for _ in rows]
                pool = torch.randint(0, 1 << 30, (count + 3, 40), dtype=torch.int32)
                table = pool.tolist()
                expected = []
                for row, length in zip(rows, lengths, strict=True):
                    for step in range(topk * steps):
                        expected.append(table[row][length + step])
                out = torch.full((count * topk * steps,), -1, dtype=torch.int64)
                sgl_kernel.assign_draft_cache_locs_contiguous_cpu(ints(rows), pool, ints(lengths), out, 40, topk, steps)
                assert out.tolist() == expected


class CopyAllLayerKvCache(unittest.TestCase):
    op = "copy_all_layer_kv_cache_cpu"

    def copied(self, buffers, target, source):
        addresses = torch.tensor([b.data_ptr() for b in buffers], dtype=torch.uint64)
        row_bytes = torch.tensor([b.stride(0) * b.element_size() for b in buffers])
        sgl_kernel.copy_all_layer_kv_cache_cpu(addresses, row_bytes, ints(target), ints(source))
        return [b.tolist() for b in buffers]

    def test_copies_rows_in_every_buffer_whatever_its_dtype(self):
        rng = random.Random(4)
        for count in (0, 1, 6):
            buffers = [torch.randn(20, 3, 8).bfloat16(), torch.randn(20, 5), torch.randint(0, 99, (30, 2))]
            target = rng.sample(range(20), count)
            source = [rng.randrange(20) for _ in target]
            expected = [b.tolist() for b in buffers]
            for rows in expected:
                before = list(rows)
                for to, origin in zip(target, source, strict=True):
                    rows[to] = before[origin]
            assert self.copied(buffers, target, source) == expected

    def test_reads_every_row_before_it_writes_any(self):
        buffer = torch.arange(4).view(4, 1)
        assert self.copied([buffer], [1, 2, 3], [0, 1, 2]) == [[[0], [0], [1], [2]]]
