// libFuzzer target: any bytes as the head of a compiled model, under a checksum that fits, give an error or
// an image whose graph keeps the rules and that is written and read back.
#include "base/check.h"
#include "base/checksum.h"
#include "base/files.h"
#include "graph/verify.h"
#include "runtime/image.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// In memory where the system has such a folder; one a process, since several may fuzz at once.
std::string scratch_file() {
  const std::string folder = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  return folder + "/diji-fuzz-" + std::to_string(::getpid()) + ".image";
}

diji::Result<diji::Image> parsed(std::span<const std::span<const std::byte>> pieces) {
  static const std::string kPath = scratch_file();
  std::FILE* file = std::fopen(kPath.c_str(), "wb");
  CHECK(file != nullptr, "a scratch file");
  for (const auto piece : pieces) std::fwrite(piece.data(), 1, piece.size(), file);
  std::fclose(file);
  const auto mapped = diji::MappedFile::open(kPath);
  CHECK(mapped.has_value(), "the scratch file opens");
  ::unlink(kPath.c_str());
  return diji::Image::parse(*mapped);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> file(24 + size + 4096);  // constants find some bytes behind the head
  std::memcpy(file.data(), "DIJIIMG1", 8);
  const std::uint64_t numbers[] = {diji::checksum_of(std::as_bytes(std::span(data, size))), size};
  std::memcpy(file.data() + 8, numbers, sizeof numbers);
  if (size > 0) std::memcpy(file.data() + 24, data, size);
  const std::span<const std::byte> whole(file);
  const auto image = parsed(std::span(&whole, 1));
  if (!image) return 0;
  CHECK(diji::verify(*image->graph).has_value(), "a graph that was read keeps the rules");
  const diji::Image::Bytes bytes = image->bytes();
  const auto again = parsed(bytes.pieces);
  CHECK(again && diji::print(*again->graph) == diji::print(*image->graph),
        "an image survives the round trip");
  return 0;
}
