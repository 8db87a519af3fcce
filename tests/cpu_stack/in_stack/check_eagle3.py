"""The draft's recipe: the hand-written target, and training steps against drafting one token after the
other."""

import random
import tempfile
import unittest
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from fixtures.models.eagle3.draft import Batch, Draft, foretell
from fixtures.models.eagle3.generate import Sequence, sample
from fixtures.models.eagle3.prompts import KINDS, prompts
from fixtures.models.eagle3.target import Geometry, Target
from fixtures.models.eagle3.train import DevText, acceptance, most_used_tokens
from tests.cpu_stack.in_stack import raises

VOCAB, HIDDEN = 64, 48


def write_tiny_llama(folder):
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCAB,
            hidden_size=HIDDEN,
            intermediate_size=80,
            num_hidden_layers=8,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=8,
            tie_word_embeddings=True,
            initializer_range=0.2,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        )
    ).eval()
    model.save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(path.read_text().replace("{", '{\n  "rope_theta": 10000.0,', 1))
    return model


class TargetInPlainTorch(unittest.TestCase):
    def test_agrees_with_transformers_in_logits_and_captured_states(self):
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            reference = write_tiny_llama(Path(folder))
            target = Target(Path(folder), slots=3, max_tokens=16)
            texts = torch.randint(VOCAB, (3, 12))
            expected = reference(texts, output_hidden_states=True)
            # Slots at different positions, so that a mixed-up cache or mask shows.
            captured, final = zip(*(target.prefill(i, texts[i, : 5 + i]) for i in range(3)), strict=True)
            captured, final = [list(c) for c in captured], [list(f) for f in final]
            for ahead in range(5):
                here = torch.tensor([5 + i + ahead for i in range(3)])
                new_captured, new_final = target.decode(texts[range(3), here], here)
                for i in range(3):
                    captured[i].append(new_captured[i])
                    final[i].append(new_final[i])
            for i in range(3):
                n = len(final[i])
                torch.testing.assert_close(
                    target.logits(torch.stack(final[i])), expected.logits[i, :n], rtol=1e-4, atol=1e-4
                )
                for place, layer in enumerate((2, 4, 5)):
                    states = torch.stack(captured[i])[:, place]
                    torch.testing.assert_close(states, expected.hidden_states[layer][i, :n], rtol=1e-4, atol=1e-4)

    def test_sampling_is_greedy_at_zero_and_follows_the_distribution_above(self):
        logits = torch.tensor([[0.0, 3.0, 1.0]]).expand(4000, 3)
        generator = torch.Generator().manual_seed(1)
        assert sample(logits, torch.zeros(4000), generator).tolist() == [1] * 4000
        drawn = sample(logits, torch.ones(4000), generator).bincount(minlength=3) / 4000
        torch.testing.assert_close(drawn, logits[0].softmax(-1), rtol=0, atol=0.03)

    def test_a_sequence_ends_a_little_after_eos_or_at_its_budget(self):
        sequence = Sequence("chat", 0.0, budget=100, tokens=[5, 6])
        sequence.extend(2)
        for _ in range(40):
            assert not sequence.done
            sequence.extend(7)
        assert sequence.done
        assert Sequence("chat", 0.0, budget=2, tokens=[5, 6]).done


class Prompts(unittest.TestCase):
    def test_are_the_same_for_the_same_seed_and_cover_every_kind(self):
        chosen = prompts(140, seed=3)
        assert chosen == prompts(140, seed=3)
        assert {p.kind for p in chosen} == set(KINDS)
        assert len({p.text for p in chosen}) == 140

    def test_held_out_prompts_are_not_training_prompts(self):
        training = {p.text for p in prompts(2560, seed=3)}
        assert not training & {p.text for p in prompts(140, seed=4, held_out=True)}


class TrainingSteps(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        geometry = Geometry(8, HIDDEN, 6, 2, 8, VOCAB, 10000.0, 1e-5)
        self.draft = Draft(
            geometry, torch.randn(VOCAB, HIDDEN), torch.ones(HIDDEN), torch.arange(0, VOCAB, 2), max_tokens=32
        )
        self.captured = torch.randn(10, 3, HIDDEN)
        self.tokens = torch.randint(VOCAB, (11,))

    def one_at_a_time(self, start, steps):
        """Draft as a server does: extend over the verified text up to `start`, then one token a step.

        The chain is fed the text's own tokens, as the training steps are.
        """
        draft, g = self.draft, self.draft.geometry
        keys, values, logits = [], [], []
        joined = draft.join(self.captured[None])[0]
        state = None
        for position in range(start + steps):
            state = joined[position] if position <= start else state
            x = torch.cat((draft.input_layernorm(draft.embedding[self.tokens[position + 1]]), draft.hidden_norm(state)))

            def turned(heads, position=position):
                half = g.head_dim // 2
                swapped = torch.cat((-heads[:, half:], heads[:, :half]), dim=1)
                return heads * draft.cos[position] + swapped * draft.sin[position]

            query = turned(draft.q_proj(x).view(g.heads, g.head_dim))
            keys.append(turned(draft.k_proj(x).view(g.kv_heads, g.head_dim)))
            values.append(draft.v_proj(x).view(g.kv_heads, g.head_dim))
            heads = []
            for head in range(g.heads):
                shared = head // (g.heads // g.kv_heads)
                scores = torch.stack([query[head] @ k[shared] for k in keys]) * g.head_dim**-0.5
                heads.append(scores.softmax(0) @ torch.stack([v[shared] for v in values]))
            middle = state + draft.o_proj(torch.cat(heads))
            h = draft.post_attention_layernorm(middle)
            state = middle + draft.down_proj(torch.nn.functional.silu(draft.gate_proj(h)) * draft.up_proj(h))
            if position >= start:
                logits.append(draft.logits(state))
        return logits

    def test_every_step_equals_drafting_one_token_after_the_other(self):
        record = {"captured": self.captured, "tokens": self.tokens, "final": torch.zeros(10, HIDDEN)}
        with torch.inference_mode():
            steps = foretell(self.draft, Batch.of([record]), 4)
            for start in range(5):
                for j, expected in enumerate(self.one_at_a_time(start, 4)):
                    torch.testing.assert_close(steps[j][0, start + j], expected, rtol=1e-4, atol=1e-4)

    def test_acceptance_counts_runs_of_the_targets_own_tokens(self):
        # Two draft tokens only, so that hits and misses both occur at every step.
        self.draft.draft_tokens = torch.tensor([3, 40])
        self.draft.head = self.draft.embedding[self.draft.draft_tokens]
        with torch.inference_mode():
            for position in range(9):
                foretold = int(self.one_at_a_time(position, 1)[0].argmax())
                missed = position in (2, 7)
                self.tokens[position + 2] = self.draft.draft_tokens[1 - foretold if missed else foretold]
            record = {"captured": self.captured, "tokens": self.tokens, "final": torch.zeros(10, HIDDEN)}
            text = DevText(record, argmax=self.tokens[1:])
            runs = []
            for start in range(7):
                drafted = [int(self.draft.draft_tokens[x.argmax()]) for x in self.one_at_a_time(start, 3)]
                wanted = self.tokens[start + 2 : start + 5].tolist()
                runs.append([drafted[: n + 1] == wanted[: n + 1] for n in range(3)])
        expected = torch.tensor(runs).float().mean(dim=0).tolist()
        assert 0 < expected[2] < expected[0] < 1
        assert acceptance(self.draft, [text]) == expected

    def test_padding_changes_nothing(self):
        def record(n):
            return {
                "captured": self.captured[:n],
                "tokens": self.tokens[: n + 1],
                "final": torch.zeros(n, HIDDEN),
            }

        with torch.inference_mode():
            alone = foretell(self.draft, Batch.of([record(6)]), 3)
            padded = foretell(self.draft, Batch.of([record(6), record(10)]), 3)
        for one, other in zip(alone, padded, strict=True):
            torch.testing.assert_close(one[0, :5], other[0, :5])

    def test_the_draft_vocabulary_is_the_most_used_tokens_filled_up(self):
        text = [{"tokens": torch.tensor([9, 9, 9, 5, 5, 40])}]
        assert most_used_tokens(text, 2).tolist() == [5, 9]
        assert most_used_tokens(text, 5).tolist() == [0, 1, 5, 9, 40]

    def test_the_saved_token_map_is_what_sglang_adds_up(self):
        from safetensors.torch import load_file

        with tempfile.TemporaryDirectory() as folder:
            self.draft.save(Path(folder))
            saved = load_file(Path(folder) / "model.safetensors")["d2t"]
        assert (saved + torch.arange(saved.numel())).tolist() == self.draft.draft_tokens.tolist()

    def test_a_saved_draft_is_taken_up_again_but_not_with_other_tokens(self):
        def fresh(tokens):
            return Draft(self.draft.geometry, self.draft.embedding, torch.ones(HIDDEN), tokens, max_tokens=32)

        again, other = fresh(self.draft.draft_tokens), fresh(torch.arange(1, VOCAB, 2))
        with tempfile.TemporaryDirectory() as folder:
            self.draft.save(Path(folder))
            again.load(Path(folder))
            with raises(ValueError, "another draft vocabulary"):
                other.load(Path(folder))
        for one, saved in zip(again.parameters(), self.draft.parameters(), strict=True):
            assert torch.equal(one, saved.bfloat16().float())

    def test_no_step_sees_the_future(self):
        record = {"captured": self.captured, "tokens": self.tokens, "final": torch.zeros(10, HIDDEN)}
        place = random.Random(6).randint(4, 7)
        changed = {"captured": self.captured.clone(), "tokens": self.tokens.clone(), "final": record["final"]}
        changed["captured"][place] += 1
        changed["tokens"][place + 1] = (self.tokens[place + 1] + 1) % VOCAB
        with torch.inference_mode():
            before, after = (foretell(self.draft, Batch.of([r]), 3) for r in (record, changed))
        for one, other in zip(before, after, strict=True):
            torch.testing.assert_close(one[0, :place], other[0, :place])
            assert not torch.equal(one[0, place:], other[0, place:])
