// .npy: what NumPy writes, what others write, and what is refused.
#include "formats/npy.h"

#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/formats/expect_error.h"
#include "tests/unit/formats/onnx_writer.h"

#include <string>

namespace diji::test {
namespace {

std::string file_of(std::string_view header, std::string_view data, char major = 1) {
  std::string text = "\x93NUMPY";
  text += {major, '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  if (major > 1) text += std::string(2, '\0');
  return text + std::string(header) + std::string(data);
}

Result<HostTensor> read(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return read_npy_bytes({bytes.begin(), bytes.end()}, "a.npy");
}

Result<HostTensor> read_header(std::string_view header) { return read(file_of(header, "12345678")); }

TEST_CASE("every dtype but bf16 makes the round trip, in every rank") {
  const ScratchFolder folder;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const StaticShape& shape : {StaticShape{}, {3}, {0}, {2, 3}, {2, 0, 5}, {1, 2, 3, 4}}) {
      HostTensor tensor = HostTensor::allocate(dtype, shape).value();
      for (std::size_t k = 0; k < tensor.bytes().size(); ++k) {
        tensor.mutable_bytes()[k] = static_cast<std::byte>(dtype == DType::boolean ? k % 2 : k * 7);
      }
      const auto path = folder.path() / "t.npy";
      const auto written = write_npy(path, tensor);
      if (dtype == DType::bf16) {
        expect_error(written, ErrorCode::unsupported, {"t.npy", "bf16", ".pb"});
        continue;
      }
      REQUIRE(written.has_value());
      EXPECT(read_npy(path)->same_bits(tensor));
      EXPECT(std::filesystem::file_size(path) - tensor.bytes().size() == (content_of(path).find('\n') + 1));
      EXPECT((content_of(path).find('\n') + 1) % 64 == 0);
    }
  }
}

TEST_CASE("the header is what NumPy writes") {
  const Bytes bytes = npy_bytes(HostTensor::of<float>({3}, {1, 2, 3})).value();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT(text.starts_with(std::string_view(
      "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 60)));
  EXPECT(npy_bytes(HostTensor::of<bool>({}, {true})).value().size() == 129);
}

TEST_CASE("versions 2 and 3, other spellings, data that lies askew") {
  constexpr std::string_view kHeader = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  const std::string data = bytes_of_values({1.5F, 2.5F});
  for (const char major : {'\1', '\2', '\3'}) {
    for (std::size_t spaces = 0; spaces < 4; ++spaces) {
      const auto tensor = read(file_of(std::string(spaces, ' ') + std::string(kHeader), data, major));
      REQUIRE(tensor.has_value());
      EXPECT(tensor->as_double(1) == 2.5);
    }
  }
  EXPECT(read_header(R"({"shape":(2,),"fortran_order":False,"descr":"<i4"})")->count() == 2);
  EXPECT(read_header("{'descr': '=i8', 'fortran_order': False, 'shape': ()}")->rank() == 0);
  EXPECT(read_header("{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 4L)}")->count() == 8);
  EXPECT(read_header("{'descr': '<u1', 'fortran_order': False, 'shape': (8)}")->count() == 8);
}

TEST_CASE("arrays that are no tensor of ours are unsupported by name") {
  const auto of = [](std::string_view descr) {
    return read_header(fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': (2,), }}", descr));
  };
  expect_error(of("'>f4'"), ErrorCode::unsupported, {"a.npy", "big-endian", ">f4"});
  expect_error(of("'|O'"), ErrorCode::unsupported, {"Python objects"});
  expect_error(of("'<U5'"), ErrorCode::unsupported, {"<U5"});
  expect_error(of("'<c8'"), ErrorCode::unsupported, {"<c8"});
  expect_error(of("'<V2'"), ErrorCode::unsupported, {"<V2"});
  expect_error(of("'<M8[ns]'"), ErrorCode::unsupported, {"<M8[ns]"});
  expect_error(of("''"), ErrorCode::unsupported, {"descr ''"});
  expect_error(of("'f4'"), ErrorCode::unsupported, {"descr 'f4'"});
  expect_error(of("[('a', '<f4'), ('b', '<i4')]"), ErrorCode::unsupported, {"structures"});
  expect_error(read_header("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }"),
               ErrorCode::unsupported, {"Fortran order", "ascontiguousarray"});
  expect_error(read(file_of("", "", 4)), ErrorCode::unsupported, {"version 4"});
  expect_error(read(file_of("", "", 0)), ErrorCode::unsupported, {"version 0"});
}

TEST_CASE("headers that are none are malformed at their byte") {
  const auto refused = [](std::string_view header, std::string_view word, std::int64_t offset) {
    CAPTURE(std::string(header));
    const auto tensor = read_header(header);
    expect_error(tensor, ErrorCode::malformed, {"a.npy: byte", word});
    EXPECT(tensor.error().offset == 10 + offset);
  };
  refused("", "'{' is missing", 0);
  refused("{", "'\"' is missing", 1);
  refused("{}", "lacks one of", 2);
  refused("{'descr': '<f4', 'fortran_order': False}", "lacks one of", 40);
  refused("{'descr' '<f4'}", "':' is missing", 9);
  refused("{'descr': '<f4}", "without an end", 11);
  refused("{'descr': '\\x3cf4'}", "escape", 11);
  refused("{'descr': '<f4', 'descr': '<f4'}", "stands twice", 26);
  refused("{'other': '<f4'}", "unknown", 10);
  refused("{'fortran_order': 0}", "neither True nor False", 18);
  refused("{'shape': 3}", "'(' is missing", 10);
  refused("{'shape': (-1,)}", "not a number", 11);
  refused("{'shape': (1.5,)}", "')' is missing", 12);
  refused("{'shape': (99999999999999999999,)}", "64 bits", 29);
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", "more behind", 58);
  std::string many = "{'shape': (";
  for (int i = 0; i < 65; ++i) many += "1,";
  refused(many + ")}", "more than 64 axes", 139);
}

TEST_CASE("data that does not fit the header") {
  const auto of = [](std::string_view shape, std::string_view data) {
    return read(
        file_of(fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}", shape), data));
  };
  expect_error(of("(3,)", "12345678"), ErrorCode::malformed, {"[3] of f32 needs 12 bytes", "has 8"});
  expect_error(of("(1,)", "12345678"), ErrorCode::malformed, {"needs 4 bytes", "has 8"});
  expect_error(of("(4611686018427387904,)", "1234"), ErrorCode::malformed, {"too many"});
  expect_error(of("(4294967296, 4294967296)", "1234"), ErrorCode::malformed, {"too many"});
  expect_error(read(file_of("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "\x01\x02")),
               ErrorCode::malformed, {"bool", "neither 0 nor 1"});
}

TEST_CASE("files that are cut off, or something else") {
  const ScratchFolder folder;
  expect_error(read_npy(folder.path() / "none.npy"), ErrorCode::not_found, {"none.npy"});
  expect_error(read("PK\x03\x04 an archive"), ErrorCode::malformed, {"byte 0", "no .npy file"});
  expect_error(read(""), ErrorCode::malformed, {"no .npy file"});
  const std::string whole =
      file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", "12345678");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    expect_error(read(whole.substr(0, length)), ErrorCode::malformed, {"a.npy: byte"});
  }
  std::string huge = whole;
  huge[6] = 2;  // four bytes of length: the first two of the header are its upper half
  expect_error(read(huge), ErrorCode::malformed, {"limit of 65536"});
}

}  // namespace
}  // namespace diji::test
