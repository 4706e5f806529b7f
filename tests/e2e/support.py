"""What the end-to-end tests share: starting autopar, sample models, and comparing tensors.

Nothing here uses autopar's own code: outputs are compared with ONNX Runtime's by NumPy.
"""

import ctypes
import ctypes.util
import json
import os
import re
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

AUTOPAR = os.environ["AUTOPAR"]
SOURCE = Path(os.environ["AUTOPAR_SOURCE"])
MODELS = SOURCE / "models" / "tiny"
TOLERANCE = 1e-4
# Without VNNI a processor adds products of bytes up in pairs of 16 bits, which saturate: autopar
# multiplies numbers there.
ADDS_BYTES_EXACTLY = "vnni" in Path("/proc/cpuinfo").read_text()
# All that the longest tests would try, in place of the part that they take in CI, always the same.
ALL_CASES = os.environ.get("AUTOPAR_ALL_CASES") == "1"
# On which searches are compared; the others of models/tiny are for operators that these lack.
PLANNED = sorted(
    f"{architecture}-{exporter}"
    for architecture in ("bert", "gpt2", "llama", "mlp", "vit")
    for exporter in ("dynamo", "torchscript")
)

# Launchers of several tests at once would make and remove one folder of the machine.
_LAUNCHERS_FOLDER = tempfile.TemporaryDirectory()
os.environ.setdefault("OMPI_MCA_orte_tmpdir_base", _LAUNCHERS_FOLDER.name)


def with_exact_sums(options):
    """Options of a session of ONNX Runtime that adds products of bytes up exactly without VNNI, too."""
    options.add_session_config_entry("session.x64quantprecision", "1")
    return options


def run(*arguments, expect=0):
    """Runs a command, checks its exit code, and returns the finished process."""
    command = [str(argument) for argument in arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != expect:
        raise AssertionError(
            f"{' '.join(command)}\nexit {done.returncode}, expected {expect}\n"
            f"{done.stdout}{done.stderr}"
        )
    return done


def autopar(*arguments, expect=0):
    return run(AUTOPAR, *arguments, expect=expect)


def mpirun(ranks, *arguments, expect=0):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return run("mpirun", *root, "--oversubscribe", "-np", ranks, AUTOPAR, *arguments, expect=expect)


def wait_until_it_catches(process, number):
    """Until a process has its own handler for a signal, which does not end it from then on."""
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(re.search(r"^SigCgt:\s*(\w+)", status, re.M)[1], 16)
        if caught >> (number - 1) & 1:
            return
        time.sleep(0.001)
    raise AssertionError("it ended before it was disturbed")


def waits_of(process):
    """The most voluntary context switches of a thread of the process, which a rank may be."""
    most = 0
    for status in Path(f"/proc/{process.pid}/task").glob("*/status"):
        try:
            found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status.read_text(), re.M)
        except (FileNotFoundError, ProcessLookupError):  # the thread has ended
            continue
        most = max(most, int(found[1]) if found else 0)
    return most


def relative_error(expected, actual):
    """The largest difference over the largest expected magnitude."""
    if expected.shape != actual.shape:
        raise AssertionError(f"shape {actual.shape}, expected {expected.shape}")
    scale = np.max(np.abs(expected.astype(np.float64)), initial=1e-30)
    return float(np.max(np.abs(expected.astype(np.float64) - actual), initial=0) / scale)


class Model:
    """A sample model with ONNX Runtime's input and output."""

    tolerance = TOLERANCE
    # Inputs whose value the graph's structure depends on: a bundle is for one.
    STRUCTURAL = ("use_cache_branch",)

    def __init__(self, name):
        self.folder = MODELS / name
        self.file = self.folder / "model.onnx"
        data = self.folder / "test_data_set_0"
        self.inputs = self._tensors(data, "input")
        self.outputs = self._tensors(data, "output")
        self.input_files = {
            tensor: path for path, (tensor, _) in self._read(data, "input").items()
        }

    @staticmethod
    def _read(data, kind):
        tensors = {}
        for path in sorted(data.glob(f"{kind}_*.pb")):
            proto = onnx.TensorProto.FromString(path.read_bytes())
            tensors[path] = (proto.name, numpy_helper.to_array(proto))
        return tensors

    def _tensors(self, data, kind):
        return dict(self._read(data, kind).values())

    def shape_options(self):
        options = []
        for name, tensor in self.inputs.items():
            if name not in self.STRUCTURAL:
                options += ["--shape", f"{name}={'x'.join(map(str, tensor.shape))}"]
        return options

    def constant_options(self):
        return self._file_options("--constant", structural=True)

    def input_options(self):
        return self._file_options("--input", structural=False)

    def _file_options(self, option, structural):
        options = []
        for name, path in self.input_files.items():
            if (name in self.STRUCTURAL) == structural:
                options += [option, f"{name}={path}"]
        return options

    def partition(self, out, ngpus, *more):
        autopar(
            "partition", self.file, *self.shape_options(), *self.constant_options(),
            "--ngpus", ngpus, "--out", out, *more,
        )  # fmt: skip
        return json.loads((out / "meta-info.json").read_text())

    def error_of(self, output_dir):
        """The largest relative error of NAME.npy files against ONNX Runtime."""
        worst = 0.0
        for name, expected in self.outputs.items():
            safe = "".join(c if c.isalnum() or c in ".-_" else "_" for c in name)
            worst = max(worst, relative_error(expected, np.load(output_dir / f"{safe}.npy")))
        return worst


def write_meta_info(bundle, meta):
    """Writes a bundle's meta-info.json with a digest of its own: XXH3 with zeros in its place."""
    xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash"))
    xxhash.XXH3_64bits.restype = ctypes.c_uint64
    xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    zeros = "0" * 16
    text = json.dumps({"digest": zeros, **{k: v for k, v in meta.items() if k != "digest"}})
    digest = xxhash.XXH3_64bits(text.encode(), len(text.encode()))
    (bundle / "meta-info.json").write_text(text.replace(zeros, f"{digest:016x}", 1))


class TemporaryFolderTest(unittest.TestCase):
    """A test with a folder of its own, `self.tmp`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tmp = Path(folder.name)
