"""Secrets never survive, and what is no secret does."""

# ruff: noqa: E501 - log lines are long
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglgate.diagnosis import diagnose_text
from sglgate.redact import redact

SECRET = "Zq7Rt0pWx9Lm3"


@pytest.mark.parametrize(
    "text",
    [
        f"HF_TOKEN={SECRET}",
        f"export HUGGING_FACE_HUB_TOKEN='{SECRET}'",
        f"AWS_SECRET_ACCESS_KEY: {SECRET}",
        f"MY_SERVICE_SECRET={SECRET} rest",
        f"'api_key': '{SECRET}', 'tp_size': 8",
        f"ServerArgs(model_path='m', api_key='{SECRET}', admin_api_key='{SECRET}', tp_size=8)",
        f'{{"api_key": "{SECRET}"}}',
        f"--api-key {SECRET} --tp 8",
        f"--admin-api-key={SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"authorization='Basic {SECRET}=='",
        f"-H 'Authorization: {SECRET}'",
        f"Proxy-Authorization: Basic {SECRET}",
        f"https://someone:{SECRET}@example.org/x",
        f"http_proxy=http://{SECRET}@proxy:3128",
        f"Set-Cookie: session={SECRET}; HttpOnly",
        f"POST /generate?token={SECRET}&x=1",
        f"DB_PASSWORD={SECRET}",
        f"ssl_keyfile_password='{SECRET}'",
        "hf_" + SECRET * 3,
        "token hf_" + SECRET * 3 + " was refused",
        "sk-" + SECRET * 3,
        "ghp_" + SECRET * 3,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + SECRET,
    ],
)
def test_a_secret_does_not_survive(text):
    assert SECRET not in redact(text)
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "max_total_num_tokens=210432, chunked_prefill_size=8192",
        "bos_token='<s>', eos_token_id=2, pad_token=None",
        "KeyError: 'model.layers.0.mlp.down_proj.weight_scale'",
        "Decode batch, #running-req: 1, #token: 40, token usage: 0.00, gen throughput (token/s): 90.50",
        "port: 30101, useIpv6: false, code: -98, name: EADDRINUSE",
        'File "/usr/lib/python3.12/tokenize.py", line 1, in token',
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "tcp://127.0.0.1:41005",
        "sort_key=lambda, api_key=None",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


@given(
    st.text(alphabet="abcXYZ019", min_size=8, max_size=40),
    st.sampled_from(["HF_TOKEN", "OPENAI_API_KEY", "DB_SECRET"]),
)
def test_any_value_of_a_variable_named_like_a_secret_is_hidden(value, name):
    if not value.isdigit():
        assert value not in redact(f"run with {name}={value} now")


@given(st.lists(st.sampled_from(
    ["api_key='", "'", '"', "--api-key", "Authorization: Bearer", "-----BEGIN PRIVATE KEY-----", "http://u:", "@h",
     "abcdefgh", "***", ":", "", " ", "Cookie: a=b"]
), max_size=12), st.sampled_from(["\n", "\n\n", " \n"]))  # fmt: skip
def test_no_line_is_lost_whatever_a_secret_spans(pieces, between):
    text = between.join(pieces)
    assert redact(text).count("\n") == text.count("\n")
    assert redact(redact(text)) == redact(text)


def test_no_secret_reaches_the_answer_of_a_diagnosis():
    log = (
        f"[2026-01-01 00:00:00] server_args=ServerArgs(model_path='https://u:{SECRET}@h/m', api_key='{SECRET}', tp_size=1)\n"
        f"ValueError: Unknown attention backend with HF_TOKEN={SECRET} and Authorization: Bearer {SECRET}\n"
        f"KV Cache is allocated. api_key={SECRET}\n"
    )
    answer = diagnose_text(log)
    assert answer.cause == "bad_flag"
    assert SECRET not in json.dumps(answer.to_json())
    assert SECRET not in "\n".join(answer.summary_lines())
