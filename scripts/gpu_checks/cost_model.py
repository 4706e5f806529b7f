"""The h200 preset of lib/cost beside what was measured, and predicted times of models beside theirs."""

import json
import re

from .context import SOURCE
from .processes import Skip

TITLE = "The cost model"
WITHIN = 0.25
PRESETS = SOURCE / "lib" / "cost" / "device_presets.cpp"
NUMBER = r"([\d.]+)"
SCALES = {"tera": 1e12, "giga": 1e9}


def preset_figures(text):
    """Of the h200 preset in device_presets.cpp: figures by the names that device files use."""
    table = re.search(r"hopper\{(.*?)\n  \};", text, re.DOTALL).group(1)
    rates = {name: float(number) * SCALES[scale] for name, number, scale in re.findall(
        r"DataType::(\w+), " + NUMBER + r" \* (tera|giga)", table)}
    block = text[text.index('.name = "h200"'):]
    number, scale = re.search(
        r"memory_bytes_per_second = " + NUMBER + r" \* (tera|giga)", block).groups()
    launch = re.search(r"launch_seconds = (\w+)", block).group(1)
    if not launch[0].isdigit():  # a constant of the file
        launch = re.search(launch + r" = ([\d.e-]+);", text).group(1)
    return {"flops_per_second": rates, "memory_bytes_per_second": float(number) * SCALES[scale],
            "launch_seconds": float(launch)}


def measured_device(peaks):
    """The measurements as a file that `--device` reads."""
    return {
        "name": "measured", "source": "scripts/gpu_check", "memory_bytes": peaks["memory_bytes"],
        "flops_per_second": peaks["flops_per_second"],
        "memory_bytes_per_second": peaks["copy_bytes_per_second"],
        "launch_seconds": peaks["launch_seconds"],
        "links": [{"latency_seconds": 3e-6, "bytes_per_second": 4.5e11}],
    }


def tell_figures(report, preset, device):
    for name, rate in device["flops_per_second"].items():
        has = preset["flops_per_second"].get(name, 0)
        report.tell(f"{name}", f"{rate / 1e12:.1f} TFLOP/s; the preset has {has / 1e12:.1f}")
    report.tell("memory", f"{device['memory_bytes_per_second'] / 1e9:.0f} GB/s; the preset has "
                          f"{preset['memory_bytes_per_second'] / 1e9:.0f}")
    report.tell("a launch", f"{device['launch_seconds'] * 1e6:.2f} us; the preset has "
                            f"{preset['launch_seconds'] * 1e6:.2f}")


def predicted(context, model, device_file):
    """Seconds of a run on one GPU, by the figures of a device file."""
    shapes = [word for name, shape in model["shapes"].items()
              for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]
    plan, command = context.program.run_json(
        "plan", model["file"], *shapes, "--ngpus", 1, "--device", device_file,
        timeout=context.timeout())
    return plan["summary"]["cost_seconds"], command


def check(context):
    models, peaks = context.figures.get("models"), context.figures.get("peaks")
    if not models:
        raise Skip("no model was timed")
    device_file = "h200"
    if peaks:
        device = measured_device(peaks)
        tell_figures(context.report, preset_figures(PRESETS.read_text()), device)
        device_file = context.report.file.with_suffix(".device.json")
        device_file.write_text(json.dumps(device, indent=2) + "\n")
    for name, model in models.items():
        measured = model["measured"]
        by_figures, command = predicted(context, model, device_file)
        context.report.judge(
            name, f"the preset h200's prediction within {WITHIN:.0%}",
            f"{measured * 1e3:.3f} ms; predicted {model['predicted'] * 1e3:.3f} ms "
            f"({model['predicted'] / measured - 1:+.0%}), by the figures above "
            f"{by_figures * 1e3:.3f} ms ({by_figures / measured - 1:+.0%})",
            abs(model["predicted"] / measured - 1) <= WITHIN, command)
