"""The portable folder: unpacking it, finding CUDA's libraries for it, running what is in it."""

import json
import os
import re
import shutil
import site
import sysconfig
from pathlib import Path

from . import processes
from .processes import Failure

CUDA_LIBRARY = re.compile(rb"lib(?:cudart|cublasLt|nccl)\.so\.\d+")


def unpacked(portable, work):
    """The folder that holds bin/autopar, of a folder or a .tar.gz."""
    portable = Path(portable)
    if portable.is_file():
        shutil.unpack_archive(portable, work)
        [portable] = [file.parents[1] for file in Path(work).glob("*/bin/autopar")]
    if not (portable / "bin" / "autopar").is_file():
        raise SystemExit(f"{portable} has no bin/autopar: give the portable folder or its .tar.gz")
    return portable.resolve()


def needed_libraries(plugins):
    """The names under which plugins ask for CUDA's and NCCL's libraries: libcudart.so.13."""
    names = set()
    for plugin in plugins:
        names.update(name.decode() for name in CUDA_LIBRARY.findall(plugin.read_bytes()))
    return sorted(names)


def candidate_folders():
    """Where a toolkit or pip's packages keep libraries, the toolkit's first."""
    homes = [Path(os.environ[key]) for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    homes += [Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]
    folders = [home / "lib64" for home in homes]
    packages = {sysconfig.get_path("purelib"), site.getusersitepackages(), *site.getsitepackages()}
    for folder in sorted(packages):
        folders += sorted(Path(folder).glob("nvidia/*/lib"))
    return folders


def library_folders(names, folders):
    """The first of the folders that has each name."""
    found = []
    for name in names:
        for folder in folders:
            if (folder / name).exists():
                found.append(folder)
                break
    return list(dict.fromkeys(found))


class Program:
    """bin/autopar of a portable folder, and the programs beside it, on one device: "cuda" or "cpu".
    `plugins` is a folder of other plugins than those of the package: the emulated ones."""

    def __init__(self, folder, device, plugins=None):
        self.folder, self.device = folder, device
        self.file = folder / "bin" / "autopar"
        self.is_emulated = plugins is not None
        self.plugins = plugins or folder / "lib" / "autopar"
        needed = needed_libraries(sorted(self.plugins.glob("*.so")))
        self.library_folders = library_folders(needed, candidate_folders())
        self.environment = dict(os.environ)
        path = [*map(str, self.library_folders), os.environ.get("LD_LIBRARY_PATH", "")]
        self.environment["LD_LIBRARY_PATH"] = ":".join(filter(None, path))
        if plugins:
            self.environment["AUTOPAR_PLUGIN_DIR"] = str(plugins)
            self.environment["AUTOPAR_EMULATED_GPUS"] = "1"

    def record_kernels(self, file):
        """Appends the names of kernels that are launched from now on to the file."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self.environment["AUTOPAR_LAUNCHED_KERNELS"] = str(file)

    def on_device(self, collectives=None):
        """Options of `run`. Collectives are chosen where there is a choice: on GPUs."""
        options = ["--device", self.device]
        if self.device == "cuda" and collectives:
            options += ["--collectives", collectives]
        return options

    def command(self, arguments, program=None):
        return [self.file.with_name(program) if program else self.file, *arguments]

    def start(self, *arguments, program=None, environment=None):
        return processes.Process(self.command(arguments, program), environment or self.environment)

    def finish(self, *arguments, timeout, under=(), program=None, environment=None):
        """Runs it, perhaps under another program, whatever it ends with."""
        return processes.run([*under, *self.command(arguments, program)],
                             environment or self.environment, timeout)

    def run(self, *arguments, timeout):
        """Runs it. Throws Failure with what it said if it does not end with 0."""
        done = self.finish(*arguments, timeout=timeout)
        if done.code != 0:
            raise Failure(f"exit {done.code}: {done.last_line()} ({done.text()})")
        return done

    def run_json(self, *arguments, timeout):
        """What it measured, and how it was called."""
        done = self.run(*arguments, "--json", timeout=timeout)
        return done.json(), done.text()

    def partition(self, model, out, ranks, shapes, timeout, *more):
        """Writes a bundle; its meta-info."""
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        options = [word for name, shape in shapes.items()
                   for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]
        self.run("partition", model, *options, "--ngpus", ranks, "--out", out, "--time-limit", 10,
                 *more, timeout=timeout)
        return json.loads((Path(out) / "meta-info.json").read_text())
