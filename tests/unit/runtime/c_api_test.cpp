// diji.h: misuse is an error with a sentence, never a crash.
#include "base/files.h"
#include "diji/diji.h"
#include "graph/text.h"
#include "tests/unit/runtime/fixture.h"

namespace diji {
namespace {

// The small graph as a file, which load() reads by its extension.
std::filesystem::path model_file(const test::ScratchCache& scratch) {
  const std::filesystem::path path = scratch.folder() / "small.txt";
  REQUIRE(write_file_atomically(path, print(test::small_graph())).has_value());
  return path;
}

TEST_CASE("load, ask, run, read") {
  const test::ScratchCache scratch;
  diji_model* model = nullptr;
  REQUIRE(diji_model_load(model_file(scratch).c_str(), nullptr, &model) == DIJI_STATUS_OK);
  REQUIRE(diji_model_input_count(model) == 2);
  EXPECT(std::string_view(diji_model_input_name(model, 1)) == "w");
  EXPECT(diji_model_input_name(model, 2) == nullptr);
  EXPECT(diji_model_output_count(model) == 1);
  EXPECT(std::string_view(diji_model_coverage(model)).contains("0 on the host"));
  const std::vector<float> x(80, 0.5F), w(40, 1.0F);
  const std::int64_t x_shape[] = {2, 40}, w_shape[] = {40};
  diji_tensor_view inputs[] = {{"x", DIJI_F32, x_shape, 2, x.data(), 320},
                               {"w", DIJI_F32, w_shape, 1, w.data(), 160}};
  diji_result* result = nullptr;
  REQUIRE(diji_model_run(model, inputs, 2, &result) == DIJI_STATUS_OK);
  diji_tensor_view y;
  REQUIRE(diji_result_output(result, 0, &y) == DIJI_STATUS_OK);
  EXPECT(std::string_view(y.name) == "y");
  EXPECT((y.dtype == DIJI_F32 && y.rank == 2 && y.shape[0] == 2 && y.shape[1] == 40 && y.data_bytes == 320));
  EXPECT(static_cast<const float*>(y.data)[79] == doctest::Approx(40 * std::tanh(0.5) + 1));
  EXPECT(diji_result_output(result, 1, &y) == DIJI_STATUS_USAGE);
  diji_result_free(result);

  inputs[1].data_bytes = 100;
  EXPECT(diji_model_run(model, inputs, 2, &result) == DIJI_STATUS_INPUT);
  EXPECT(std::string_view(diji_error_code()) == "mismatch");
  EXPECT(std::string_view(diji_error_message()).contains("100 bytes given, 160 wanted"));
  inputs[1].data_bytes = 160;
  EXPECT(diji_model_run(model, inputs, 1, &result) == DIJI_STATUS_INPUT);
  EXPECT(std::string_view(diji_error_message()).contains("input 'w'"));
  inputs[1].name = "x";
  EXPECT(diji_model_run(model, inputs, 2, &result) == DIJI_STATUS_USAGE);
  diji_model_free(model);
}

constexpr std::string_view kDraws = R"(graph "draws" {
  input %key "diji.random_key" : u64[]
  %shape = constant i64[1] {4}
  %y = random_uniform(%shape, %key)
  output "y" = %y
})";

// The outputs of two runs of a model that was loaded with these options.
std::vector<std::vector<float>> two_runs(const char* path, const diji_load_options* options) {
  diji_model* model = nullptr;
  REQUIRE(diji_model_load(path, options, &model) == DIJI_STATUS_OK);
  EXPECT(diji_model_input_count(model) == 0);
  std::vector<std::vector<float>> runs;
  for (int i = 0; i < 2; ++i) {
    diji_result* result = nullptr;
    REQUIRE(diji_model_run(model, nullptr, 0, &result) == DIJI_STATUS_OK);
    diji_tensor_view y;
    REQUIRE(diji_result_output(result, 0, &y) == DIJI_STATUS_OK);
    const auto* values = static_cast<const float*>(y.data);
    runs.emplace_back(values, values + 4);
    diji_result_free(result);
  }
  diji_model_free(model);
  return runs;
}

TEST_CASE("each run draws other numbers, and a seed the same ones again") {
  const test::ScratchCache scratch;
  const std::filesystem::path path = scratch.folder() / "draws.txt";
  REQUIRE(write_file_atomically(path, kDraws).has_value());
  const diji_load_options seven = {sizeof(seven), nullptr, 0, 0, 7};
  const auto seeded = two_runs(path.c_str(), &seven), unseeded = two_runs(path.c_str(), nullptr);
  EXPECT(seeded[0] != seeded[1]);
  EXPECT(seeded[0] != unseeded[0]);
  EXPECT(two_runs(path.c_str(), &seven) == seeded);
  // Of a caller that was compiled before there was a seed: what lies behind its struct is not read.
  const diji_load_options older = {offsetof(diji_load_options, seed), nullptr, 0, 0, 7};
  EXPECT(two_runs(path.c_str(), &older) == unseeded);
}

TEST_CASE("what cannot be loaded says why") {
  diji_model* model = nullptr;
  EXPECT(diji_model_load(nullptr, nullptr, &model) == DIJI_STATUS_USAGE);
  EXPECT(diji_model_load("/no/such/model.onnx", nullptr, &model) == DIJI_STATUS_INPUT);
  EXPECT(std::string_view(diji_error_code()) == "not_found");
  EXPECT(std::string_view(diji_error_file()) == "/no/such/model.onnx");
  const test::ScratchCache scratch;
  const auto path = scratch.folder() / "cut.onnx";
  REQUIRE(write_file_atomically(path, std::string_view("\x08\x08\x3a\x7f", 4)).has_value());
  EXPECT(diji_model_load(path.c_str(), nullptr, &model) == DIJI_STATUS_INPUT);
  EXPECT(std::string_view(diji_error_code()) == "malformed");
  EXPECT(diji_error_offset() >= 2);
  const diji_load_options options = {sizeof(options), "gpu:3", 0, 0, 0};
  EXPECT(diji_model_load(model_file(scratch).c_str(), &options, &model) == DIJI_STATUS_ENVIRONMENT);
  EXPECT(std::string_view(diji_error_message()).contains("cpu:0"));
  diji_model_free(nullptr);
  diji_result_free(nullptr);
}

}  // namespace
}  // namespace diji
