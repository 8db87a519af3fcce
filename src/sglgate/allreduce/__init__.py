"""Is each all-reduce path engaged, exact, and no slower than the baseline?

``paths``    every path: how it is asked for, what it claims to serve, how it is recognised, how it refuses
``sizes``    shapes, size buckets, algorithm and bus bandwidth
``plan``     which exact cases are run, in which order
``world``    the ranks: start, ask, time out, show stacks, reap
``messages`` what the ranks answer
``layout``   how wrong elements lie
``verdicts`` answers in, findings out: engaged, exact
``speed``    timing blocks in, ratios and verdicts per bucket out
``budget``   a server's profile in, its communication budget out

Nothing here imports torch or sglang; the ranks run :mod:`sglgate.stack_side.allreduce` in the stack.
"""
