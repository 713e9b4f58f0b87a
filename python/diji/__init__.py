"""Runs models on any device that diji has a plugin for, and lets ranks work together.

>>> model = diji.load("model.onnx")
>>> outputs = model.run({"x": array})
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _diji, collective, errors
from ._diji import __version__
from .collective import Communicator, Work
from .errors import (
    DataError,
    DeadlineError,
    DeviceError,
    Error,
    InputError,
    IoError,
    MalformedError,
    NoDeviceError,
    NotFoundError,
    OutOfMemoryError,
    UnsupportedError,
    UsageError,
)

__all__ = [
    "Communicator", "DataError", "DeadlineError", "Device", "DeviceError", "Error", "InputError", "IoError",
    "MalformedError", "Model", "NoDeviceError", "NotFoundError", "OutOfMemoryError", "TensorSpec",
    "UnsupportedError", "UsageError", "Work", "__version__", "collective", "devices", "errors", "load",
]  # fmt: skip


class TensorSpec(NamedTuple):
    """What an input takes or an output gives."""

    name: str
    dtype: str | None
    """As NumPy spells it: ``"float32"``, ``"bfloat16"``, ``"bool"``. None: the data decide, as for ``shape``."""
    shape: tuple[int | str, ...] | None
    """A size that is not fixed is its name or formula: ``("batch", 2048)``."""


class Device(NamedTuple):
    """A device that a model can be loaded for."""

    name: str
    """What ``load`` takes: ``"cpu:0"``."""
    model: str
    vendor: str
    memory_bytes: int
    """0: not known."""
    kernel_text: str
    """The language its kernels are generated in."""
    driver_version: str
    plugin: str


class Model:
    """A model, compiled for a device: what ``load`` returns. Several threads may run it at once."""

    def __init__(self, opened: _diji.Model, path: str) -> None:
        self._opened = opened
        self._path = path

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in its order."""
        return tuple(TensorSpec(*spec) for spec in self._opened.specs(False))

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in its order."""
        return tuple(TensorSpec(*spec) for spec in self._opened.specs(True))

    @property
    def coverage(self) -> str:
        """How its operators run: ``"95 operators: 84 generated, 11 folded, 0 native, 0 on the host"``."""
        return self._opened.coverage()

    @property
    def device(self) -> str:
        """The device it is compiled for: ``"cpu:0"``."""
        return self._opened.device()

    def run(self, *inputs: Any, output: str = "numpy") -> dict[str, Any]:
        """Runs the model and waits; other threads of Python go on meanwhile.

        `inputs` is one mapping from names to arrays, or an array for each input in the model's order. An array is
        a ``numpy.ndarray`` or anything in the host's memory with ``__dlpack__`` or the buffer protocol. It is only
        read, where it lies; one that is not row-major or not aligned is copied first. Dtypes are not converted.

        The outputs, by name, take over diji's memory without a copy. With ``output="dlpack"`` they are objects
        with ``__dlpack__`` for ``torch.from_dlpack`` and its like.

        Raises InputError for inputs that do not fit, DataError for values that kernels refuse, OutOfMemoryError.
        After an error the model can be run again.
        """
        if output not in ("numpy", "dlpack"):
            raise errors.UsageError(f'output={output!r} is neither "numpy" nor "dlpack"', "usage")
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            return self._opened.run(dict(inputs[0]), output == "dlpack")
        names = [spec.name for spec in self.inputs]
        if len(inputs) != len(names):
            sentence = f"{len(inputs)} arrays for {len(names)} inputs; the inputs are: {', '.join(names)}"
            raise errors.InputError(sentence, "mismatch")
        return self._opened.run(dict(zip(names, inputs)), output == "dlpack")

    def close(self) -> None:
        """Frees the model once no run uses it any more. A second call does nothing."""
        self._opened.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<diji.Model {self._path!r}>"


def load(
    path: str | os.PathLike[str],
    device: str | None = None,
    threads: int | None = None,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Any] | None = None,
    op_libraries: Sequence[str | os.PathLike[str]] = (),
    memory_limit_bytes: int | None = None,
    seed: int = 0,
) -> Model:
    """Reads a model file (ONNX, or the text form of a graph) and compiles it; kernels are cached on disk.

    device
        As ``devices()`` names it, without a number the first of its kind. None: ``DIJI_DEVICE``, else ``"cpu"``.
    threads
        None: all cores that this process may use. Models with the same number share their threads.
    dims, constants
        Of an ONNX model: sizes of its symbols and values of its inputs that are compiled in.
    op_libraries
        Shared objects with operators of one's own (include/diji/custom_op.h).
    memory_limit_bytes
        What the model's own pool of device memory may hold. None: no limit.
    seed
        Of the random numbers that the model draws (0 to 2**64 - 1): each run draws others, and the n-th run of any
        model loaded with this seed the same on every device.

    Raises NotFoundError, MalformedError, UnsupportedError, NoDeviceError, OutOfMemoryError, UsageError.
    """
    opened = _diji.load(
        os.fspath(path),
        device or "",
        threads or 0,
        dict(dims or {}),
        dict(constants or {}),
        [os.fspath(library) for library in op_libraries],
        memory_limit_bytes or 0,
        seed,
    )
    return Model(opened, os.fspath(path))


def devices() -> list[Device]:
    """The devices of this machine. Drivers are asked anew with each call."""
    return [Device(*device) for device in _diji.devices()]
