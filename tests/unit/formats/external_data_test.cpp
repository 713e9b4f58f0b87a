// External tensor data: what a model may reach, and everything it may not.
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/formats/expect_error.h"
#include "tests/unit/formats/onnx_writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

namespace diji::test {
namespace {

using onnx::TensorFields;

Message entry(std::string_view key, std::string_view value) {
  return Message()
      .text(onnx::StringStringEntryFields::key, key)
      .text(onnx::StringStringEntryFields::value, value);
}

// f32[2] in `location`, added to x.
Message model_with(std::optional<std::string_view> location, std::string_view offset = "",
                   std::string_view length = "") {
  Message tensor = tensor_head("w", kFloat, {2});
  if (location) tensor.message(TensorFields::external_data, entry("location", *location));
  if (!offset.empty()) tensor.message(TensorFields::external_data, entry("offset", offset));
  if (!length.empty()) tensor.message(TensorFields::external_data, entry("length", length));
  tensor.integer(TensorFields::data_location, 1);
  return model_of(GraphSpec{.nodes = {node("Add", {"x", "w"}, {"z"})},
                            .initializers = {tensor},
                            .inputs = {tensor_info("x", kFloat, {std::int64_t{2}})},
                            .outputs = {tensor_info("z", kFloat, {std::int64_t{2}})}});
}

class Folder {
 public:
  Folder() {
    scratch_.write("model/weights.bin", bytes_of_values({1.0F, 2.0F, 3.0F, 4.0F}));
    scratch_.write("secret.bin", "12345678");
  }
  std::filesystem::path path(std::string_view name) const { return scratch_.path() / "model" / name; }
  Result<ImportedModel> read(const Message& model) const {
    return read_onnx(scratch_.write("model/m.onnx", model.text()));
  }

 private:
  ScratchFolder scratch_;
};

const HostTensor& weight_of(const ImportedModel& model) {
  for (const Value& value : model.graph.values()) {
    if (value.constant != nullptr) return *value.constant;
  }
  check_failed("weight", "the model has one");
}

TEST_CASE("a range of a file beside the model") {
  const Folder folder;
  for (const auto& [offset, first] : {std::pair("", 1.0), {"0", 1.0}, {"4", 2.0}, {"8", 3.0}, {"5", 0.0}}) {
    const auto model = folder.read(model_with("weights.bin", offset, "8"));
    REQUIRE(model.has_value());
    if (first != 0.0) EXPECT(weight_of(*model).as_double(0) == first);
    EXPECT(weight_of(*model).count() == 2);  // at 5 it is copied, because a float cannot be read there
  }
  EXPECT(folder.read(model_with("weights.bin", "8")).has_value());
  EXPECT(folder.read(model_with("./weights.bin")).has_value() == true);
}

TEST_CASE("the digest covers external bytes") {
  const Folder folder;
  const std::string before = folder.read(model_with("weights.bin"))->digest;
  EXPECT(folder.read(model_with("weights.bin"))->digest == before);
  std::filesystem::remove(folder.path("weights.bin"));
  std::ofstream(folder.path("weights.bin"), std::ios::binary) << bytes_of_values({1.0F, 2.5F, 3.0F, 4.0F});
  EXPECT(folder.read(model_with("weights.bin"))->digest != before);
}

TEST_CASE("locations that lead out of the folder") {
  const Folder folder;
  const std::string absolute = std::filesystem::absolute(folder.path("weights.bin"));
  for (const std::string& location :
       {std::string("../secret.bin"), std::string("a/../../secret.bin"), std::string("sub/../weights.bin"),
        std::string(".."), absolute, std::string("/dev/zero"), std::string("/proc/self/environ"),
        std::string(""), std::string("//"), std::string("a//b"), std::string("weights.bin/"),
        std::string("a\0b", 3)}) {
    CAPTURE(location);
    const auto model = folder.read(model_with(location));
    expect_error(model, ErrorCode::malformed, {"'w'", "a path below the model's folder"});
    EXPECT(model.error().offset > 0);
  }
  expect_error(folder.read(model_with(std::nullopt)), ErrorCode::malformed,
               {"a path below the model's folder"});
}

TEST_CASE("links, pipes, folders and files with two names") {
  const Folder folder;
  std::filesystem::create_symlink("weights.bin", folder.path("link.bin"));
  std::filesystem::create_symlink("../secret.bin", folder.path("out.bin"));
  std::filesystem::create_directory_symlink("..", folder.path("up"));
  std::filesystem::create_directory(folder.path("sub"));
  for (const char* location : {"link.bin", "out.bin", "up/secret.bin"}) {
    CAPTURE(location);
    expect_error(folder.read(model_with(location)), ErrorCode::malformed, {location, "through a link"});
  }
  expect_error(folder.read(model_with("sub")), ErrorCode::malformed, {"not a regular file"});
  REQUIRE(::mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  expect_error(folder.read(model_with("pipe")), ErrorCode::malformed,
               {"not a regular file"});  // and does not hang
  std::filesystem::create_hard_link(folder.path("weights.bin"), folder.path("second.bin"));
  expect_error(folder.read(model_with("second.bin")), ErrorCode::malformed, {"several names"});
}

TEST_CASE("files that are not there, and ranges that files do not have") {
  const Folder folder;
  expect_error(folder.read(model_with("nowhere.bin")), ErrorCode::not_found, {"nowhere.bin", "'w'"});
  expect_error(folder.read(model_with("weights.bin", "12")), ErrorCode::malformed,
               {"8 bytes at offset 12", "the file has 16"});
  expect_error(folder.read(model_with("weights.bin", "18446744073709551615")), ErrorCode::malformed,
               {"the file has 16"});
  expect_error(folder.read(model_with("weights.bin", "0", "4")), ErrorCode::malformed,
               {"length 4", "needs 8 bytes"});
  for (const char* number : {"-1", "x", "1 ", "0x10", "18446744073709551616"}) {
    CAPTURE(number);
    expect_error(folder.read(model_with("weights.bin", number)), ErrorCode::malformed,
                 {"no byte count", number});
    expect_error(folder.read(model_with("weights.bin", "0", number)), ErrorCode::malformed,
                 {"no byte count"});
  }
  std::ofstream(folder.path("empty.bin"), std::ios::binary) << "";
  expect_error(folder.read(model_with("empty.bin")), ErrorCode::malformed, {"the file has 0"});
  // The marker with which ONNX Runtime points into its own memory is a path like any other.
  expect_error(folder.read(model_with("*/_ORT_MEM_ADDR_/*", "94000000000000")), ErrorCode::not_found,
               {"_ORT_MEM_ADDR_"});
}

TEST_CASE("a model in memory has no folder") {
  expect_error(import(model_with("weights.bin")), ErrorCode::malformed, {"'w'", "no folder"});
}

}  // namespace
}  // namespace diji::test
