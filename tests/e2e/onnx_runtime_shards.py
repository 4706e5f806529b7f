"""Running a bundle's shards in stock ONNX Runtime, by the lines that docs/onnx-runtime.md gives."""

import functools
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import onnxruntime

from support import ADDS_BYTES_EXACTLY, AUTOPAR, SOURCE, with_exact_sums

# Not there where no header of ONNX Runtime was found for the build.
LIBRARY = Path(AUTOPAR).parents[1] / "lib" / "autopar" / "libautopar_ort.so"
IS_BUILT = LIBRARY.exists()
LIBRARY = str(LIBRARY)
Level = onnxruntime.GraphOptimizationLevel
OPTIMIZATION = Level.ORT_ENABLE_ALL
LINES = "".join(
    re.findall(r"^```python\n(.*?)^```$", (SOURCE / "docs" / "onnx-runtime.md").read_text(), re.M | re.S)
)
# Whose shards are not for all of its optimisations, as docs/onnx-runtime.md tells.
LEVELS = {
    "resnet50-qdq": Level.ORT_DISABLE_ALL,  # rounds
    "resnet50-dynamo": Level.ORT_ENABLE_EXTENDED,  # shares that are empty
    "resnet50-torchscript": Level.ORT_ENABLE_EXTENDED,
}


if not ADDS_BYTES_EXACTLY:
    LEVELS["bert-qdq"] = Level.ORT_DISABLE_ALL  # or products of bytes become an operator that saturates


def level_of(model):
    return LEVELS.get(model, Level.ORT_ENABLE_ALL)


_USED = (functools, json, numpy, onnxruntime, Path, ThreadPoolExecutor)  # by the lines
onnxruntime.set_default_logger_severity(4)  # errors are exceptions; warnings are of other things
exec(LINES)  # noqa: S102
_options_of_the_lines = options_of  # noqa: F821


def options_of(bundle, **entries):
    return with_exact_sums(_options_of_the_lines(bundle, **entries))
