"""What the page says of the machine."""

import datetime
import platform
import shutil
import subprocess

from .context import SOURCE

GPU_FIELDS = ("name", "driver_version", "memory.total", "clocks.sm", "clocks.mem", "clocks.max.sm",
              "clocks.max.mem", "power.limit")


def output_of(*command):
    """First line of what a command says, or an empty string where it cannot run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.strip().splitlines() if done.returncode == 0 else []
    return lines[0] if lines else ""


def gpu_text(line):
    """Text of nvidia-smi's line of GPU_FIELDS."""
    if not line:
        return "no GPU"
    of = dict(zip(GPU_FIELDS, (word.strip() for word in line.split(","))))
    return (f"{of['name']}, {of['memory.total']}, driver {of['driver_version']}, clocks at the start "
            f"{of['clocks.sm']} and {of['clocks.mem']} (memory), at most {of['clocks.max.sm']} and "
            f"{of['clocks.max.mem']}, power limit {of['power.limit']}")


def python_packages():
    from importlib import metadata

    versions = []
    for name in ("torch", "transformers", "onnx", "onnxruntime"):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    return ", ".join(versions)


def cuda_version():
    line = output_of("bash", "-c", "PATH=$PATH:/usr/local/cuda/bin nvcc --version | grep release")
    return line.strip() or "no nvcc"


def print_free_space(folder):
    """Before anything is written; the check needs 35 GB at most."""
    disk = shutil.disk_usage(folder)
    memory = output_of("bash", "-c", "grep MemAvailable /proc/meminfo")
    print(f"{disk.free / 1e9:.1f} GB of {disk.total / 1e9:.1f} GB free at {folder}; {memory}",
          flush=True)


def commit_of(program):
    """What the package was built of; a working copy without its history does not tell."""
    of_package = program.folder / "COMMIT"
    if of_package.exists():
        return of_package.read_text().strip()
    return output_of("git", "-C", str(SOURCE), "rev-parse", "HEAD") or "not known"


def head(program, arguments):
    gpu = output_of("nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv,noheader")
    now = datetime.datetime.now(datetime.timezone.utc)
    libraries = ", ".join(map(str, program.library_folders)) or "not found"
    return "\n".join([
        "# Results on a GPU",
        "",
        f"`scripts/gpu_check {' '.join(arguments)}`, {now:%Y-%m-%d %H:%M} UTC, "
        f"commit {commit_of(program)}, autopar {output_of(str(program.file), '--version')}.",
        "",
        f"- GPU: {gpu_text(gpu)}",
        f"- CUDA: {cuda_version()}; libraries from {libraries}",
        f"- {python_packages()}, Python {platform.python_version()}, {platform.platform()}",
        "",
        "An error is relative: the largest difference over the largest magnitude. Times are medians.",
    ])
