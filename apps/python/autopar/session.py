"""A bundle that runs."""

import os
from collections.abc import Mapping

from . import _native, arrays
from .options import fill, given


class Port:
    """An input or an output of the model."""

    def __init__(self, name, type_name, shape):
        self.name = name
        self.type = arrays.onnx_runtime_type(type_name)
        """As ONNX Runtime writes it: "tensor(float)"."""
        self.shape = shape
        """Of the bundle's first profile; None where only a run tells."""
        self._type_name = type_name

    @property
    def dtype(self):
        """NumPy's type, or that of the package ml_dtypes."""
        return arrays.dtype_of(self._type_name, f"'{self.name}'")

    def __repr__(self):
        return f"Port(name={self.name!r}, type={self.type!r}, shape={self.shape})"


class Session:
    """A bundle's ranks in this process, a thread each; or one rank of several processes, under
    mpirun or with `rank` and `rendezvous`: these make the same sessions and runs in the same order.

    Weights and memory stay between runs. Any thread may run it; one does at a time.
    """

    def __init__(self, folder, *, device=None, gpu=None, collectives=None, allow_tf32=None,
                 threads=None, rank=None, rendezvous=None, secret_file=None, tls=None, timeout=None,
                 shape_cache=None, limits=None):  # fmt: skip
        """Options are those of `autopar run`; `shape_cache` is in bytes."""
        here = locals()
        on = fill(_native.DeviceChoice(),
                  given(here, "device", "gpu", "collectives", "allow_tf32", "threads"))
        launch = fill(_native.LaunchChoice(),
                      given(here, "rank", "rendezvous", "secret_file", "tls", "timeout"))
        self._session = _native.Session(os.fspath(folder), on, launch, limits or "", shape_cache)

    def get_inputs(self):
        return [Port(*port) for port in self._session.inputs()]

    def get_outputs(self):
        return [Port(*port) for port in self._session.outputs()]

    @property
    def num_ranks(self):
        return self._session.num_ranks()

    @property
    def has_first_rank(self):
        """Whether rank 0 is in this process: the one that gets the outputs."""
        return self._session.has_first_rank()

    def run(self, output_names, input_feed=None):
        """run({name: array}) returns {name: array}, of all outputs; run(names, {name: array})
        returns a list of the named ones, or of all for None, as ONNX Runtime does.

        Inputs may have any shape that the model takes. They are not copied where they lie in row-major
        order; outputs are new memory. Processes without rank 0 get no outputs.
        """
        if input_feed is None:
            if not isinstance(output_names, Mapping):
                raise TypeError("run() takes {name: array}, or names of outputs and {name: array}")
            return self._run([], output_names)
        names = [port.name for port in self.get_outputs()]
        wanted = list(output_names or [])
        unknown = sorted(set(wanted) - set(names))
        if unknown:
            raise _native.Error(f"there is no output '{unknown[0]}'; there are {', '.join(names)}")
        outputs = self._run(wanted, input_feed)
        return [outputs[name] for name in wanted or names] if outputs else []

    def _run(self, wanted, feed):
        types = {port.name: port.dtype for port in self.get_outputs()
                 if not wanted or port.name in wanted}  # fmt: skip
        tensors = [arrays.to_tensor(name, value) for name, value in feed.items()]
        made = {name: (shape, data) for name, shape, data in self._session.run(tensors, wanted)}
        return {name: arrays.to_array(dtype, *made[name]) for name, dtype in types.items()
                if name in made}  # fmt: skip
