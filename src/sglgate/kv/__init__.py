"""The KV cache, predicted before a launch and explained from a log: arithmetic read from SGLang, no torch."""
