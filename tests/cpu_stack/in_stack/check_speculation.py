"""The tree ops against explicit trees: parents kept by name, masks by walking up, acceptance by walking
down."""

import random
import unittest
from dataclasses import dataclass
from itertools import pairwise

import sgl_kernel
import torch

from tests.cpu_stack.in_stack import raises

FULL_MASK, QLEN_ONLY = 0, 1


@dataclass
class DraftTree:
    """What a draft worker scores, and the nodes that it keeps: node 0 is the root."""

    parent_list: list[int]
    selected: list[int]
    parent_token: dict[int, int | None]

    @property
    def size(self):
        return len(self.selected) + 1

    def parent(self, node):
        token = self.parent_token[self.selected[node - 1]]
        return 0 if token is None else self.selected.index(token) + 1

    def ancestors(self, node):
        return [] if node == 0 else [node, *self.ancestors(self.parent(node))]

    def children(self, node):
        return [other for other in range(1, self.size) if self.parent(other) == node]


def random_tree(rng, topk, steps, size):
    """Draft as SGLang does: expand the best `topk` tokens a step, keep the `size - 1` best paths overall."""
    score, parent_token = {}, {}
    parent_list = [-1, *range(topk)]
    beam = list(range(topk))
    for token in beam:
        parent_token[token], score[token] = None, rng.random()
    for _ in range(1, steps):
        first = len(score)
        for place, parent in enumerate(beam):
            for k in range(topk):
                token = first + place * topk + k
                parent_token[token], score[token] = parent, score[parent] * rng.random()
        beam = sorted(range(first, len(score)), key=score.get, reverse=True)[:topk]
        parent_list += beam
    # A path's score is below its prefix's, so the best paths are closed under ancestors.
    selected = sorted(sorted(score, key=score.get, reverse=True)[: size - 1])
    return DraftTree(parent_list, selected, parent_token)


def trees(rng, count, topk, steps, size):
    return [random_tree(rng, topk, steps, size) for _ in range(count)]


SHAPES = ((1, 1, 2), (1, 3, 4), (1, 5, 6), (2, 3, 5), (4, 3, 8), (4, 5, 16), (8, 2, 1))


def built(forest, lengths, topk, steps, mode):
    count, size = len(forest), forest[0].size if forest else 1
    links = [torch.full((count, size), -1, dtype=torch.int64) for _ in range(3)]
    positions = torch.full((count * size,), -1, dtype=torch.int64)
    keys = sum(length + size for length in lengths) if mode == FULL_MASK else count * size
    mask = torch.ones(keys * size, dtype=torch.bool)
    sgl_kernel.build_tree_kernel_efficient_cpu(
        torch.tensor([t.parent_list for t in forest], dtype=torch.int64),
        torch.tensor([t.selected for t in forest], dtype=torch.int64),
        torch.tensor(lengths, dtype=torch.int64),
        mask,
        positions,
        *links,
        topk,
        steps,
        size,
        mode,
    )
    return positions.tolist(), [link.tolist() for link in links], mask.tolist()


class BuildTree(unittest.TestCase):
    op = "build_tree_kernel_efficient_cpu"

    def each_forest(self):
        rng = random.Random(5)
        for topk, steps, size in SHAPES:
            for count in (1, 3):
                forest = trees(rng, count, topk, steps, size)
                yield forest, [rng.randint(0, 9) for _ in forest], topk, steps

    def test_positions_are_the_depth_beyond_the_verified_tokens(self):
        for forest, lengths, topk, steps in self.each_forest():
            positions, _, _ = built(forest, lengths, topk, steps, FULL_MASK)
            expected = [
                n + len(t.ancestors(node)) for t, n in zip(forest, lengths, strict=True) for node in range(t.size)
            ]
            assert positions == expected

    def test_links_lead_through_every_child_in_order(self):
        for forest, lengths, topk, steps in self.each_forest():
            _, (index, first_child, next_sibling), _ = built(forest, lengths, topk, steps, FULL_MASK)
            for i, tree in enumerate(forest):
                assert index[i] == [i * tree.size + node for node in range(tree.size)]
                for node in range(tree.size):
                    found, child = [], first_child[i][node]
                    while child != -1:
                        found.append(child)
                        child = next_sibling[i][child]
                    assert found == tree.children(node)

    def test_a_node_sees_the_root_its_ancestors_and_itself(self):
        for mode in (FULL_MASK, QLEN_ONLY):
            for forest, lengths, topk, steps in self.each_forest():
                _, _, mask = built(forest, lengths, topk, steps, mode)
                expected = []
                for tree, length in zip(forest, lengths, strict=True):
                    for node in range(tree.size):
                        verified = [True] * (length if mode == FULL_MASK else 0)
                        seen = {0, *tree.ancestors(node)}
                        expected += verified + [other in seen for other in range(tree.size)]
                assert mask == expected

    def test_topk_1_is_a_chain(self):
        chain = DraftTree([-1, 0, 1, 2], [0, 1, 2], {0: None, 1: 0, 2: 1})
        positions, links, _ = built([chain], [10], 1, 3, FULL_MASK)
        assert positions == [10, 11, 12, 13]
        assert links == [[[0, 1, 2, 3]], [[1, 2, 3, -1]], [[-1] * 4]]

    def test_no_requests_change_nothing(self):
        assert built([], [], 4, 3, FULL_MASK) == ([], [[], [], []], [])

    def test_bit_packed_masks_are_refused_by_name(self):
        with raises(NotImplementedError, "tree mask mode 2"):
            built(trees(random.Random(6), 1, 1, 3, 4), [5], 1, 3, 2)


def verified(forest, candidates, target_predict, most):
    """Run the op on trees whose links come from the explicit trees, not from the op under test."""
    count, size = len(forest), forest[0].size if forest else 1
    first_child = [[(t.children(n) or [-1])[0] for n in range(size)] for t in forest]
    sibling = [[-1] * size for _ in forest]
    for i, tree in enumerate(forest):
        for node in range(size):
            children = tree.children(node)
            for one, other in pairwise(children):
                sibling[i][one] = other
    predicts = torch.full((count * size,), -5, dtype=torch.int32)
    accept_index = torch.full((count, most), -1, dtype=torch.int32)
    accepted = torch.full((count,), -5, dtype=torch.int32)

    def table(rows):
        return torch.tensor(rows, dtype=torch.int64).view(count, size)

    sgl_kernel.verify_tree_greedy_cpu(
        predicts=predicts,
        accept_index=accept_index,
        accept_token_num=accepted,
        candidates=table(candidates),
        retrive_index=torch.arange(count * size).view(count, size),
        retrive_next_token=table(first_child),
        retrive_next_sibling=table(sibling),
        target_predict=table(target_predict),
    )
    return predicts.tolist(), accept_index.tolist(), accepted.tolist()


def walked(forest, candidates, target_predict, most):
    """Return what the target would have written, token by token, as far as the tree foresaw it."""
    count, size = len(forest), forest[0].size if forest else 1
    predicts, accept_index, accepted = [-5] * (count * size), [], []
    for i, tree in enumerate(forest):
        path = [0]
        while len(path) < most:
            wanted = target_predict[i][path[-1]]
            matching = [child for child in tree.children(path[-1]) if candidates[i][child] == wanted]
            if not matching:
                break
            path.append(matching[0])
        for node in path:
            predicts[i * size + node] = target_predict[i][node]
        accept_index.append([i * size + node for node in path] + [-1] * (most - len(path)))
        accepted.append(len(path) - 1)
    return predicts, accept_index, accepted


class VerifyTreeGreedy(unittest.TestCase):
    op = "verify_tree_greedy_cpu"

    def test_accepts_what_the_target_would_have_written(self):
        rng = random.Random(7)
        lengths_seen = set()
        for topk, steps, size in SHAPES:
            for count in (1, 2, 5):
                for _ in range(20):
                    forest = trees(rng, count, topk, steps, size)
                    # Few different tokens, so that matches, repeats between siblings and misses all occur.
                    candidates = [[rng.randrange(3) for _ in range(size)] for _ in forest]
                    wanted = [[rng.randrange(3) for _ in range(size)] for _ in forest]
                    expected = walked(forest, candidates, wanted, steps + 1)
                    assert verified(forest, candidates, wanted, steps + 1) == expected
                    lengths_seen.update(expected[2])
        assert lengths_seen >= {0, 1, 2, 3}

    def test_everything_rejected_leaves_the_bonus_token_alone(self):
        forest = trees(random.Random(8), 1, 1, 3, 4)
        assert verified(forest, [[9, 1, 2, 3]], [[7, 7, 7, 7]], 4) == (
            [7, -5, -5, -5],
            [[0, -1, -1, -1]],
            [0],
        )

    def test_everything_accepted_ends_with_the_bonus_token(self):
        forest = trees(random.Random(8), 1, 1, 3, 4)
        assert verified(forest, [[9, 1, 2, 3]], [[1, 2, 3, 4]], 4) == ([1, 2, 3, 4], [[0, 1, 2, 3]], [3])

    def test_a_wrong_token_stops_the_run_even_if_later_ones_match(self):
        forest = trees(random.Random(8), 1, 1, 3, 4)
        assert verified(forest, [[9, 1, 2, 3]], [[1, 5, 3, 4]], 4) == ([1, 5, -5, -5], [[0, 1, -1, -1]], [1])

    def test_no_requests_change_nothing(self):
        assert verified([], [], [], 4) == ([], [], [])


class FillBonusTokens(unittest.TestCase):
    op = "fill_bonus_tokens_cpu"

    def test_takes_the_last_accepted_token_of_each_request(self):
        rng = random.Random(9)
        for count in (0, 1, 6):
            for stride in (1, 4):
                tokens = [[rng.randrange(1000) for _ in range(stride)] for _ in range(count)]
                lengths = [rng.randint(1, stride) for _ in range(count)]
                bonus = torch.full((count,), -1, dtype=torch.int32)
                sgl_kernel.fill_bonus_tokens_cpu(
                    torch.tensor(tokens, dtype=torch.int64).view(-1),
                    torch.tensor(lengths, dtype=torch.int32),
                    bonus,
                    stride,
                )
                assert bonus.tolist() == [row[n - 1] for row, n in zip(tokens, lengths, strict=True)]


class FillAcceptOutCacheLoc(unittest.TestCase):
    op = "fill_accept_out_cache_loc_cpu"

    def test_packs_the_slots_of_accepted_nodes_in_order(self):
        rng = random.Random(10)
        for count in (0, 1, 12):
            for acceptance in (0.0, 0.5, 1.0):
                slots = rng.sample(range(1000), count)
                index = [node if rng.random() < acceptance else -1 for node in range(count)]
                expected = [slots[node] for node in index if node != -1]
                out = torch.full((count,), -3, dtype=torch.int64)
                sgl_kernel.fill_accept_out_cache_loc_cpu(
                    torch.tensor(index, dtype=torch.int32), torch.tensor(slots, dtype=torch.int64), out
                )
                assert out.tolist() == expected + [-3] * (count - len(expected))


class RotateInputIds(unittest.TestCase):
    op = "rotate_input_ids_cpu"

    def test_each_request_loses_its_first_token_and_gains_its_new_one(self):
        rng = random.Random(11)
        for lengths in ([], [1], [5], [3, 1, 4], [2, 0, 3]):
            rows = [[rng.randrange(1000) for _ in range(n)] for n in lengths]
            new = [rng.randrange(1000) for _ in lengths]
            starts = [sum(lengths[:i]) for i in range(len(lengths))]
            expected = [t for row, token in zip(rows, new, strict=True) if row for t in [*row[1:], token]]
            ids = torch.tensor([t for row in rows for t in row], dtype=torch.int64)
            sgl_kernel.rotate_input_ids_cpu(ids, *(torch.tensor(v, dtype=torch.int64) for v in (starts, lengths, new)))
            assert ids.tolist() == expected

    def test_the_new_token_goes_where_select_index_says(self):
        ids = torch.tensor([1, 2, 3, 4])
        one = torch.tensor([0])
        sgl_kernel.rotate_input_ids_cpu(ids, one, torch.tensor([4]), torch.tensor([[9]]), torch.tensor([1]))
        assert ids.tolist() == [2, 9, 4, 4]
