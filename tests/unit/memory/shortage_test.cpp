// The k-th allocation of the host's memory fails, and all from the k-th on, for every k: an error with a code
// at the border of the loaders, of a session and of diji.h; nothing stays behind; the next try works.
#include "base/files.h"
#include "base/host_memory.h"
#include "diji/diji.h"
#include "formats/npy.h"
#include "formats/tensor_pb.h"
#include "runtime/model_file.h"
#include "tests/unit/formats/onnx_writer.h"
#include "tests/unit/memory/host_memory.h"
#include "tests/unit/runtime/control_flow_graphs.h"
#include "tests/unit/runtime/fixture.h"

#include <mutex>

namespace diji {
namespace {

using test::HostMemory;
using test::Shortage;

/// Each k in turn (and each tenth beyond the first thousand, a prime apart, so that none is left out for good
/// by its place in a loop); how many tries ended in an error.
int for_every_k(const std::function<Result<void>()>& attempt) {
  REQUIRE_MESSAGE(attempt(), "with all memory there is");  // what is made once in a process is made now
  REQUIRE(attempt());
  int stopped = 0;
  for (const Shortage shortage : {Shortage::one_allocation, Shortage::all_from_there}) {
    for (std::int64_t k = 0;; k += k < 1000 ? 1 : 11) {
      REQUIRE(k < 1'000'000);
      const std::int64_t before = HostMemory::live();
      HostMemory::arm(k, shortage);
      auto done = attempt();
      const bool tripped = HostMemory::disarm();
      if (!done) {
        ++stopped;
        if (done.error().code != ErrorCode::out_of_memory) {
          CAPTURE(k);
          CAPTURE(done.error().message);
          EXPECT(done.error().code == ErrorCode::out_of_memory);
        }
        done = attempt();  // the next try works
        EXPECT(done);
      }
      if (HostMemory::live() != before) {
        CAPTURE(k);
        EXPECT(HostMemory::live() == before);
      }
      if (!tripped) break;
    }
  }
  return stopped;
}

template <typename Body>
int loads(Body&& body) {
  return for_every_k([&] {
    return with_host_memory([&]() -> Result<void> {
      TRY(body());
      return {};
    });
  });
}

TEST_CASE("loaders") {
  const test::ScratchCache scratch;
  const auto rich = test::rich_model().bytes(), nested = test::nested_model().bytes();
  const HostTensor tensor = HostTensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto npy = scratch.folder() / "t.npy", pb = scratch.folder() / "t.pb",
             onnx = scratch.folder() / "m.onnx";
  REQUIRE(write_npy(npy, tensor));
  REQUIRE(write_tensor_pb(pb, tensor, "t"));
  REQUIRE(write_file_atomically(onnx, rich));
  EXPECT(loads([&] { return read_onnx_bytes(rich, "rich.onnx", {}); }) > 1000);
  EXPECT(loads([&] { return read_onnx_bytes(nested, "nested.onnx", {}); }) > 1000);
  EXPECT(loads([&] { return read_onnx(onnx, {}); }) > 1000);
  EXPECT(loads([&] { return parse(test::kCounted, find_op); }) > 500);
  EXPECT(loads([&] { return read_npy(npy); }) > 4);
  EXPECT(loads([&] { return read_tensor_pb(pb); }) > 4);
}

TEST_CASE("a file is written whole or not at all, and leaves nothing beside it") {
  const test::ScratchCache scratch;
  const HostTensor tensor = HostTensor::of<float>({3}, {1, 2, 3});
  EXPECT(loads([&] { return write_npy(scratch.folder() / "t.npy", tensor); }) > 4);
  for (const auto& entry : std::filesystem::directory_iterator(scratch.folder()))
    EXPECT(entry.path().extension() == ".npy");
}

std::string z_bits(const std::vector<HostTensor>& outputs) {
  std::string bits;
  for (const HostTensor& output : outputs)
    bits.append(reinterpret_cast<const char*>(output.bytes().data()), output.bytes().size());
  return bits;
}

/// What stands on the C interface, as a program would use it.
class Program {
 public:
  explicit Program(std::filesystem::path path) : path_(std::move(path)) {}

  Result<void> load_and_run() {
    diji_model* model = nullptr;
    TRY(checked(diji_model_load(path_.c_str(), nullptr, &model)));
    auto ran = run(model);
    diji_model_free(model);
    return ran;
  }

  Result<void> run(diji_model* model) {
    diji_tensor_view inputs[] = {{"x", DIJI_F32, shape_, 2, values_, sizeof(values_)}};
    diji_result* result = nullptr;
    TRY(checked(diji_model_run(model, inputs, 1, &result)));
    diji_tensor_view z;
    const auto status = diji_result_output(result, 0, &z);
    const std::string_view bits(static_cast<const char*>(z.data),
                                status == DIJI_STATUS_OK ? z.data_bytes : 0);
    if (bits_length_ == 0) {
      bits_length_ = bits.size();
      std::ranges::copy(bits, bits_);
    }
    if (bits != std::string_view(bits_, bits_length_)) wrong_ = true;
    diji_result_free(result);
    return checked(status);
  }

  Result<void> mistakes() {
    diji_model* model = nullptr;
    diji_tensor_view view{};
    const diji_load_options options = {sizeof(options), "gpu:3", 0, 0, 0};
    for (const auto status :
         {diji_model_load(nullptr, nullptr, &model), diji_model_load("/no/such.onnx", nullptr, &model),
          diji_model_load(path_.c_str(), &options, &model), diji_model_run(nullptr, &view, 1, nullptr),
          diji_result_output(nullptr, 0, &view)}) {
      if (status == DIJI_STATUS_OK) wrong_ = true;
      if (std::string_view(diji_error_code()) == "out_of_memory") TRY(checked(status));
    }
    return {};
  }

  bool wrong() const { return wrong_; }

 private:
  static Result<void> checked(diji_status_code status) {
    if (status == DIJI_STATUS_OK) return {};
    Error error;
    error.code =
        std::string_view(diji_error_code()) == "out_of_memory" ? ErrorCode::out_of_memory : ErrorCode::failed;
    const test::WithoutShortage to_tell;
    error.message = diji_error_message();
    return std::unexpected(std::move(error));
  }

  std::filesystem::path path_;
  const std::int64_t shape_[2] = {2, 4};
  const float values_[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  char bits_[256] = {};
  std::size_t bits_length_ = 0;
  bool wrong_ = false;
};

TEST_CASE("diji.h: every entry point") {
  const test::ScratchCache cache;
  const auto onnx = cache.folder() / "m.onnx", text = cache.folder() / "m.txt",
             dji = cache.folder() / "m.dji";
  const auto model = test::model_of(
      test::small_graph({test::node("Mul", {"x", "y"}, {"m"}), test::node("Softmax", {"m"}, {"z"})}));
  REQUIRE(write_file_atomically(onnx, model.bytes()));
  const auto imported = test::import(model);
  REQUIRE(imported);
  REQUIRE(write_file_atomically(text, print(imported->graph)));
  DeviceList devices(built_in_plugins(), 1);
  REQUIRE(write_model_file(dji, onnx, {}, *devices.open("cpu").value()));
  for (const auto& path : {onnx, text, dji}) {
    CAPTURE(path.string());
    Program program(path);
    REQUIRE(
        program.load_and_run());  // kernels are compiled now and cached: LLVM ends the process without memory
    EXPECT(for_every_k([&] { return program.load_and_run(); }) > 100);
    EXPECT(for_every_k([&] { return program.mistakes(); }) > 10);
    diji_model* loaded = nullptr;
    REQUIRE(diji_model_load(path.c_str(), nullptr, &loaded) == DIJI_STATUS_OK);
    EXPECT(for_every_k([&] { return program.run(loaded); }) > 10);
    diji_model_free(loaded);
    EXPECT_FALSE(program.wrong());
  }
}

/// The cpu, whose compiler is spared, and asked once for each text: LLVM ends the process without memory.
const diji_device_plugin_table& spared() {
  static const diji_device_plugin_table& cpu = *built_in_plugins()[0];
  static const diji_device_plugin_table made = [] {
    diji_device_plugin_table table = cpu;
    table.compile = [](diji_device* device, const diji_kernel_text* text, const void** blob,
                       std::size_t* bytes) -> diji_status {
      static std::mutex mutex;
      static std::map<std::string, std::vector<std::byte>, std::less<>> known;
      const test::WithoutShortage spare;
      const std::scoped_lock lock(mutex);
      auto& made_before = known[std::string(text->text, text->text_bytes)];
      if (made_before.empty()) {
        const diji_status status = cpu.compile(device, text, blob, bytes);
        if (status != DIJI_OK) return status;
        const auto* first = static_cast<const std::byte*>(*blob);
        made_before.assign(first, first + *bytes);
        cpu.blob_free(*blob);
      }
      *blob = made_before.data();
      *bytes = made_before.size();
      return DIJI_OK;
    };
    table.blob_free = [](const void*) {};
    return table;
  }();
  return made;
}

TEST_CASE("compiling on two threads, without a cache") {
  const test::ScratchCache cache;
  const diji_device_plugin_table* const tables[] = {&spared()};
  DeviceList devices(tables, 2);
  Device& device = *devices.open("cpu").value();
  const Graph graph = test::small_graph();
  EXPECT(loads([&]() -> Result<void> {
           CompileCache none("");
           TRY(compile(graph, device, none, {}));
           return {};
         }) > 100);
}

TEST_CASE("runs: straight, branches, loops") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  const HostTensor yes = HostTensor::of<bool>({}, {true}), two = HostTensor::of<std::int64_t>({}, {2});
  const auto zeros = [](StaticShape shape) {
    return HostTensor::allocate(DType::f32, std::move(shape)).value();
  };
  const std::pair<std::string_view, std::vector<HostTensor>> runs[] = {
      {test::kBranches, {yes, zeros({5})}},
      {test::kGrowing, {two, zeros({5})}},
      {test::kUntil, {zeros({4, 2}), zeros({2}), yes}},
      {test::kCounted, {zeros({50}), zeros({3, 1}), yes}},
  };
  for (const auto& [text, inputs] : runs) {
    CAPTURE(text);
    const auto session = Session::of(devices, test::graph_from(text), {});
    REQUIRE(session);
    MemoryPool pool((*session)->device(), "test");
    std::string wanted;
    bool same = true;
    EXPECT(loads([&]() -> Result<void> {
             const auto executable =
                 std::shared_ptr<const Executable>(std::shared_ptr<void>(), &(*session)->executable());
             const auto context = TRY(ExecutionContext::create(executable, pool));
             const auto outputs = TRY(context->run(inputs));
             const test::WithoutShortage to_compare;
             std::string bits = z_bits(outputs);
             if (wanted.empty()) wanted = bits;
             same = same && bits == wanted;
             return {};
           }) > 100);
    EXPECT(same);
    EXPECT(pool.state().used_bytes == 0);
  }
}

}  // namespace
}  // namespace diji
