#!/usr/bin/env python3
"""Plugins with one planted mistake each: what catches it, in which words, and that the CPU device still works.

    tests/faults/plugin_faults.py --diji PATH --plugin PATH [-k NAME]

PATH is a build's bin/diji and lib/faulty/libdiji_device_faulty.so, whose mistake DIJI_FAULT names.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

REFUSED = 4  # exit codes of the command's contract: environment, deadline
DEADLINE = 5
HANG_S, PATIENCE_S = "2", "120"  # for what must hang, and for what a busy machine may only delay
CPU_RULE = "the CPU beside it still works"
FIRST = "allocate, copy, wait"
COPIES = "copies move these bytes and no others"
EXACT = "kernels are exact, and write their output only"
MEMORY = "out of memory is a status, and the device goes on"

# Planted by faulty_plugin.cpp -> the exit code of a refusal, or the rule that fails; and words of the sentence.
FAULTS = {
    "none_on_mock": (None, ""),
    "none_on_cpu": (None, ""),
    "no_such_fault": (REFUSED, "diji_device_plugin() returned null"),
    "major_is_another": (REFUSED, "it was built for plugin ABI 2."),
    "table_is_short": (REFUSED, "its table has 40 bytes; the required functions need"),
    "alloc_is_missing": (REFUSED, "its table lacks the required function alloc"),
    "load_is_missing": (REFUSED, "it offers launch but not load"),
    "name_has_control_characters": (REFUSED, "its name has a control character"),
    "count_hangs": (DEADLINE, "loading the plugin: no answer within 2 s"),
    "count_lets_an_exception_out": (REFUSED, "loading the plugin: the plugin ended the process: signal 6"),
    "count_crashes": (REFUSED, "loading the plugin: the plugin ended the process: signal 11"),
    "count_exits": (REFUSED, "loading the plugin: the plugin ended the process with exit code 0"),
    "count_is_negative": (REFUSED, "it says that it has -1 devices"),
    "count_changes": ("the number of devices stays", "device_count gave 2, then 3"),
    "memory_is_absurd": (REFUSED, "18446744073709551615 bytes of memory"),
    "device_name_has_control_characters": (REFUSED, "its device name has a control character"),
    "open_gives_nothing": (REFUSED, "open succeeded but gave no device"),
    "alignment_is_a_lie": ("buffers are aligned", "which is not aligned to 1048576"),
    "alloc_gives_one_buffer_twice": (FIRST, "alloc gave a buffer that is already in use"),
    "alloc_hangs": (DEADLINE, FIRST + ": no answer within 2 s"),
    "alloc_lets_an_exception_out": (FIRST, "an exception left the plugin"),
    "alloc_promises_too_much": (MEMORY, "gave status 0, wanted 2"),
    "out_of_memory_is_another_status": (MEMORY, "gave status 5, wanted 2"),
    "last_error_is_null": (MEMORY, "last_error says nothing"),
    "free_does_nothing": ("nothing leaks in 10,000 rounds", "5000 rounds of alloc and free keep"),
    "free_is_early": ("free waits for the stream's work", "a buffer freed behind its last use: byte 0 is 0xee"),
    "copy_to_host_ignores_the_offset": (COPIES, "copy_to_host of 1 bytes at offset 1: byte 0"),
    "copy_drops_the_odd_bytes": (COPIES, "copy_to_host of 1 bytes at offset 0"),
    "copy_starts_a_byte_late": (COPIES, "copy_on_device of 1 bytes at offset 0"),
    "copies_out_of_range_are_dropped": ("copies out of range are refused", "a copy past the end gave status 0"),
    "import_never_releases": ("host memory can be imported", "released 0 times"),
    "map_gives_a_copy": ("memory can be mapped", "mapped memory: byte 0 is 0x00"),
    "sync_returns_early": (FIRST, "after stream_sync: byte 0"),
    "stream_free_drops_work": ("stream_free waits", "after stream_free: byte 0"),
    "event_wait_is_ignored": ("event_wait orders two streams", "that waited for another one's event: byte 0"),
    "event_sync_returns_early": ("event_sync waits", "after event_sync: byte 0"),
    "time_is_a_constant": ("times between events add up", "but 5 ns from the first to the last"),
    "compile_gives_garbage": (EXACT, "load of what compile gave failed with status 1"),
    "compile_takes_any_text": ("text that is no kernel is refused", "gave status 0, wanted 4"),
    "load_takes_any_blob": ("a blob that is garbage is refused", "load of 0 bytes of garbage gave status 0"),
    "launch_ignores_its_failure": ("an entry that is not there is refused", "gave status 0, wanted 3"),
    "launch_runs_an_empty_grid": ("an empty grid does nothing", "over an empty grid: byte 0"),
    "launch_leaves_out_the_last_index": (EXACT, "1 elements at offset 0: -1 times element 0"),
    "launch_drops_offsets": (EXACT, "at offset 4"),
    "launch_writes_behind_its_output": (EXACT, "behind the output: byte 60"),
    "one_lane_is_wrong": (EXACT, "-1 times element 3"),
    "nan_is_swallowed": (EXACT, "-1 times element 8, nan, gave 0"),
    "minus_zero_is_lost": (EXACT, "-1 times element 0, 0, gave 0"),
    "errors_of_kernels_are_lost": ("kernels report errors", "element -1 of 100: the error word is 0x0"),
}

# Refused when they are used.
LIST_DEVICES = {"alloc_hangs", "open_gives_nothing"}


def finding(name, options, folder):
    """Why the mistake was not caught as it should be, or None."""
    caught_by, words = FAULTS[name]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DIJI_")}
    environment |= {"DIJI_FAULT": name, "DIJI_CACHE_DIR": str(folder / name / "cache")}
    certificate = folder / name / "certificate.json"
    (folder / name).mkdir()

    def diji(*command, **more):
        command = [options.diji, "verify", "--op", "add", "--dtype", "f32", *command]
        return subprocess.run(command, env=environment | more, capture_output=True, text=True, timeout=300)

    limit = HANG_S if caught_by == DEADLINE else PATIENCE_S
    run = diji("--plugin", options.plugin, "--certify", certificate, "--timeout", limit)
    if isinstance(caught_by, int):
        if run.returncode != caught_by or words not in run.stderr:
            return f"exit code {run.returncode}, wanted {caught_by} and '{words}': {run.stderr}{run.stdout}"
        # Beside a plugin that was refused, the CPU computes in the same process.
        path = {"DIJI_PLUGIN_PATH": os.path.dirname(options.plugin)}
        beside = diji("--device", "cpu", **path)
        if beside.returncode != 0:
            return f"the CPU beside it: {beside.stdout}{beside.stderr}"
        if name in LIST_DEVICES:
            return None
        # All are listed beside it, it is named among the problems.
        environment.update(path)
        listed = subprocess.run([options.diji, "devices", "--json"], env=environment, capture_output=True, text=True)
        document = json.loads(listed.stdout or "{}")
        named = any("faulty" in problem["message"] for problem in document.get("problems", []))
        return None if named and document["devices"] else f"diji devices beside it: {listed.stdout}{listed.stderr}"
    if not certificate.exists():
        return f"no certificate; exit code {run.returncode}: {run.stderr}"
    document = json.loads(certificate.read_text())
    rules = {rule["rule"]: rule for rule in document["rules"]}
    if rules[CPU_RULE]["verdict"] != "ok":
        return rules[CPU_RULE]["problem"]
    if caught_by is None:
        return None if run.returncode == 0 and document["ok"] else f"not certified: {run.stdout}"
    if run.returncode != 1 or document["ok"] or rules.get(caught_by, {}).get("verdict") != "failed":
        return f"'{caught_by}' did not fail: {run.stdout}"
    return None if words in rules[caught_by]["problem"] else f"'{words}' is not in: {rules[caught_by]['problem']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--diji", required=True, type=os.path.abspath)
    parser.add_argument("--plugin", required=True, type=os.path.abspath)
    parser.add_argument("-k", dest="pattern", default="", help="the faults whose name contains it")
    options = parser.parse_args()
    source = (pathlib.Path(__file__).parent / "faulty_plugin.cpp").read_text()
    names = [name for name in FAULTS if options.pattern in name]
    missed = [f"{name}: not in faulty_plugin.cpp" for name in names if f'"{name}"' not in source]
    missed = [line for line in missed if not line.startswith("no_such_fault")]
    with tempfile.TemporaryDirectory(prefix="diji-faults-") as folder:
        for name in names:
            why = finding(name, options, pathlib.Path(folder))
            if why:
                missed.append(f"{name}: {why}")
    print("\n".join(missed))
    print(f"{len(names)} plugins, {len(missed)} not caught as they should be")
    return 1 if missed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
