#!/usr/bin/env python3
"""Makes the sample models: real architectures, real exporters, random weights from a fixed seed.

    export.py [NAME...]                 the tiny ones, or those whose names begin so, into models/tiny
    export.py --full --out DIR NAME...  in full size
    export.py [--full] --list           their names

Each model is a folder in the form of ONNX's own tests: model.onnx and test_data_set_0 with inputs
and ONNX Runtime's outputs, which are checked against PyTorch. Weights of the tiny ones are drawn so
wide that attention attends, and no bias is zero, so that a wrong split shows in the output.
"""

import argparse
import shutil
from pathlib import Path

from zoo import making, table
from zoo.linear import make_large_mlp

HERE = Path(__file__).resolve().parent


def make(name, entry, out, **how):
    """The folder `out` appears, or is replaced, whole."""
    print(f"{name} into {out}", flush=True)
    new = out.with_name(f".{out.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    making.make(entry, new, **how)
    shutil.rmtree(out, ignore_errors=True)
    new.rename(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="what names of folders begin with; all, if none is given")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--out", type=Path, help="folder for the models (the tiny ones: models/tiny)")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    entries = table.full() if options.full else table.tiny()
    if options.list:
        print(*entries, *(["mlp-8gb"] if options.full else []), sep="\n")
        return
    if options.full and not (options.out and options.names):
        parser.error("--full needs --out and names")
    how = dict(tokens=128, embed=False) if options.full else dict(tokens=16, embed=True)
    out = options.out or HERE / "tiny"
    for name, entry in entries.items():
        if not options.names or name.startswith(tuple(options.names)):
            make(name, entry, out / name, **how)
    if options.full and "mlp-8gb" in options.names:
        make_large_mlp(out / "mlp-8gb")


if __name__ == "__main__":
    main()
