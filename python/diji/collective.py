"""Ranks that work together on arrays in the host's memory.

>>> with diji.Communicator() as comm:  # of `diji launch`, srun, mpirun or torchrun
...     comm.all_reduce(gradients, "avg", out=gradients)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from . import _diji, errors

REDUCTIONS = ("sum", "avg", "prod", "min", "max", "premul-sum", "band", "bor", "bxor", "land", "lor", "lxor")


def _microseconds(seconds: float | None) -> int:
    if seconds is None:
        return -1
    if not seconds >= 0:
        raise _usage(f"a time of {seconds} seconds")
    return round(min(seconds, 1e6) * 1e6)  # 11 days are for ever


def _usage(sentence: str) -> errors.UsageError:
    return errors.UsageError(sentence, "usage")


def _shape(array: Any) -> tuple[int, ...]:
    """Sizes of an array, or of anything that can be seen as one."""
    shape = getattr(array, "shape", None)
    if shape is not None:
        return tuple(shape)
    try:
        return memoryview(array).shape
    except TypeError:
        raise errors.InputError(f"a {type(array).__name__} is no array", "mismatch") from None


def _size(array: Any) -> int:
    count = 1
    for size in _shape(array):
        count *= size
    return count


def _like(array: Any, shape: tuple[int, ...]) -> numpy.ndarray:
    """A new array for a result: of the input's dtype."""
    if isinstance(array, numpy.ndarray):
        return numpy.empty(shape, array.dtype)
    name = str(getattr(array, "dtype", None) or memoryview(array).format).rpartition(".")[2]
    if name == "bfloat16":
        import ml_dtypes  # NumPy has it from there

        return numpy.empty(shape, ml_dtypes.bfloat16)
    return numpy.empty(shape, name)


class Work:
    """A call that was handed over with ``wait=False``: the communicator makes it in its turn.

    Its arrays are borrowed until it is done; they need not be kept.
    """

    def __init__(self, work: _diji.Work, result: Any) -> None:
        self._work = work
        self._result = result

    @property
    def done(self) -> bool:
        """Over, with or without success."""
        return self._work.done()

    def wait(self, timeout: float | None = None) -> Any:
        """What the call returns, once it is over. After `timeout` seconds raises DeadlineError; the call goes on."""
        self._work.wait(_microseconds(timeout))
        return self._result


class Communicator:
    """A group of ranks. All make the same calls in the same order; each returns when this rank's part is done.

    Arrays are NumPy's or anything in the host's memory with ``__dlpack__`` or the buffer protocol. Results are new
    NumPy arrays, or `out`, which is row-major and may be the input itself (in place). All collective methods take:

    timeout
        Seconds after which a call that waits ends with DeadlineError. None: the communicator's.
    wait
        False: the call is handed over, and a Work comes back at once.

    Raises UsageError for calls that are wrong, and DeadlineError, with ``rank``, ``host``, ``pid`` and ``code``, where
    a rank died, was late, called something else or gave up; then only ``shrink``, ``abort`` and ``close`` are left.
    One thread at a time may be in a call; ``dup`` gives another thread a communicator of its own.
    """

    def __init__(self, timeout: float | None = None, warn_after: float | None = None) -> None:
        """Meets the ranks of this process's job, of which a launcher left word in the environment; else a world of
        one. `timeout` and `warn_after` in seconds; None: as the environment says."""
        self._comm = _diji.communicator(_microseconds(timeout), _microseconds(warn_after))

    @classmethod
    def _of(cls, comm: _diji.Communicator) -> Communicator:
        made = cls.__new__(cls)
        made._comm = comm
        return made

    @property
    def rank(self) -> int:
        """This process's number in the group."""
        return self._comm.rank()

    @property
    def world(self) -> int:
        """How many ranks there are."""
        return self._comm.world()

    @property
    def transports(self) -> str:
        """How they talk: ``"shm"``, ``"tcp"``, ``"shm+tcp"``."""
        return self._comm.transports()

    def _run(
        self, operation: str, source: Any, out: Any, count: int, result: Any, *, op: str = "sum", factor: float = 1,
        root: int = 0, peer: int = -1, counts: Sequence[int] | None = None,
        receive_counts: Sequence[int] | None = None, exact: bool = False, algorithm: str = "", dtype: str = "",
        timeout: float | None = None, wait: bool = True,
    ) -> Any:  # fmt: skip
        work = self._comm.run(
            operation, source, out, count, dtype, op, factor, root, peer, counts, receive_counts, exact, algorithm,
            _microseconds(timeout), wait,
        )  # fmt: skip
        return result if wait else Work(work, result)

    def all_reduce(self, x: Any, op: str = "sum", *, out: Any = None, **options: Any) -> Any:
        """The reduction of all ranks' arrays, on every rank. `op`: one of ``diji.collective.REDUCTIONS``.

        `exact=True`: the left fold in rank order, in float64 for float32. `factor`: of ``"premul-sum"``. `dtype`:
        what the elements are where NumPy has no name for it: ``"f8e4m3"``, ``"f8e5m2"`` in arrays of uint8.
        """
        out = _like(x, _shape(x)) if out is None else out
        return self._run("all_reduce", x, out, _size(x), out, op=op, **options)

    def reduce(self, x: Any, op: str = "sum", root: int = 0, *, out: Any = None, **options: Any) -> Any:
        """As all_reduce, but the result is on rank `root` alone; None on all others."""
        if self.rank == root and out is None:
            out = _like(x, _shape(x))
        return self._run("reduce", x, out, _size(x), out, op=op, root=root, **options)

    def scan(self, x: Any, op: str = "sum", *, out: Any = None, **options: Any) -> Any:
        """The reduction over ranks 0 to this one."""
        out = _like(x, _shape(x)) if out is None else out
        return self._run("scan", x, out, _size(x), out, op=op, **options)

    def exscan(self, x: Any, op: str = "sum", *, out: Any = None, **options: Any) -> Any:
        """The reduction over the ranks before this one; on rank 0 `out` as it was, zeros where it is new."""
        if out is None:
            out = _like(x, _shape(x))
            out[...] = 0
        return self._run("exscan", x, out, _size(x), out, op=op, **options)

    def all_gather(self, x: Any, *, counts: Sequence[int] | None = None, out: Any = None, **options: Any) -> Any:
        """All ranks' arrays, on every rank: of shape ``(world, *x.shape)``, or with `counts`, the rows that each rank
        has, behind each other."""
        if out is None:
            out = _like(x, self._gathered(x, counts))
        return self._run("all_gather", x, out, _size(x), out, counts=_elements(counts, x), **options)

    def gather(
        self, x: Any, root: int = 0, *, counts: Sequence[int] | None = None, out: Any = None, **options: Any
    ) -> Any:
        """As all_gather, but on rank `root` alone; None on all others."""
        if self.rank == root and out is None:
            out = _like(x, self._gathered(x, counts))
        return self._run("gather", x, out, _size(x), out, root=root, counts=_elements(counts, x), **options)

    def _gathered(self, x: Any, counts: Sequence[int] | None) -> tuple[int, ...]:
        return (self.world, *_shape(x)) if counts is None else (sum(counts), *_shape(x)[1:])

    def reduce_scatter(
        self, x: Any, op: str = "sum", *, counts: Sequence[int] | None = None, out: Any = None, **options: Any
    ) -> Any:
        """This rank's part of the reduction: ``x[rank]`` of shape ``(world, ...)``, or with `counts` its rows."""
        if out is None:
            out = _like(x, self._own_part(x, counts))
        count = self._block(x, counts)
        return self._run("reduce_scatter", x, out, count, out, op=op, counts=_elements(counts, x), **options)

    def scatter(self, x: Any, root: int = 0, *, counts: Sequence[int] | None = None, out: Any, **options: Any) -> Any:
        """Rank `root`'s ``x[rank]``, or with `counts` its rows. `x` is None on all others."""
        elements = None if counts is None else _elements(counts, out)
        return self._run("scatter", x, out, _size(out), out, root=root, counts=elements, **options)

    def all_to_all(
        self, x: Any, *, counts: Sequence[int] | None = None, receive_counts: Sequence[int] | None = None,
        out: Any = None, **options: Any,
    ) -> Any:  # fmt: skip
        """``x[i]`` goes to rank i; what came from rank i is the result's ``[i]``. With rows of different numbers:
        `counts` for each rank, `receive_counts` from each."""
        if (counts is None) != (receive_counts is None):
            raise _usage("all_to_all: counts and receive_counts go together")
        if out is None:
            rows = _shape(x) if receive_counts is None else (sum(receive_counts), *_shape(x)[1:])
            out = _like(x, rows)
        return self._run(
            "all_to_all", x, out, self._block(x, counts), out, counts=_elements(counts, x),
            receive_counts=_elements(receive_counts, x), **options,
        )  # fmt: skip

    def _block(self, x: Any, counts: Sequence[int] | None) -> int:
        shape = _shape(x)
        if counts is None and (not shape or shape[0] != self.world):
            raise _usage(f"x of shape {shape}: without counts its first axis is of the ranks, which are {self.world}")
        return 0 if counts is not None else _size(x) // self.world

    def _own_part(self, x: Any, counts: Sequence[int] | None) -> tuple[int, ...]:
        return _shape(x)[1:] if counts is None else (counts[self.rank], *_shape(x)[1:])

    def broadcast(self, x: Any, root: int = 0, **options: Any) -> Any:
        """Rank `root`'s array, written into `x` of all others, which comes back."""
        return self._run("broadcast", x, x, _size(x), x, root=root, **options)

    def barrier(self, **options: Any) -> Any:
        """Returns once all ranks have called it."""
        return self._run("barrier", None, None, 0, None, **options)

    def send(self, x: Any, peer: int, **options: Any) -> Any:
        """To rank `peer`, which calls recv."""
        return self._run("send", x, None, _size(x), None, peer=peer, **options)

    def recv(self, out: Any, peer: int, **options: Any) -> Any:
        """From rank `peer`, into `out`, which comes back."""
        return self._run("receive", None, out, _size(out), out, peer=peer, **options)

    def exchange(
        self, sends: Sequence[tuple[Any, int]] = (), receives: Sequence[tuple[Any, int]] = (),
        timeout: float | None = None,
    ) -> None:  # fmt: skip
        """Several messages at once, (array, peer) each: ranks may send to each other and receive."""
        messages = [("send", x, peer) for x, peer in sends] + [("receive", out, peer) for out, peer in receives]
        self._comm.run_group(messages, _microseconds(timeout))

    def empty(self, shape: int | tuple[int, ...], dtype: Any = numpy.float32) -> numpy.ndarray:
        """A new array, of zeros at first, that the other ranks of this host read in place wherever a call is given
        it or a part of it. Not a collective: each rank makes what it likes. Raises OutOfMemoryError."""
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        count = 1
        for size in sizes:
            count *= size
        memory = self._comm.allocate(max(count * numpy.dtype(dtype).itemsize, 1))
        return memory[: count * numpy.dtype(dtype).itemsize].view(dtype).reshape(sizes)

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """Ranks of one color form a communicator, ordered by key, then by rank. None: this rank is in none."""
        part = self._comm.split(-1 if color is None else color, key)
        return None if part is None else Communicator._of(part)

    def dup(self) -> Communicator:
        """The same ranks again, for another thread."""
        return Communicator._of(self._comm.dup())

    def shrink(self, timeout: float = 10) -> Communicator:
        """After a failure: those who are alive and call this within `timeout` seconds."""
        return Communicator._of(self._comm.shrink(_microseconds(timeout)))

    def abort(self, why: str = "") -> None:
        """Ends whatever any rank does here; they get DeadlineError with the code ``"aborted"``. Any thread."""
        self._comm.abort(why)

    def close(self) -> None:
        """Once what was handed over is done. A second call does nothing."""
        self._comm.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and not isinstance(error, errors.UsageError):
            self.abort(f"{kind.__name__}: {error}" if kind else "")  # the others need not wait
        self.close()


def _elements(counts: Sequence[int] | None, x: Any) -> list[int] | None:
    """Rows as elements: what lies behind the first axis goes with each."""
    if counts is None:
        return None
    row = 1
    for size in _shape(x)[1:]:
        row *= size
    return [row * count for count in counts]
