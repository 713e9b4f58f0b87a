// The file form of an executable: what a warm start reads instead of running passes and printers.
#pragma once

#include "base/files.h"
#include "graph/text.h"
#include "runtime/compiler.h"
#include "runtime/coverage.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace diji {

/// Where a constant's bytes lie instead of in the image.
struct WeightReference {
  std::string file;  ///< below the image's folder
  std::uint64_t offset = 0;
};

/// A compiled model for one kind of device: in the cache with machine code and weights, as FILE.dji with the
/// text of its kernels and, where it lies beside the model, references to the model's weights. The head (all
/// but the constants) is checked when it is parsed; constants are views of the mapped file, checked on
/// demand.
struct Image {
  static constexpr std::string_view kSuffix = ".image";
  /// What it was made from, by name: model, digest, options, device, plugin, diji.
  using Origins = std::vector<std::pair<std::string, std::string>>;

  Origins origins;
  std::shared_ptr<const Graph> graph;  ///< after the passes
  CompiledParts parts;
  Coverage coverage;
  std::vector<std::string> warnings;  ///< of the import, for every start
  ConstantList constants;
  std::vector<std::uint64_t> checksums;                     ///< of the constants
  std::map<const HostTensor*, WeightReference> references;  ///< of constants, for bytes()

  /// "" where there is no such origin.
  std::string origin(std::string_view name) const;

  /// The file: pieces that stand behind each other, of which those of constants are the tensors' own bytes.
  struct Bytes {
    std::vector<std::byte> head;
    std::vector<std::span<const std::byte>> pieces;
    std::uint64_t count = 0;
  };
  Bytes bytes() const;

  /// Errors: malformed, with the byte; those of files that it refers to.
  static Result<Image> parse(const std::shared_ptr<const MappedFile>& file);
  /// Only the origins, of any image of this version. Errors: malformed.
  static Result<Origins> origins_of(const MappedFile& file);
  /// Errors: a constant whose bytes are not those that were written (malformed). In parallel where `threads`
  /// are given.
  Result<void> check_constants(ThreadPool* threads) const;
};

}  // namespace diji
