"""Ranks as processes of this file: every method against NumPy, works, and what an error says."""

import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import diji
import numpy

RANKS = 3


def mine(rank, *shape, dtype=numpy.float32):
    return (numpy.arange(numpy.prod(shape)).reshape(shape) + 10 * rank).astype(dtype)


def check_reductions(comm):
    each = [mine(rank, 2, 3) for rank in range(comm.world)]
    x = each[comm.rank]
    total = sum(each)
    numpy.testing.assert_array_equal(comm.all_reduce(x), total)
    numpy.testing.assert_array_equal(comm.all_reduce(x, "avg", exact=True), total / comm.world)
    numpy.testing.assert_array_equal(comm.all_reduce(x.T, "max"), each[-1].T)
    numpy.testing.assert_array_equal(comm.all_reduce(x, "premul-sum", factor=0.5), total / 2)
    numpy.testing.assert_array_equal(comm.scan(x), sum(each[: comm.rank + 1]))
    numpy.testing.assert_array_equal(comm.exscan(x), sum(each[: comm.rank], numpy.zeros_like(x)))
    reduced = comm.reduce(x, root=1)
    if comm.rank == 1:
        numpy.testing.assert_array_equal(reduced, total)
    else:
        assert reduced is None
    inplace = x.copy()
    assert comm.all_reduce(inplace, out=inplace) is inplace
    numpy.testing.assert_array_equal(inplace, total)
    blocks = numpy.stack([x + block for block in range(comm.world)])
    numpy.testing.assert_array_equal(comm.reduce_scatter(blocks), total + comm.world * comm.rank)
    rows = [1, 0, 2]
    parts = comm.reduce_scatter(mine(comm.rank, 3, 4), counts=rows)
    begin = sum(rows[: comm.rank])
    wanted = sum(mine(rank, 3, 4) for rank in range(comm.world))
    numpy.testing.assert_array_equal(parts, wanted[begin : begin + rows[comm.rank]])


def check_moves(comm):
    x = mine(comm.rank, 2, 3)
    every = numpy.stack([mine(rank, 2, 3) for rank in range(comm.world)])
    numpy.testing.assert_array_equal(comm.all_gather(x), every)
    gathered = comm.gather(x, root=2)
    if comm.rank == 2:
        numpy.testing.assert_array_equal(gathered, every)
    rows = [2, 0, 1]
    own = mine(comm.rank, rows[comm.rank], 3)
    wanted = numpy.concatenate([mine(rank, rows[rank], 3) for rank in range(comm.world)])
    numpy.testing.assert_array_equal(comm.all_gather(own, counts=rows), wanted)
    out = numpy.empty((2, 3), numpy.float32)
    numpy.testing.assert_array_equal(comm.scatter(every if comm.rank == 0 else None, out=out), x)
    blocks = numpy.stack([x + 100 * block for block in range(comm.world)])
    wanted = every + 100 * comm.rank
    numpy.testing.assert_array_equal(comm.all_to_all(blocks), wanted)
    to, come = [comm.rank] * comm.world, list(range(comm.world))
    ragged = comm.all_to_all(numpy.full((comm.world * comm.rank, 2), comm.rank), counts=to, receive_counts=come)
    numpy.testing.assert_array_equal(ragged[:, 0], numpy.repeat(range(comm.world), come))
    data = x.copy()
    assert comm.broadcast(data, root=1) is data
    numpy.testing.assert_array_equal(data, every[1])
    after, before = (comm.rank + 1) % comm.world, (comm.rank - 1) % comm.world
    got = numpy.empty_like(x)
    comm.exchange(sends=[(x, after)], receives=[(got, before)])
    numpy.testing.assert_array_equal(got, every[before])
    if comm.rank == 0:
        comm.send(x, 1)
    elif comm.rank == 1:
        numpy.testing.assert_array_equal(comm.recv(got, 0), every[0])
    comm.barrier()


def check_dtypes(comm):
    for dtype in ("float64", "float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
                  "uint64", "bool"):  # fmt: skip
        ones = numpy.ones(5, dtype)
        total = comm.all_reduce(ones, "lor" if dtype == "bool" else "sum")
        assert total.dtype == dtype and (total == (1 if dtype == "bool" else comm.world)).all(), dtype
    eights = numpy.full(4, 0x38, numpy.uint8)  # 1.0
    assert (comm.all_reduce(eights, "prod", dtype="f8e4m3") == 0x38).all()
    try:
        import ml_dtypes
    except ImportError:
        return
    total = comm.all_reduce(numpy.ones(5, ml_dtypes.bfloat16))
    assert total.dtype == ml_dtypes.bfloat16 and (total == comm.world).all()


def check_torch(comm):
    try:
        import torch
    except ImportError:
        return
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        gradients = torch.ones(5, dtype=dtype)
        assert comm.all_reduce(gradients, out=gradients) is gradients
        assert (gradients == comm.world).all()
    numpy.testing.assert_array_equal(comm.all_reduce(torch.ones(2, 3).T), numpy.full((3, 2), comm.world, "float32"))


def check_works(comm):
    inputs = [numpy.full(50_000, 10 * i + comm.rank, numpy.int64) for i in range(8)]
    works = [comm.all_reduce(x, wait=False) for x in inputs]
    del inputs  # borrowed by what is in flight
    numpy.testing.assert_array_equal(comm.all_reduce(numpy.ones(3)), numpy.full(3, comm.world))  # in its turn
    for i, work in enumerate(works):
        assert work.done
        assert (work.wait() == comm.world * 10 * i + sum(range(comm.world))).all()
    comm.all_reduce(numpy.ones(1_000_000), wait=False)  # and nobody asks


def check_memory(comm):
    x, y = comm.empty((300, 100)), comm.empty((3, 100, 300), "int64")
    x += comm.rank
    y[...] = comm.rank
    for _ in range(3):
        assert (comm.all_reduce(x) == sum(range(comm.world))).all()
        assert comm.all_to_all(y, out=y) is y
        assert (y[:, 0, 0] == range(comm.world)).all()
        y[...] = comm.rank
    assert comm.empty(0).shape == (0,)


def check_groups(comm):
    part = comm.split(comm.rank % 2)
    assert part.world == (2 if comm.rank % 2 == 0 else 1) and part.rank == comm.rank // 2
    assert comm.split(None) is None
    copy = comm.dup()
    thread = threading.Thread(target=copy.all_reduce, args=(numpy.ones(1000),))
    thread.start()
    comm.all_reduce(numpy.ones(1000))
    thread.join()


def check_usage(comm):
    x = numpy.ones(3, numpy.float32)
    locked = x.copy()
    locked.flags.writeable = False
    for wrong, kind, part in (
        (lambda: comm.all_reduce(x, "mean"), diji.UsageError, "op=mean is no reduction"),
        (lambda: comm.all_reduce(x, "band"), diji.UsageError, "band"),
        (lambda: comm.all_reduce(x, out=locked), diji.errors.InputError, "out: the array is read-only"),
        (lambda: comm.all_reduce(x, out=numpy.ones(6, numpy.float32)[::2]), diji.errors.InputError, "row-major"),
        (lambda: comm.all_reduce(x, out=numpy.ones(3)), diji.errors.InputError, "input is of f32, out of f64"),
        (lambda: comm.all_reduce(x, out=numpy.ones(2, numpy.float32)), diji.errors.InputError, "out has 2 elements"),
        (lambda: comm.reduce_scatter(x.reshape(1, 3)), diji.UsageError, "first axis"),
        (lambda: comm.all_gather(x, counts=[1, 1]), diji.UsageError, "2"),
        (lambda: comm.all_reduce(x, algorithm="fastest"), diji.UsageError, "fastest"),
        (lambda: comm.all_reduce([object()]), diji.errors.InputError, "no array"),
        (lambda: comm.send(x, 77), diji.UsageError, "77"),
    ):
        try:
            wrong()
        except kind as error:
            assert part in str(error), error
        else:
            raise AssertionError(part)
    comm.barrier()  # nothing was sent


def check_death(comm):
    """Rank 1 dies; the others name it and go on without it."""
    pids = comm.all_gather(numpy.array([os.getpid()]))[:, 0]
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.all_reduce(numpy.ones(3))
    except diji.DeadlineError as error:
        assert (error.code, error.rank, error.pid) == ("peer_lost", 1, pids[1]), error
        assert error.sequence == 1 and error.host and f"(pid {pids[1]}) died" in str(error), error
    else:
        raise AssertionError("the death was not told")
    with comm.shrink() as rest:
        assert (rest.world, rest.rank) == (2, comm.rank // 2)
        assert (rest.all_reduce(numpy.ones(2)) == 2).all()


def check_exception(comm):
    """What ends one rank's block ends the others' calls."""
    rank = comm.rank
    try:
        with comm:
            if rank == 0:
                raise ValueError("a bad batch")
            comm.barrier()
    except (ValueError, diji.DeadlineError) as error:
        assert "a bad batch" in str(error), error
        assert rank == 0 or (error.code, error.rank) == ("aborted", 0), error


CHECKS = {name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")}


class Alone(unittest.TestCase):
    def test_a_world_of_one(self):
        with diji.Communicator() as comm:
            self.assertEqual((comm.rank, comm.world, comm.transports), (0, 1, ""))
            numpy.testing.assert_array_equal(comm.all_reduce(numpy.arange(3)), numpy.arange(3))
            comm.barrier(timeout=float("inf"))
            with self.assertRaisesRegex(diji.UsageError, "a time of -1 seconds"):
                comm.barrier(timeout=-1)
        with self.assertRaisesRegex(diji.UsageError, "closed"):
            comm.barrier()
        comm.close()


class Ranks(unittest.TestCase):
    def job(self, name):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        token = pathlib.Path(folder.name) / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = {"DIJI_WORLD_SIZE": str(RANKS), "DIJI_RENDEZVOUS": f"127.0.0.1:{port}", "DIJI_TOKEN_FILE": str(token)}
        ranks = []
        for rank in range(RANKS):
            environment = os.environ | words | {"DIJI_RANK": str(rank), "DIJI_TIMEOUT": "60"}
            command = [sys.executable, __file__, name]
            ranks.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
        ends = [(rank.communicate()[1], rank.returncode) for rank in ranks]
        dead = [1] if name == "death" else []
        said = "\n".join(f"rank {rank}: {text}" for rank, (text, _) in enumerate(ends))
        for rank, (_, code) in enumerate(ends):
            self.assertEqual(code, -signal.SIGKILL if rank in dead else 0, said)

    def test_checks(self):
        for name in CHECKS:
            with self.subTest(name):
                self.job(name)


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in CHECKS:
        CHECKS[sys.argv[1]](diji.Communicator())
    else:
        unittest.main()
