// Raw and external data of initializers.
#include "formats/onnx/weights.h"

#include "base/files.h"
#include "formats/onnx/proto.h"

#include <algorithm>
#include <charconv>

namespace diji {
namespace {

std::string_view entry_of(const onnx::TensorProto& tensor, std::string_view key) {
  const auto found = std::ranges::find(tensor.external_data, key, &onnx::StringEntry::key);
  return found == tensor.external_data.end() ? "" : found->value;
}

}  // namespace

Result<std::vector<WeightBytes>> weights_of(const std::filesystem::path& model) {
  const std::shared_ptr<const MappedFile> file = TRY(MappedFile::open(model));
  const onnx::Model parsed = TRY(onnx::parse_model(file->bytes(), file->path()));
  onnx::ExternalFiles files(model.parent_path());
  std::vector<WeightBytes> weights;
  for (const onnx::TensorProto& tensor : parsed.graph.initializers) {
    if (tensor.raw) {
      Reader raw = *tensor.raw;
      const auto offset = static_cast<std::uint64_t>(raw.offset());
      weights.push_back(
          {model.filename().string(), offset, TRY(raw.take(raw.remaining(), "raw_data")), file});
    }
    std::uint64_t offset = 0, length = 0;
    const std::string_view at = entry_of(tensor, "offset"), size = entry_of(tensor, "length");
    std::from_chars(at.data(), at.data() + at.size(), offset);
    const auto [end, status] = std::from_chars(size.data(), size.data() + size.size(), length);
    if (!tensor.external || status != std::errc()) continue;  // without a length: it stays a copy
    weights.push_back(
        TRY(read_weight(files, std::string(entry_of(tensor, "location")), offset, length, file->path())));
  }
  return weights;
}

Result<WeightBytes> read_weight(onnx::ExternalFiles& files, const std::string& file, std::uint64_t offset,
                                std::uint64_t bytes, const std::string& asker) {
  const std::string start = fmt::format("{}", offset), length = fmt::format("{}", bytes);
  onnx::TensorProto tensor{
      .name = file,
      .external = true,
      .external_data = {{"location", file, 0}, {"offset", start, 0}, {"length", length, 0}},
      .message = Reader({}, asker)};
  const onnx::ExternalBytes found = TRY(files.bytes(tensor, asker, bytes));
  return WeightBytes{file, offset, found.bytes, found.owner};
}

}  // namespace diji
