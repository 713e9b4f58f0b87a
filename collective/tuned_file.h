// Where a job's table of plans comes from: the environment of rank 0, or the file that was tuned on its
// machine.
#pragma once

#include "base/error.h"
#include "collective/tuning.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace diji::collective {

/// What a tuned file is good for, beside diji's version: the processors of this machine, its NUMA nodes and
/// the CPU quota of the container. Sixteen hexadecimal digits.
std::string machine_fingerprint();

/// DIJI_CACHE_DIR/collective/tuning-VERSION-FINGERPRINT.txt, else under XDG_CACHE_HOME/diji or
/// ~/.cache/diji; empty where there is no folder for it (DIJI_CACHE_DIR=off, or no home).
std::filesystem::path tuned_file();

/// DIJI_TUNING: a table, @FILE or "off"; without it the tuned file, if there is one (one that cannot be read
/// is warned of and left out). Errors: usage, of the variable; not_found, io, malformed, of FILE.
Result<Tuning> tuning_from_environment();

/// Errors: not_found, io, malformed.
Result<Tuning> read_tuning(const std::filesystem::path& file);
/// Whole or not at all, a group of rows a line. Errors: io.
Result<void> save_tuning(const std::filesystem::path& file, const Tuning& tuning);

/// One line that carries the table, or why there is none, from rank 0 to all.
std::string carried(const Result<Tuning>& tuning);
/// Errors: rank 0's, on every rank; corrupted.
Result<Tuning> received(std::string_view line);

}  // namespace diji::collective
