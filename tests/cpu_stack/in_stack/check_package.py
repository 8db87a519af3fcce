"""What the package promises as a whole."""

import importlib
import pkgutil
import unittest

import sgl_kernel
import sgl_kernel.kvcacheio

import tests.cpu_stack.in_stack as checks
from tests.cpu_stack.in_stack import raises


class Package(unittest.TestCase):
    def test_every_op_has_a_test(self):
        tested = {
            case.op
            for module in pkgutil.iter_modules(checks.__path__)
            for case in vars(importlib.import_module(f"{checks.__name__}.{module.name}")).values()
            if isinstance(case, type) and hasattr(case, "op")
        }
        assert tested == set(sgl_kernel.__all__)

    def test_ops_not_offered_raise_by_name_and_only_when_called(self):
        with raises(NotImplementedError, r"sgl_kernel\.build_draft_decode_metadata_cpu .*kernel/"):
            sgl_kernel.build_draft_decode_metadata_cpu(1, topk=2)
        with raises(NotImplementedError, r"sgl_kernel\.kvcacheio\.transfer_kv_per_layer"):
            sgl_kernel.kvcacheio.transfer_kv_per_layer()

    def test_unknown_names_are_not_promised(self):
        assert not hasattr(sgl_kernel, "flash_attn_with_kvcache")
