"""Splits ONNX models over several devices and runs the shards.

    import autopar

    autopar.partition("model.onnx", ngpus=4, out="bundle", shapes={"input_ids": (1, 128)})
    session = autopar.Session("bundle")
    outputs = session.run({"input_ids": ids})   # or, as ONNX Runtime has it, run(None, {...})

Options are the command line's, with `_` in the place of `-`, and so are errors, of type `Error`: a
line for each problem that says what is wrong, where and what to do, and names options as the command
line does: `ngpus` is --ngpus. Other threads run while autopar works.
"""

import os

# Threads of a parallel loop spin for a moment and then sleep, which leaves the cores to others, as in
# the program: libgomp reads it when it is loaded.
_SPIN = "GOMP_SPINCOUNT"
_is_ours = not {_SPIN, "OMP_WAIT_POLICY"} & os.environ.keys()
if _is_ours:
    os.environ[_SPIN] = "10000"
try:
    from . import _native
finally:
    if _is_ours:
        del os.environ[_SPIN]

from ._native import Error, device_names, load_operators
from .planning import Plan, partition, plan
from .session import Port, Session

Error.__module__ = "autopar"
__version__ = _native.version
__all__ = ["Error", "Plan", "Port", "Session", "device_names", "load_operators", "partition", "plan"]
