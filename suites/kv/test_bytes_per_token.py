"""Does a token occupy what the model's geometry says?"""

from __future__ import annotations

from fixtures.gate import Gate
from sglgate.kv.cell import Split, cell_for, resolve_kv_dtype
from sglgate.kv.geometry import load_config, read_geometry
from sglgate.kv.live import bytes_per_token_range, target_pools
from sglgate.kv.versions import rules_for
from sglgate.launch import Server


def test_bytes_per_token(server: Server, gate: Gate) -> None:
    """From the printed pool size; a wrong KV dtype or a wrong split shows here. The log rounds to 0.01 GiB."""
    gate.show_log(server.log)
    info, rules = server.info, rules_for(server.stack.sglang)
    geometry = read_geometry(load_config(server.model), rules)
    kv_dtype, _ = resolve_kv_dtype(info["kv_cache_dtype"], info["dtype"], geometry)
    dp = int(info["dp_size"]) if info.get("enable_dp_attention") else 1
    split = Split(tp=int(info["tp_size"]), pp=int(info["pp_size"]), dp=dp)
    expected = cell_for(geometry, rules, split, kv_dtype).row
    for pool in target_pools(server.record):
        low, high = bytes_per_token_range(pool, int(info["page_size"]))
        gate.judge(
            f"geometry's bytes per token, rank {pool.rank or 'TP0'}",
            expected,
            (low, high),
            "within",
            "bytes",
            reason=f"{pool.size_gib} GiB for {pool.tokens} tokens, as the log prints it",
        )
