"""One module a subcommand. Each offers ``register(subparsers)`` and sets ``run=callable`` as its default.

The heavy imports of a command stay inside its ``run``: ``sglgate --help`` must answer at once.
"""
