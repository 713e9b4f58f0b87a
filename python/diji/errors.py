"""What can go wrong, as exceptions. Each carries the fields of diji's errors; what does not apply is None."""

from __future__ import annotations


class Error(Exception):
    """A job that diji could not do. Its text is the sentence for people, the fields are for programs."""

    def __init__(self, message: str, code: str = "failed", **fields: object) -> None:
        super().__init__(message)
        self.code = code
        """One of the names in ``CLASSES``, as in the command's JSON."""
        self.message = message
        self.file: str | None = None
        """The file the error is in."""
        self.offset: int | None = None
        """Byte offset in that file."""
        self.op: str | None = None
        """Operator or node."""
        self.dtype: str | None = None
        """Dtype found."""
        self.shape: str | None = None
        """Shape found."""
        self.bytes: int | None = None
        """Size asked for, of OutOfMemoryError."""
        self.pool: str | None = None
        """Memory pool and its state, of OutOfMemoryError."""
        self.rank: int | None = None
        """The rank to blame, of errors between ranks."""
        self.host: str | None = None
        """Its host."""
        self.pid: int | None = None
        """Its process."""
        self.sequence: int | None = None
        """Number of the call."""
        self.elapsed_s: float | None = None
        """Seconds since the call began to wait."""
        self.missing: list[int] | None = None
        """Ranks that did not come."""
        self.peer_args: str | None = None
        """What the other side called."""
        self.__dict__.update(fields)

    def __str__(self) -> str:
        return self.message


class UsageError(Error, ValueError):
    """A wrong option, name or value given by the caller; also a model that is closed."""


class NotFoundError(Error, FileNotFoundError):
    """A file that is not there."""


class MalformedError(Error, ValueError):
    """A file that is cut off, absurd or contradicts itself."""


class UnsupportedError(Error, NotImplementedError):
    """Well formed, but diji cannot do it (yet)."""


class InputError(Error, ValueError):
    """An input whose name, dtype, rank or size does not fit the model, or that is no array."""


class DataError(Error, ValueError):
    """A value in the data is out of range (an index, a divisor), found by a kernel in the run."""


class IoError(Error, OSError):
    """Reading or writing failed."""


class DeviceError(Error, RuntimeError):
    """A device or its compiler reported a failure."""


class NoDeviceError(DeviceError):
    """No such device, or its plugin or driver does not fit."""


class OutOfMemoryError(Error, MemoryError):
    """A pool's limit or the machine's memory is reached. The model can be run again."""


class DeadlineError(Error, TimeoutError):
    """A deadline passed, a peer was lost, or ranks did different things; `code` says which."""


CLASSES: dict[str, type[Error]] = {
    "failed": Error,
    "usage": UsageError,
    "not_found": NotFoundError,
    "malformed": MalformedError,
    "unsupported": UnsupportedError,
    "mismatch": InputError,
    "data": DataError,
    "io": IoError,
    "no_device": NoDeviceError,
    "out_of_memory": OutOfMemoryError,
    "device": DeviceError,
    "deadline": DeadlineError,
    "peer_lost": DeadlineError,
    "call_mismatch": DeadlineError,
    "corrupted": DeadlineError,
    "aborted": DeadlineError,
}


def make(code: str, message: str, *fields: object) -> Error:
    """The exception for an error of C++, whose fields come in the order of base/error.h."""
    names = ("file", "offset", "op", "dtype", "shape", "bytes", "pool")
    names += ("rank", "host", "pid", "sequence", "elapsed_s", "missing", "peer_args")
    return CLASSES[code](message, code, **dict(zip(names, fields)))
