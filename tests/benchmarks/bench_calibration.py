"""How well predictions on a calibrated device agree with runs: calibrates, plans and runs.

Usage: bench_calibration.py MODEL_DIR... [--shapes 1x128 4x64] [--rounds 3] [--repeat 5]
                            [--device-file FILE]
A MODEL_DIR is one that models/export.py --full makes, or one of models/tiny. Each model is planned
for the shapes of its test data or, where --shapes are given and its inputs are matrices, for those,
and run on random inputs. Ranks have one thread each. Each number of ranks is calibrated by itself,
as the README says: cores that are at work together are slower. With --device-file that device is
used for all, and calibrated, with two ranks, only if the file is not there. A ratio above 1 means
that the prediction is too long.
"""

import argparse
import json
import tempfile
from pathlib import Path

import onnx
from onnx import numpy_helper

from measure import autopar, machine, median, run_json

# What is asked of a prediction: within so much of what is measured.
TOLERANCE = 0.2

# Each: what it is called, --ngpus, how many times the batch, and the other options of partition.
CONFIGURATIONS = [
    ("one rank", 1, 1, []),
    ("two ranks, tensor parallel", 2, 1, ["--memory", "fair"]),
    ("two stages, 8 microbatches", 2, 8, ["--stages", 2, "--microbatches", 8]),
]


def calibrate(file, ranks=2):
    autopar("calibrate", "--ranks", ranks, "--threads", 1, "--device", "cpu", "--out", file)


def shapes_of_data(folder):
    shapes = {}
    for path in sorted((folder / "test_data_set_0").glob("input_*.pb")):
        proto = onnx.TensorProto.FromString(path.read_bytes())
        shapes[proto.name] = "x".join(map(str, numpy_helper.to_array(proto).shape))
    return shapes


def cases(folder, wanted):
    """The shapes of all inputs, by what the table calls them."""
    own = shapes_of_data(folder)
    if not wanted or any(shape.count("x") != 1 for shape in own.values()):
        return [("/".join(dict.fromkeys(own.values())), own)]
    return [(shape, dict.fromkeys(own, shape)) for shape in wanted]


def shape_options(shapes, times):
    options = []
    for name, shape in shapes.items():
        batch, *rest = shape.split("x")
        options += ["--shape", f"{name}={'x'.join([str(int(batch) * times), *rest])}"]
    return options


def bench(folder, shapes, devices, rounds, repeat):
    """Predicted and measured seconds by configuration; rounds alternate between them."""
    with tempfile.TemporaryDirectory(dir=folder) as tmp:
        predicted, measured = [], []
        for number, (_, ngpus, times, more) in enumerate(CONFIGURATIONS):
            bundle = Path(tmp) / str(number)
            autopar("partition", folder / "model.onnx", *shape_options(shapes, times), "--ngpus", ngpus, *more,
                    "--device", devices[ngpus], "--time-limit", 20, "--out", bundle)
            meta = json.loads((bundle / "meta-info.json").read_text())
            predicted.append(meta["plan"]["cost_seconds"])
            measured.append([])
        for _ in range(rounds):
            for number, seconds in enumerate(measured):
                run = run_json("run", "--dir", Path(tmp) / str(number), "--random-inputs", 1,
                               "--repeat", repeat, "--threads", 1, "--device", "cpu", "--json")
                seconds.append(run["seconds"])
    return [(p, median(seconds)) for p, seconds in zip(predicted, measured)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--shapes", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--device-file", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        devices = {}
        for ranks in {ngpus for _, ngpus, *_ in CONFIGURATIONS}:
            devices[ranks] = options.device_file or Path(tmp) / f"device{ranks}.json"
            if not devices[ranks].exists():
                calibrate(devices[ranks], 2 if options.device_file else ranks)
        print(f"{machine()}; one thread a rank; {json.loads(devices[2].read_text())['source']}\n")
        print("| model | input | ranks | predicted, ms | measured, ms | predicted / measured "
              f"| within {TOLERANCE:.0%} |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for folder in options.models:
            for shape, shapes in cases(folder, options.shapes):
                results = bench(folder, shapes, devices, options.rounds, options.repeat)
                for (name, *_), (predicted, measured) in zip(CONFIGURATIONS, results):
                    ratio = predicted / measured
                    is_near = abs(ratio - 1) <= TOLERANCE
                    print(f"| {folder.name} | {shape} | {name} | {predicted * 1e3:.3f} "
                          f"| {measured * 1e3:.3f} | {ratio:.2f} | {'yes' if is_near else 'no'} |",
                          flush=True)


if __name__ == "__main__":
    main()
