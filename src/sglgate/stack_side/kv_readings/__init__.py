"""A folder to put on a server's PYTHONPATH; see ``sitecustomize``."""
