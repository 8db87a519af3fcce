"""The plugin's seams exist in the installed SGLang, and its wiring is what SGLang calls."""

import inspect
import os
import unittest
from types import SimpleNamespace

from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
from sglang.srt.plugins import load_plugins
from sglang.srt.plugins.hook_registry import HookRegistry
from sglang.srt.speculative.draft_utils import DraftBackendFactory
from sglgate_cpu_stack import plugin
from sglgate_cpu_stack.backend import MultiStepDraftBackend, SpeculativeTorchNativeBackend


class Seams(unittest.TestCase):
    def test_sglang_finds_the_plugin_and_takes_its_backend_and_hook(self):
        assert os.environ["SGLANG_USE_CPU_ENGINE"] == "1"
        load_plugins()
        assert ATTENTION_BACKENDS["torch_native"] is plugin._create_backend
        assert plugin.FACTORY_SEAM in HookRegistry._patched

    def test_the_hook_takes_what_the_factory_is_called_with(self):
        method = inspect.unwrap(DraftBackendFactory._create_backend)
        wanted = list(inspect.signature(method).parameters)[1:]
        assert wanted == list(inspect.signature(plugin.offer_torch_native).parameters)[1:]

    def test_other_backends_of_the_map_are_left_alone(self):
        backends = {"triton": object()}
        before = dict(backends)
        plugin.offer_torch_native(SimpleNamespace(), "decode_attention_backend", backends, "{backend_type}")
        assert backends.keys() == {"triton", "torch_native"}
        assert backends["triton"] is before["triton"]

    def test_draft_decode_gets_a_backend_for_every_step_but_the_first(self):
        pool = SimpleNamespace(req_to_token=None)
        runner = SimpleNamespace(device="cpu", req_to_token_pool=pool, token_to_kv_pool=object())
        factory = SimpleNamespace(draft_model_runner=runner, topk=2, speculative_num_steps=4)
        backends = {}
        plugin.offer_torch_native(factory, "decode_attention_backend", backends, "", stamps_children=True)
        stamp, container = backends["torch_native"]()
        assert stamp == "torch_native"
        assert isinstance(container, MultiStepDraftBackend)
        assert len(container.attn_backends) == 3
        plugin.offer_torch_native(factory, "prefill_attention_backend", backends, "")
        assert isinstance(backends["torch_native"]()[1], SpeculativeTorchNativeBackend)
