"""The all-reduce worker: one rank of a world, run by a stack's interpreter.

Started as ``python <this folder>`` by :class:`sglgate.allreduce.world.World`, one process a rank. Imports
the standard library, torch and sglang only; of the suite it imports nothing.

``channel``  commands in, answers out, one JSON object a line; ends with its parent
``groups``   SGLang's own groups, built as its server builds them
``seam``     what differs between a CUDA device and a CPU
``observe``  which leaf of SGLang's dispatch served a call, and which kernels ran
``inputs``   data whose sum is known to the last bit
``checks``   the exact checks
``timing``   the interleaved measurement
``faults``   faults planted by name: the negative controls of all the above
``worker``   the commands
"""
