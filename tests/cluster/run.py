#!/usr/bin/env python3
"""Ranks started by what clusters start them with: Slurm, Open MPI, MPICH, torchrun; on one host and on two.

    tests/cluster/run.py --diji build/release/bin/diji [CLASS...]    as root: daemons and network namespaces

What is not installed fails. DIJI_TEST_WITHOUT_NAMESPACES=1 leaves out two hosts, and says so. Classes of tests run side
by side, for most of their time is waiting; what one says is printed whole.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time
import unittest

import launched
import test_launchers
import test_two_hosts

SIDE_BY_SIDE = 3
SECONDS_MAX = 600


def classes():
    """{name: class} of all that have tests."""
    found = {}
    for module in (test_launchers, test_two_hosts):
        for name, one in vars(module).items():
            here = isinstance(one, type) and one.__module__ == module.__name__
            if here and any(attribute.startswith("test_") for attribute in dir(one)):
                found[name] = one
    return found


def run_here(name):
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(classes()[name])
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


def run_beside(name):
    begin = time.monotonic()
    command = [sys.executable, __file__, "--diji", launched.OPTIONS.diji, "--here", name]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, timeout=SECONDS_MAX)  # fmt: skip
    good = run.returncode == 0
    print(f"== {name}: {'ok' if good else 'FAILED'}, {time.monotonic() - begin:.0f} s\n{run.stdout}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--diji", required=True, type=pathlib.Path)
    parser.add_argument("--here", action="store_true", help="the one class, in this process")
    parser.add_argument("classes", nargs="*", metavar="CLASS", help=", ".join(classes()))
    arguments = parser.parse_args()
    if unknown := set(arguments.classes) - set(classes()):
        parser.error(f"there is no {', '.join(unknown)}; {', '.join(classes())}")
    launched.OPTIONS.diji = str(arguments.diji.resolve(strict=True))
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if arguments.here:
        return run_here(arguments.classes[0])
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return 0 if all(list(pool.map(run_beside, arguments.classes or classes()))) else 1


if __name__ == "__main__":
    sys.exit(main())
