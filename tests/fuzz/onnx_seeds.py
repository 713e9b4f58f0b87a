#!/usr/bin/env python3
"""Writes the small models of ONNX's own node tests into a folder: every operator as a seed of fuzz_onnx."""

import pathlib
import sys
import warnings

from onnx.backend.test.case.node import collect_testcases

BYTES_MAX = 4096  # a mutation of a small file is more likely to be where something is decided


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, about the overflows these tests are for
        models = {case.name: case.model.SerializeToString() for case in collect_testcases(None)}
    small = {name: model for name, model in models.items() if len(model) <= BYTES_MAX}
    for name, model in small.items():
        (folder / f"{name}.onnx").write_bytes(model)
    print(f"{len(small)} seeds of {len(models)} models")


if __name__ == "__main__":
    main()
