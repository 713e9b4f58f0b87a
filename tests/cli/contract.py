#!/usr/bin/env python3
"""The contract of the command: options, exit codes, JSON keys, and every kind of bad input, on tiny models.

    tests/cli/contract.py --diji PATH [--example PATH] [--plugin PATH] [-k PATTERN]

PATH is a build's bin/diji, bin/name_file_type and lib/libdiji_device_mock.so.
"""

import argparse
import os
import sys
import unittest

import answers
import bad_input
import bench
import case
import collective
import makers
import topology
import tuning


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--diji", required=True, type=os.path.abspath)
    parser.add_argument("--example", type=os.path.abspath)
    parser.add_argument("--plugin", type=os.path.abspath)
    parser.add_argument("-k", dest="pattern", help="the tests whose name matches")
    parser.parse_args(namespace=case.OPTIONS)
    loader = unittest.TestLoader()
    if case.OPTIONS.pattern:
        loader.testNamePatterns = [f"*{case.OPTIONS.pattern}*"]
    modules = (bad_input, answers, bench, collective, makers, topology, tuning)
    suite = unittest.TestSuite(loader.loadTestsFromModule(module) for module in modules)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
