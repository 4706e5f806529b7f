"""What commands that write leave at a place: nothing, the old contents or the new, but no mixture."""

import json
import shutil
from pathlib import Path

from support import MODELS, autopar

MODEL = MODELS / "mlp-dynamo" / "model.onnx"
SECONDS = ("seconds", "time")


def without_times(value):
    """JSON without what differs from run to run."""
    if isinstance(value, dict):
        return {
            name: without_times(inner)
            for name, inner in value.items()
            if not any(part in name for part in SECONDS)
        }
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def contents(place):
    """All that makes one bundle, or one file of JSON, equal to another of the same command; None
    where it is damaged."""
    if place.is_dir():
        files = {file.name: contents(file) for file in place.iterdir()}
        return None if None in files.values() else files
    data = place.read_bytes()
    if place.suffix != ".json":
        # Each bundle has a secret of its own.
        return data if place.name != "secret" else len(data)
    try:
        parsed = without_times(json.loads(data))
    except ValueError:
        return None
    if place.name == "meta-info.json":
        # Digests of plan.json, which tells times, and of meta-info.json itself.
        parsed.pop("digest", None)
        parsed.pop("files", None)
    return parsed


def describe(place, known):
    """Which of the known contents lie at a place: their name, "nothing" or "damaged"."""
    if not place.exists():
        return "nothing"
    here = contents(place)
    for name, expected in known.items():
        if here == expected:
            return name
    return "damaged"


class Places:
    """A folder in which a command is run again and again, each time from the same state."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.work = self.folder / "work"
        self.start = self.folder / "start"
        self.start.mkdir(parents=True)
        shutil.copytree(MODEL.parent, self.start / "model")
        self.model = self.work / "model" / MODEL.name

    def reset(self):
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.start, self.work)

    def names(self):
        return {path.name for path in self.work.iterdir()}


def partition(model, out, ngpus, *more):
    """A partition's arguments."""
    return ["partition", model, "--ngpus", ngpus, "--out", out, *more]


def bundle_of(folder, ngpus):
    """The contents of a bundle for so many devices, and where it lies."""
    out = folder / f"reference{ngpus}"
    autopar(*partition(MODEL, out, ngpus))
    return contents(out), out
