"""The h200 preset of lib/cost, which is of a data sheet, beside what was measured: figures, predicted
times of models, and the preset that this run would make."""

import json
import re

from .context import SOURCE
from .processes import Failure, Skip

TITLE = "The cost model"
WITHIN = 0.25
PRESETS = SOURCE / "lib" / "cost" / "device_presets.cpp"
NUMBER = r"([\d.]+)"
SCALES = {"tera": 1e12, "giga": 1e9}
OF_SHEET = "of the data sheet"
CALIBRATION_SECONDS = 150  # where so many are left it is not the quick one


def preset_figures(text):
    """The h200 preset's figures in device_presets.cpp, by the names that device files use."""
    table = re.search(r"hopper\{(.*?)\n  \};", text, re.DOTALL).group(1)
    rates = {name: float(number) * SCALES[scale] for name, number, scale in re.findall(
        r"DataType::(\w+), " + NUMBER + r" \* (tera|giga)", table)}
    block = text[text.index('.name = "h200"'):]
    number, scale = re.search(
        r"memory_bytes_per_second = " + NUMBER + r" \* (tera|giga)", block).groups()
    launch, latency = (constant(text, word) for word in re.search(
        r"launch_seconds = (\S+),.*?links = \{\{(\S+),", block, re.DOTALL).groups())
    link, link_scale = re.search(r"links = \{\{\S+, " + NUMBER + r" \* (tera|giga)", block).groups()
    return {"flops_per_second": rates, "memory_bytes_per_second": float(number) * SCALES[scale],
            "launch_seconds": launch,
            "links": [{"latency_seconds": latency,
                       "bytes_per_second": float(link) * SCALES[link_scale]}]}


def constant(text, word):
    """A number, or a constant of the file."""
    return float(word if word[0].isdigit() else re.search(word + r" = ([\d.e-]+);", text).group(1))


def measured_device(peaks, preset):
    """The measurements as a file that `--device` reads. One GPU has no link to measure."""
    return {
        "name": "h200", "source": "scripts/gpu_check; the link is the data sheet's",
        "memory_bytes": peaks["memory_bytes"], "flops_per_second": peaks["flops_per_second"],
        "memory_bytes_per_second": peaks["copy_bytes_per_second"],
        "launch_seconds": peaks["launch_seconds"], "links": preset["links"], "runs_on": "cuda",
    }


def preset_lines(device, preset):
    """What device_presets.cpp would have: measured figures, and the data sheet's of types that were
    not measured."""
    rates = {**preset["flops_per_second"], **device["flops_per_second"]}
    table = ",\n".join(f"                            {{DataType::{name}, {rate / 1e12:.1f} * tera}}"
                       for name, rate in rates.items()).strip()
    sheet = ", ".join(sorted(set(rates) - set(device["flops_per_second"])))
    link = device["links"][0]
    return "\n".join([
        "```cpp", '{.name = "h200",',
        f' .source = "measured by scripts/gpu_check; NVIDIA\'s data sheet for {sheet} and the link",',
        f" .flops_per_second = {{{table}}},",
        f" .memory_bytes_per_second = {device['memory_bytes_per_second'] / 1e9:.0f} * giga,",
        f" .launch_seconds = {device['launch_seconds']:.2g},", ' .runs_on = "cuda",',
        f" .memory_bytes = {device['memory_bytes']},",
        f" .links = {{{{{link['latency_seconds']:g}, {link['bytes_per_second'] / 1e9:g} * giga}}}}}}",
        "```"])


def tell_figures(report, preset, device):
    for name, rate in device["flops_per_second"].items():
        has = preset["flops_per_second"].get(name, 0)
        report.tell(f"{name}", f"{rate / 1e12:.1f} TFLOP/s; the preset has {has / 1e12:.1f}, {OF_SHEET}")
    report.tell("memory", f"{device['memory_bytes_per_second'] / 1e9:.0f} GB/s; the preset has "
                          f"{preset['memory_bytes_per_second'] / 1e9:.0f}, {OF_SHEET}")
    report.tell("a launch", f"{device['launch_seconds'] * 1e6:.2f} us; the preset has "
                            f"{preset['launch_seconds'] * 1e6:.2f}, an estimate")


def calibrated(context, preset):
    """The file that `autopar calibrate` writes here, with the preset's link; None where it failed."""
    file = context.report.file.with_name("calibrated.json")
    file.unlink(missing_ok=True)
    is_quick = context.self_test or context.is_late(CALIBRATION_SECONDS)
    try:
        done = context.program.run(
            "calibrate", "--ranks", 1, "--device", context.program.device, "--name", "calibrated",
            "--out", file, *["--quick"] * is_quick, timeout=context.timeout(300))
    except Failure as failure:
        context.report.fail("autopar calibrate", failure)
        return None
    device = json.loads(file.read_text())
    device["links"] = device.get("links") or preset["links"]
    file.write_text(json.dumps(device, indent=2) + "\n")
    context.report.tell("autopar calibrate", f"{file.name}{', quick' * is_quick}; the link is the "
                        "preset's, of the data sheet", done.text())
    return file


def predicted(context, model, device_file):
    """Seconds of a run on one GPU, by the figures of a device file."""
    shapes = [word for name, shape in model["shapes"].items()
              for word in ("--shape", f"{name}={'x'.join(map(str, shape))}")]
    plan, command = context.program.run_json(
        "plan", model["file"], *shapes, "--ngpus", 1, "--device", device_file, "--time-limit", 10,
        timeout=context.timeout())
    return plan["summary"]["cost_seconds"], command


def compared(seconds, measured):
    return f"{seconds * 1e3:.3f} ms ({seconds / measured - 1:+.0%})"


def check(context):
    preset = preset_figures(PRESETS.read_text())
    files = {}
    if peaks := context.figures.get("peaks"):
        device = measured_device(peaks, preset)
        tell_figures(context.report, preset, device)
        files["the figures above"] = context.report.file.with_name("h200.json")
        files["the figures above"].write_text(json.dumps(device, indent=2) + "\n")
        context.report.notes["The preset that this run would make"] = preset_lines(device, preset)
    if file := calibrated(context, preset):
        files["calibration"] = file
    models = context.figures.get("models")
    if not models:
        raise Skip("no model was timed")
    for name, model in models.items():
        measured = model["measured"]
        told = [f"{measured * 1e3:.3f} ms", f"predicted {compared(model['predicted'], measured)}"]
        command = ""
        for what, device_file in files.items():
            seconds, command = predicted(context, model, device_file)
            told.append(f"by {what} {compared(seconds, measured)}")
        context.report.judge_time(
            name, f"the preset h200's prediction, {OF_SHEET}, within {WITHIN:.0%}", "; ".join(told),
            abs(model["predicted"] / measured - 1) <= WITHIN, command)
