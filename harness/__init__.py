"""kvreplay: replay request traces against live vLLM + LMCache + Valkey, and say whether a remote KV cache pays."""

__version__ = "0.1.0"
