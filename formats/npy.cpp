// The header of .npy files is a Python dictionary literal: this parses the subset that numpy.save writes.
#include "formats/npy.h"

#include "base/checked.h"
#include "base/files.h"
#include "base/reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace diji {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kHeaderBytesMax = 65'536;  // of structured types; ours have about a hundred
constexpr std::size_t kRankMax = 64;             // NumPy's own limit
constexpr std::size_t kDataAlignment = 64;       // where NumPy lets data begin

// kind and size of `descr`, without its byte order
struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr std::array<TypeName, 12> kTypeNames = {{{"f8", DType::f64},
                                                  {"f4", DType::f32},
                                                  {"f2", DType::f16},
                                                  {"i1", DType::i8},
                                                  {"u1", DType::u8},
                                                  {"i2", DType::i16},
                                                  {"u2", DType::u16},
                                                  {"i4", DType::i32},
                                                  {"u4", DType::u32},
                                                  {"i8", DType::i64},
                                                  {"u8", DType::u64},
                                                  {"b1", DType::boolean}}};

struct Header {
  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<StaticShape> shape;
};

// A cursor over the literal. Every error is at the byte of the file where parsing stopped.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, Reader place) : text_(text), place_(place) {}

  Result<Header> parse() {
    Header header;
    TRY(expect('{'));
    while (!accept('}')) {
      const std::string_view key = TRY(quoted());
      TRY(expect(':'));
      TRY(parse_value(header, key));
      if (accept(',')) continue;
      TRY(expect('}'));
      break;
    }
    skip_spaces();
    if (at_ != text_.size()) return broken("more behind the dictionary");
    if (!header.descr || !header.fortran_order || !header.shape) {
      return broken("the header lacks one of descr, fortran_order, shape");
    }
    return header;
  }

  std::unexpected<Error> fail_here(ErrorCode code, std::string_view why) const {
    auto error = place_.malformed_at(place_.offset() + static_cast<std::int64_t>(at_), why);
    error.error().code = code;
    return error;
  }

 private:
  std::unexpected<Error> broken(std::string_view why) const { return fail_here(ErrorCode::malformed, why); }

  Result<void> parse_value(Header& header, std::string_view key) {
    skip_spaces();
    if (key == "descr" && !header.descr) {
      if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '(')) {
        return fail_here(ErrorCode::unsupported,
                         "an array of structures; arrays of one number type are read");
      }
      header.descr = TRY(quoted());
    } else if (key == "fortran_order" && !header.fortran_order) {
      header.fortran_order = TRY(boolean());
    } else if (key == "shape" && !header.shape) {
      header.shape = TRY(tuple());
    } else {
      return broken("a key that is unknown or stands twice");
    }
    return {};
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Result<void> expect(char c) {
    if (!accept(c)) return broken(fmt::format("'{}' is missing in the header", c));
    return {};
  }

  Result<std::string_view> quoted() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"') TRY(expect('"'));
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) return broken("a name without an end");
    const std::string_view name = text_.substr(at_, end - at_);
    if (name.find_first_of("\\'\"\n") != std::string_view::npos) return broken("a name with an escape in it");
    at_ = end + 1;
    return name;
  }

  Result<bool> boolean() {
    for (const auto& [word, value] : {std::pair(std::string_view("True"), true), {"False", false}}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    return broken("fortran_order is neither True nor False");
  }

  Result<std::int64_t> integer() {
    skip_spaces();
    std::int64_t value = 0;
    const std::size_t start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const auto shifted = checked_mul<std::int64_t>(value, 10);
      const auto next = shifted ? checked_add<std::int64_t>(*shifted, text_[at_] - '0') : std::nullopt;
      if (!next) return broken("a size that does not fit 64 bits");
      value = *next;
    }
    if (at_ == start) return broken("a size is not a number");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 marked long integers
    return value;
  }

  Result<StaticShape> tuple() {
    StaticShape shape;
    TRY(expect('('));
    while (!accept(')')) {
      if (shape.size() == kRankMax) return broken(fmt::format("more than {} axes", kRankMax));
      shape.push_back(TRY(integer()));
      if (accept(',')) continue;
      TRY(expect(')'));
      break;
    }
    return shape;
  }

  std::string_view text_;
  Reader place_;
  std::size_t at_ = 0;
};

std::unexpected<Error> unsupported(const Reader& reader, std::string_view why) {
  auto error = reader.malformed_at(0, why);
  error.error().code = ErrorCode::unsupported;
  return error;
}

Result<DType> dtype_of_descr(std::string_view descr, const Reader& reader) {
  const char order = descr.empty() ? ' ' : descr.front();
  const std::string_view name = descr.substr(std::min<std::size_t>(descr.size(), 1));
  if (order == '>')
    return unsupported(reader, fmt::format("descr '{}' is big-endian; save it little-endian", descr));
  if (name.starts_with('O'))
    return unsupported(reader, "an array of Python objects, which would run code to read");
  const auto* const found = std::ranges::find(kTypeNames, name, &TypeName::name);
  const bool is_order = order == '<' || order == '=' || order == '|';
  if (!is_order || found == kTypeNames.end()) {
    return unsupported(
        reader,
        fmt::format("descr '{}' is no type that diji has; f2, f4, f8, i1 to i8, u1 to u8 and b1 are", descr));
  }
  return found->dtype;
}

Result<Header> read_header(Reader& reader) {
  const std::string_view magic = TRY(reader.text(std::min(kMagic.size(), reader.remaining()), "the magic"));
  if (magic != kMagic) return reader.malformed_at(0, "this is no .npy file");
  const auto major = TRY(reader.number<std::uint8_t>("the version"));
  TRY(reader.number<std::uint8_t>("the version"));
  if (major < 1 || major > 3)
    return unsupported(reader, fmt::format("version {} of .npy; 1 to 3 are read", major));
  std::uint64_t length = 0;
  if (major == 1) {
    length = TRY(reader.number<std::uint16_t>("the header's length"));
  } else {
    length = TRY(reader.number<std::uint32_t>("the header's length"));
  }
  if (length > kHeaderBytesMax) {
    return reader.malformed("a header of {} bytes, more than the limit of {}", length, kHeaderBytesMax);
  }
  const Reader place = reader;
  const std::string_view text = TRY(reader.text(length, "the header"));
  return HeaderParser(text, place).parse();
}

char order_of(DType dtype) { return bytes_of(dtype) == 1 ? '|' : '<'; }

}  // namespace

Result<HostTensor> read_npy_bytes(std::vector<std::byte> bytes, const std::string& name) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  Reader reader(*owner, name);
  Header header = TRY(read_header(reader));
  const DType dtype = TRY(dtype_of_descr(*header.descr, reader));
  if (*header.fortran_order) {
    return unsupported(reader, "an array in Fortran order; save numpy.ascontiguousarray of it");
  }
  const auto count = checked_product(*header.shape);
  const auto size = count ? checked_mul(*count, bytes_of(dtype)) : std::nullopt;
  if (!size || static_cast<std::uint64_t>(*size) != reader.remaining()) {
    return reader.malformed("shape {} of {} needs {} bytes, the file has {}", text_of(*header.shape),
                            name_of(dtype), size ? fmt::format("{}", *size) : "too many", reader.remaining());
  }
  const std::int64_t start = reader.offset();
  const auto data = TRY(reader.take(reader.remaining(), "data"));
  if (dtype == DType::boolean) {
    const auto wrong = std::ranges::find_if(data, [](std::byte byte) { return byte > std::byte{1}; });
    if (wrong != data.end())
      return reader.malformed_at(start + (wrong - data.begin()), "a bool that is neither 0 nor 1");
  }
  // Elements are read in place; files not written by NumPy may begin their data anywhere.
  if (reinterpret_cast<std::uintptr_t>(data.data()) % static_cast<std::uintptr_t>(bytes_of(dtype)) == 0) {
    return HostTensor::view(dtype, *std::move(header.shape), data, owner);
  }
  HostTensor copy = TRY(HostTensor::allocate(dtype, *std::move(header.shape)));
  std::ranges::copy(data, copy.mutable_bytes().begin());
  return copy;
}

Result<HostTensor> read_npy(const std::filesystem::path& path) {
  std::vector<std::byte> bytes = TRY(read_file(path));
  return read_npy_bytes(std::move(bytes), path.string());
}

Result<std::vector<std::byte>> npy_bytes(const HostTensor& tensor) {
  const auto* const type = std::ranges::find(kTypeNames, tensor.dtype(), &TypeName::dtype);
  if (type == kTypeNames.end()) {
    return fail(ErrorCode::unsupported, ".npy has no type for {}; write an ONNX TensorProto (.pb)",
                name_of(tensor.dtype()));
  }
  std::string header =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}", order_of(tensor.dtype()),
                  type->name, fmt::join(tensor.shape(), ", "), tensor.rank() == 1 ? "," : "");
  const std::size_t prefix = kMagic.size() + 4;  // version and length
  const std::size_t total = (prefix + header.size() + kDataAlignment) / kDataAlignment * kDataAlignment;
  header.append(total - prefix - header.size() - 1, ' ');
  header += '\n';
  std::string text(kMagic);
  text += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  text += header;
  const auto head = std::as_bytes(std::span(text));
  std::vector<std::byte> bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), tensor.bytes().begin(), tensor.bytes().end());
  return bytes;
}

Result<void> write_npy(const std::filesystem::path& path, const HostTensor& tensor) {
  auto bytes = npy_bytes(tensor);
  if (!bytes) return in_context(path.string(), std::move(bytes).error());
  return write_file_atomically(path, std::span<const std::byte>(*bytes));
}

}  // namespace diji
