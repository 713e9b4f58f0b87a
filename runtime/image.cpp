// "DIJIIMG1", checksum and length of the head; the head; padding; the constants, each on a border of 64
// bytes.
#include "runtime/image.h"

#include "base/checksum.h"
#include "base/reader.h"
#include "formats/onnx/weights.h"
#include "ops/catalog.h"

#include <algorithm>
#include <map>

namespace diji {
namespace {

constexpr std::string_view kMagic = "DIJIIMG1";
constexpr std::uint64_t kAlignment = 64;  // a cache line and the widest vector
constexpr std::byte kPadding[kAlignment] = {};

using Symbols = std::map<std::string, Bounds, std::less<>>;

std::uint64_t aligned(std::uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

// Those of the bodies too, in which launches of theirs are told.
void collect_symbols(const Graph& graph, Symbols& symbols) {
  symbols.merge(graph.symbols());
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.bodies) collect_symbols(*body, symbols);
  }
}

class Writer {
 public:
  void number(std::uint64_t value) { append(std::as_bytes(std::span(&value, 1))); }
  void text(std::string_view text) { blob(std::as_bytes(std::span(text))); }
  void blob(std::span<const std::byte> bytes) {
    number(bytes.size());
    append(bytes);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> bytes_;
};

// Expressions are written once each and named by number.
class DimTable {
 public:
  std::uint64_t number_of(const Dim& dim) {
    const auto [known, first] = numbers_.emplace(dim.text(), numbers_.size());
    if (first) texts_.push_back(known->first);
    return known->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, std::uint64_t> numbers_;
  std::vector<std::string> texts_;
};

void write_launches(Writer& out, const std::vector<std::vector<KernelUse>>& launches) {
  DimTable dims;
  Writer uses;
  uses.number(launches.size());
  for (const auto& of_fusion : launches) {
    uses.number(of_fusion.size());
    for (const KernelUse& use : of_fusion) {
      uses.text(use.entry);
      uses.number(use.module);
      uses.number(use.sizes.size());
      for (const Dim& size : use.sizes) uses.number(dims.number_of(size));
      for (const Dim* dim : {&use.grid, &use.local_bytes, &use.flops, &use.bytes})
        uses.number(dims.number_of(*dim));
    }
  }
  out.number(dims.texts().size());
  for (const std::string& text : dims.texts()) out.text(text);
  out.blob(uses.take());
}

// The head's contents. Counts are followed by at least one byte an item, so that none is larger than the
// file.
class HeadReader {
 public:
  HeadReader(std::span<const std::byte> bytes, std::string_view file, std::int64_t base)
      : in_(bytes, file, base) {}

  Reader& in() { return in_; }
  Result<std::uint64_t> count(std::string_view what) {
    const auto value = TRY(in_.number<std::uint64_t>(what));
    if (value > in_.remaining()) return in_.malformed("{} {}, more than bytes left", value, what);
    return value;
  }
  Result<std::string> text(std::string_view what) {
    return std::string(TRY(in_.text(TRY(in_.number<std::uint64_t>("length")), what)));
  }
  Result<std::span<const std::byte>> blob(std::string_view what) {
    return in_.take(TRY(in_.number<std::uint64_t>("length")), what);
  }
  Result<int> small(std::string_view what) {
    const auto value = TRY(in_.number<std::uint64_t>(what));
    if (value > std::uint64_t{1} << 30) return in_.malformed("{} is {}", what, value);
    return static_cast<int>(value);
  }

 private:
  Reader in_;
};

Result<Image::Origins> read_origins(HeadReader& head) {
  Image::Origins origins;
  const auto count = TRY(head.count("origins"));
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string name = TRY(head.text("name"));
    origins.emplace_back(std::move(name), TRY(head.text("origin")));
  }
  return origins;
}

Result<void> read_constants(HeadReader& head, const std::shared_ptr<const MappedFile>& file, Image& image,
                            std::uint64_t data) {
  const auto count = TRY(head.count("constants"));
  std::uint64_t offset = data;
  onnx::ExternalFiles files(std::filesystem::path(file->path()).parent_path());
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string name = TRY(head.text("dtype"));
    const auto dtype = parse_dtype(name);
    if (!dtype) return head.in().malformed("'{}' is not a dtype", name);
    StaticShape shape;
    std::int64_t bytes = bytes_of(*dtype);
    const auto rank = TRY(head.count("sizes"));
    for (std::uint64_t axis = 0; axis < rank; ++axis) {
      shape.push_back(TRY(head.in().number<std::int64_t>("size")));
      if (shape.back() < 0 || __builtin_mul_overflow(bytes, shape.back(), &bytes))
        return head.in().malformed("a constant of shape {}", text_of(shape));
    }
    image.checksums.push_back(TRY(head.in().number<std::uint64_t>("checksum")));
    const std::string elsewhere = TRY(head.text("file"));
    const auto there = TRY(head.in().number<std::uint64_t>("offset"));
    if (!elsewhere.empty()) {
      const WeightBytes weight =
          TRY(read_weight(files, elsewhere, there, static_cast<std::uint64_t>(bytes), file->path()));
      HostTensor value = TRY(HostTensor::view_or_copy(*dtype, std::move(shape), weight.bytes, weight.owner));
      if (value.bytes().data() != weight.bytes.data()) forget_pages(weight.bytes);  // they were copied
      image.constants.push_back(std::make_shared<const HostTensor>(std::move(value)));
      continue;
    }
    if (offset > file->bytes().size() || file->bytes().size() - offset < static_cast<std::uint64_t>(bytes))
      return head.in().malformed("constant {} ends behind the file", i);
    const auto view = file->bytes().subspan(offset, static_cast<std::uint64_t>(bytes));
    image.constants.push_back(
        std::make_shared<const HostTensor>(HostTensor::view(*dtype, std::move(shape), view, file)));
    offset = aligned(offset + view.size());
  }
  return {};
}

Result<std::vector<std::vector<KernelUse>>> read_launches(HeadReader& head, const Graph& graph) {
  Symbols symbols;
  collect_symbols(graph, symbols);
  std::vector<Dim> dims;
  const auto texts = TRY(head.count("expressions"));
  for (std::uint64_t i = 0; i < texts; ++i) {
    const std::string text = TRY(head.text("expression"));
    auto dim = Dim::parse(text, symbols);
    if (!dim) return head.in().malformed("expression '{}': {}", text, dim.error().message);
    dims.push_back(*std::move(dim));
  }
  const auto size = TRY(head.in().number<std::uint64_t>("length"));
  const std::int64_t base = head.in().offset();
  HeadReader uses(TRY(head.in().take(size, "launches")), head.in().file(), base);
  const auto dim = [&](Dim& target) -> Result<void> {
    const auto number = TRY(uses.in().number<std::uint64_t>("number of an expression"));
    if (number >= dims.size()) return uses.in().malformed("expression {} of {}", number, dims.size());
    target = dims[number];
    return {};
  };
  std::vector<std::vector<KernelUse>> launches(TRY(uses.count("fusions")));
  for (auto& of_fusion : launches) {
    of_fusion.resize(TRY(uses.count("launches")));
    for (KernelUse& use : of_fusion) {
      use.entry = TRY(uses.text("entry"));
      use.module = TRY(uses.in().number<std::uint64_t>("module"));
      use.sizes.resize(TRY(uses.count("sizes")));
      for (Dim& one : use.sizes) TRY(dim(one));
      for (Dim* one : {&use.grid, &use.local_bytes, &use.flops, &use.bytes}) TRY(dim(*one));
    }
  }
  if (!uses.in().at_end()) return uses.in().malformed("bytes behind the launches");
  return launches;
}

Result<Coverage> read_coverage(HeadReader& head) {
  Coverage coverage;
  for (int* count : {&coverage.native, &coverage.generated, &coverage.host, &coverage.folded})
    *count = TRY(head.small("operators"));
  coverage.rows.resize(TRY(head.count("rows")));
  for (CoverageRow& row : coverage.rows) {
    row.op = TRY(head.text("operator"));
    row.how = TRY(head.text("way"));
    row.count = TRY(head.small("count"));
    row.reason = TRY(head.text("reason"));
  }
  return coverage;
}

// The head, whole and unchanged.
Result<HeadReader> checked_head(const MappedFile& file, std::uint64_t& data) {
  Reader in(file.bytes(), file.path());
  if (TRY(in.text(kMagic.size(), "magic")) != kMagic)
    return in.malformed_at(0, "not a compiled model of this version");
  const auto checksum = TRY(in.number<std::uint64_t>("checksum"));
  const auto size = TRY(in.number<std::uint64_t>("length"));
  const std::int64_t base = in.offset();
  const auto bytes = TRY(in.take(size, "head"));
  if (checksum_of(bytes) != checksum) return in.malformed("the checksum does not fit the contents");
  data = aligned(static_cast<std::uint64_t>(base) + size);
  return HeadReader(bytes, file.path(), base);
}

}  // namespace

std::string Image::origin(std::string_view name) const {
  const auto found = std::ranges::find(origins, name, &Origins::value_type::first);
  return found == origins.end() ? "" : found->second;
}

Image::Bytes Image::bytes() const {
  Writer head;
  head.number(origins.size());
  for (const auto& [name, origin] : origins) {
    head.text(name);
    head.text(origin);
  }
  ConstantList apart;
  const std::string text = print(*graph, apart);
  head.number(apart.size());
  for (const auto& constant : apart) {
    head.text(name_of(constant->dtype()));
    head.number(constant->shape().size());
    for (const std::int64_t size : constant->shape()) head.number(static_cast<std::uint64_t>(size));
    head.number(checksum_of(constant->bytes()));
    const auto reference = references.find(constant.get());
    head.text(reference == references.end() ? "" : reference->second.file);
    head.number(reference == references.end() ? 0 : reference->second.offset);
  }
  head.text(text);
  write_launches(head, parts.launches);
  head.number(parts.blobs.size());
  for (const auto& blob : parts.blobs) head.blob(blob);
  head.number(parts.texts.size());
  for (const ModuleText& module : parts.texts) {
    head.text(module.entry);
    head.text(module.text);
  }
  for (const int count : {coverage.native, coverage.generated, coverage.host, coverage.folded})
    head.number(static_cast<std::uint64_t>(count));
  head.number(coverage.rows.size());
  for (const CoverageRow& row : coverage.rows) {
    head.text(row.op);
    head.text(row.how);
    head.number(static_cast<std::uint64_t>(row.count));
    head.text(row.reason);
  }
  head.number(warnings.size());
  for (const std::string& warning : warnings) head.text(warning);
  const std::vector<std::byte> contents = head.take();
  Writer start;
  start.number(checksum_of(contents));
  start.blob(contents);
  const std::vector<std::byte> rest = start.take();

  Bytes file;
  file.head.resize(kMagic.size());
  std::ranges::copy(std::as_bytes(std::span(kMagic)), file.head.begin());
  file.head.insert(file.head.end(), rest.begin(), rest.end());
  file.count = file.head.size();
  file.pieces.emplace_back(file.head);
  for (const auto& constant : apart) {
    if (references.contains(constant.get())) continue;
    file.pieces.push_back(std::span(kPadding).first(aligned(file.count) - file.count));
    file.pieces.push_back(constant->bytes());
    file.count = aligned(file.count) + constant->bytes().size();
  }
  return file;
}

Result<Image> Image::parse(const std::shared_ptr<const MappedFile>& file) {
  std::uint64_t data = 0;
  HeadReader head = TRY(checked_head(*file, data));
  Image image;
  image.origins = TRY(read_origins(head));
  TRY(read_constants(head, file, image, data));
  const std::string text = TRY(head.text("graph"));
  auto graph = diji::parse(text, find_op, image.constants);
  if (!graph) return in_context(file->path(), std::move(graph).error());
  image.graph = std::make_shared<const Graph>(*std::move(graph));
  image.parts.launches = TRY(read_launches(head, *image.graph));
  const auto blobs = TRY(head.count("modules"));
  for (std::uint64_t i = 0; i < blobs; ++i) {
    const auto blob = TRY(head.blob("module"));
    image.parts.blobs.emplace_back(blob.begin(), blob.end());
  }
  image.parts.texts.resize(TRY(head.count("texts")));
  for (ModuleText& module : image.parts.texts) {
    module.entry = TRY(head.text("entry"));
    module.text = TRY(head.text("kernel text"));
  }
  image.coverage = TRY(read_coverage(head));
  image.warnings.resize(TRY(head.count("warnings")));
  for (std::string& warning : image.warnings) warning = TRY(head.text("warning"));
  if (!head.in().at_end()) return head.in().malformed("bytes after the end");
  return image;
}

Result<Image::Origins> Image::origins_of(const MappedFile& file) {
  std::uint64_t data = 0;
  HeadReader head = TRY(checked_head(file, data));
  return read_origins(head);
}

Result<void> Image::check_constants(ThreadPool* threads) const {
  std::vector<char> wrong(constants.size());
  const auto check = [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      wrong[i] = checksum_of(constants[i]->bytes()) == checksums[i] ? 0 : 1;
  };
  const auto count = std::ssize(constants);
  threads != nullptr ? threads->parallel_for(count, 1, check) : check(0, count, 0);
  const auto found = std::ranges::find(wrong, 1);
  if (found == wrong.end()) return {};
  return fail(ErrorCode::malformed, "the checksum of constant {} does not fit its bytes",
              found - wrong.begin());
}

}  // namespace diji
