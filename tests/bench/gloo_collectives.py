#!/usr/bin/env python3
"""Collectives of torch.distributed's gloo, timed as `diji bench collective` does it, for tests/bench/collectives.py.

    gloo_collectives.py RANKS    reads lines "OPERATION BYTES SECONDS", answers each with microseconds
"""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

OPERATIONS = ["all_reduce", "reduce_scatter", "all_gather", "broadcast"]


def call_of(operation, size, ranks):
    count = max(size // 4, ranks)
    block = max(count // ranks, 1)
    if operation == "all_reduce":
        data = torch.ones(count)  # gloo has it in place only
        return lambda: dist.all_reduce(data)
    if operation == "broadcast":
        data = torch.ones(count)
        return lambda: dist.broadcast(data, 0)
    whole, part = torch.ones(block * ranks), torch.ones(block)
    if operation == "all_gather":
        return lambda: dist.all_gather_into_tensor(whole, part)
    return lambda: dist.reduce_scatter_tensor(part, whole)


def measured(operation, size, seconds, ranks):
    call = call_of(operation, size, ranks)
    inner = 20 if size <= 4096 else 1
    for _ in range(5):
        call()
    slowest, times, spent = torch.zeros(1, dtype=torch.float64), [], 0.0
    while len(times) < 400 and (spent < seconds or len(times) < 5):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(inner):
            call()
        slowest[0] = (time.perf_counter() - begin) / inner
        dist.all_reduce(slowest, dist.ReduceOp.MAX)  # the same on all ranks: they leave the loop together
        times.append(slowest.item())
        spent += times[-1] * inner
    return statistics.median(times) * 1e6


def rank_main(rank, ranks, port, stdin):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    lines = os.fdopen(stdin) if rank == 0 else None
    while True:
        words = lines.readline().split() if rank == 0 else None
        task = torch.zeros(3, dtype=torch.float64)  # operation, bytes, seconds; an operation of -1: the end
        if rank == 0:
            task[:] = torch.tensor([OPERATIONS.index(words[0]), *map(float, words[1:])] if words else [-1, 0, 0])
        dist.broadcast(task, 0)
        if task[0] < 0:
            break
        operation, size, seconds = OPERATIONS[int(task[0])], task[1], task[2]
        time_us = measured(operation, int(size), float(seconds), ranks)
        if rank == 0:
            print(f"{time_us:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    number = int(sys.argv[1])
    standard_input = os.dup(0)
    os.set_inheritable(standard_input, True)
    mp.start_processes(rank_main, (number, 29500 + number, standard_input), nprocs=number, start_method="fork")
