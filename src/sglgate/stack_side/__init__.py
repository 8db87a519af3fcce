"""Scripts for a stack's interpreter: standard library, torch and sglang only, nothing of sglgate."""
