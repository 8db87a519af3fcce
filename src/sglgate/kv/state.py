"""The fixed state that a Mamba-2 or linear-attention layer keeps for each request.

Sources: ``configs/mamba_utils.py`` (``Mamba2StateShape.create``, ``KimiLinearStateShape.create``,
``mamba_cache_per_req``) and the models' own
``configs/{qwen3_next,qwen3_5,falcon_h1,nemotron_h,granitemoehybrid,kimi_linear,lfm2}.py``, in 0.5.9 and
0.5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sglgate.errors import MisuseError
from sglgate.kv import families

Config = Mapping[str, Any]

_STATE_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
CONV_BYTES = 2  # SGLANG_MAMBA_CONV_DTYPE, bfloat16 unless set


@dataclass(frozen=True)
class StateShape:
    """One layer's state of one request, and the layers that keep one. Sizes are of the whole model, before
    TP."""

    layers: tuple[int, ...]
    conv_channels: int
    """Channels of the convolution window that do not depend on groups."""
    groups: int
    """Groups of B and C (or key heads); each adds 2 x ``group_width`` channels."""
    group_width: int
    conv_kernel: int
    heads: int
    head_dim: int
    state_size: int
    ssm_bytes: int = 4
    """Bytes of a state element: float32 unless the model or ``--mamba-ssm-dtype`` says otherwise."""

    def bytes_per_request(self, tp: int, stage_layers: int | None = None) -> int:
        """Bytes of one request's state on one rank, for all state layers or for ``stage_layers`` of them.

        Raises:
            MisuseError: SGLang could not split the heads over this many ranks.
        """
        if self.heads % tp:
            raise MisuseError(
                f"{self.heads} state heads cannot be split",
                key="tp_size",
                value=tp,
                expected=f"a divisor of {self.heads}",
            )
        # Groups that do not divide are replicated, so that every head finds its group on its own rank.
        groups = self.groups if self.groups % tp == 0 else self.groups + (tp - self.groups)
        channels = (self.conv_channels + 2 * groups * self.group_width) // tp
        conv = channels * (self.conv_kernel - 1) * CONV_BYTES
        ssm = self.heads // tp * self.head_dim * self.state_size * self.ssm_bytes
        return (conv + ssm) * (len(self.layers) if stage_layers is None else stage_layers)


def read_state_shape(architecture: str, text: Config) -> tuple[tuple[int, ...], StateShape]:
    """Layer ids with attention, and the state shape of the others.

    Raises:
        MisuseError: a key that the shape needs is missing.
    """
    if architecture.startswith(("Qwen3Next", "Qwen3_5")):
        return _gated_delta_net(text)
    if architecture == "KimiLinearForCausalLM":
        return _kimi_linear(text)
    if architecture == "FalconH1ForCausalLM":
        every = tuple(range(_number(text, "num_hidden_layers")))
        return every, _mamba2(text, every)
    if architecture == "GraniteMoeHybridForCausalLM":
        kinds = [str(kind) for kind in text.get("layer_types") or ()]
        mamba = tuple(i for i, kind in enumerate(kinds) if kind == "mamba")
        # Granite's own configuration class passes no dtype on, so that its state stays float32.
        return tuple(i for i, kind in enumerate(kinds) if kind == "attention"), _mamba2(text, mamba, ssm_bytes=4)
    if architecture == "Lfm2ForCausalLM":
        return _short_conv(text)
    blocks = families.nemotron_blocks(text)
    return (
        tuple(i for i, kind in enumerate(blocks) if kind == "attention"),
        StateShape(
            layers=tuple(i for i, kind in enumerate(blocks) if kind == "mamba"),
            conv_channels=_number(text, "mamba_num_heads") * _number(text, "mamba_head_dim"),
            groups=_number(text, "n_groups"),
            group_width=_number(text, "ssm_state_size"),
            conv_kernel=_number(text, "conv_kernel", 4),
            heads=_number(text, "mamba_num_heads"),
            head_dim=_number(text, "mamba_head_dim"),
            state_size=_number(text, "ssm_state_size"),
            ssm_bytes=_ssm_bytes(text),
        ),
    )


def _gated_delta_net(text: Config) -> tuple[tuple[int, ...], StateShape]:
    interval = _number(text, "full_attention_interval", 4)
    layers = range(_number(text, "num_hidden_layers"))
    value_heads, value_dim = _number(text, "linear_num_value_heads"), _number(text, "linear_value_head_dim")
    return (
        tuple(i for i in layers if (i + 1) % interval == 0),
        StateShape(
            layers=tuple(i for i in layers if (i + 1) % interval),
            conv_channels=value_heads * value_dim,
            groups=_number(text, "linear_num_key_heads"),
            group_width=_number(text, "linear_key_head_dim"),
            conv_kernel=_number(text, "linear_conv_kernel_dim", 4),
            heads=value_heads,
            head_dim=value_dim,
            state_size=_number(text, "linear_key_head_dim"),
            ssm_bytes=_ssm_bytes(text),
        ),
    )


def _short_conv(text: Config) -> tuple[tuple[int, ...], StateShape]:
    kinds = [str(kind) for kind in text.get("layer_types") or ()]
    conv = tuple(i for i, kind in enumerate(kinds) if kind in ("conv", "short_conv"))
    hidden = _number(text, "hidden_size")
    return (
        tuple(i for i, kind in enumerate(kinds) if kind == "full_attention"),
        StateShape(
            layers=conv,
            conv_channels=hidden,
            groups=1,
            group_width=0,
            conv_kernel=_number(text, "conv_L_cache", 3),
            heads=0,
            head_dim=0,
            state_size=0,
        ),
    )


def _kimi_linear(text: Config) -> tuple[tuple[int, ...], StateShape]:
    linear = text.get("linear_attn_config")
    if not isinstance(linear, Mapping):
        raise MisuseError("is needed to size this model's state", key="model_config.linear_attn_config")
    # The file counts layers from one.
    kda = {int(layer) - 1 for layer in linear.get("kda_layers") or ()}
    layers = range(_number(text, "num_hidden_layers"))
    heads, head_dim = _number(linear, "num_heads"), _number(linear, "head_dim")
    return (
        tuple(i for i in layers if i not in kda),
        StateShape(
            layers=tuple(i for i in layers if i in kda),
            conv_channels=heads * head_dim,
            groups=heads,
            group_width=head_dim,
            conv_kernel=_number(linear, "short_conv_kernel_size", 4),
            heads=heads,
            head_dim=head_dim,
            state_size=head_dim,
        ),
    )


def _mamba2(text: Config, layers: tuple[int, ...], ssm_bytes: int | None = None) -> StateShape:
    heads = _number(text, "mamba_n_heads")
    inner = text.get("mamba_d_ssm") or _number(text, "mamba_expand", 2) * _number(text, "hidden_size")
    head_dim = text.get("mamba_d_head")
    return StateShape(
        layers=layers,
        conv_channels=int(inner),
        groups=_number(text, "mamba_n_groups"),
        group_width=_number(text, "mamba_d_state"),
        conv_kernel=_number(text, "mamba_d_conv", 4),
        heads=heads,
        head_dim=int(inner) // heads if head_dim in (None, "auto") else int(head_dim),
        state_size=_number(text, "mamba_d_state"),
        ssm_bytes=_ssm_bytes(text) if ssm_bytes is None else ssm_bytes,
    )


def _ssm_bytes(text: Config) -> int:
    return _STATE_DTYPE_BYTES.get(str(text.get("mamba_ssm_dtype") or "float32"), 4)


def _number(text: Config, key: str, default: int | None = None) -> int:
    value = text.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise MisuseError(
            "is needed to size this model's state",
            key=f"model_config.{key}",
            value="nothing" if value is None else value,
            expected="a whole number",
        )
    return value
