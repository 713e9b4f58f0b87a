// Compiled models in the cache: a warm start gives the bits of a cold one, and what does not fit is a miss.
#include "base/files.h"
#include "base/log.h"
#include "ops/samples.h"
#include "runtime/image_cache.h"
#include "runtime/model_file.h"
#include "runtime/model_identity.h"
#include "tests/unit/formats/onnx_writer.h"
#include "tests/unit/runtime/fixture.h"

namespace diji {
namespace {

namespace fs = std::filesystem;

// y = tanh(x · w), where x is f32[N, 40] and w is large enough to stand outside of a text.
test::Message product_model(float first = 0.5F) {
  std::string weights;
  for (int i = 0; i < 1200; ++i) {
    const float value = i == 0 ? first : static_cast<float>(i % 7) - 2.5F;
    weights.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  test::Message w = test::tensor_head("w", test::kFloat, {40, 30});
  w.text(onnx::TensorFields::raw_data, weights);
  return test::model_of({.nodes = {test::node("MatMul", {"x", "w"}, {"p"}), test::node("Tanh", {"p"}, {"y"})},
                         .initializers = {w},
                         .inputs = {test::tensor_info("x", test::kFloat, {std::string_view("N"), 40})},
                         .outputs = {test::value_info("y", {})}});
}

void write(const fs::path& path, const test::Message& model) {
  REQUIRE(write_file_atomically(path, model.bytes()).has_value());
}

struct Opened {
  std::string miss;
  int compiled = 0;
  HostTensor y;
};

Opened open_and_run(DeviceList& devices, const fs::path& path, const SessionOptions& options = {}) {
  const auto session = Session::open(devices, path, options);
  REQUIRE_MESSAGE(session.has_value(), (session ? std::string() : session.error().message));
  const auto y = (*session)->run({{"x", sample_tensor(DType::f32, {5, 40}, Fill::normal, 3)}});
  REQUIRE_MESSAGE(y.has_value(), (y ? std::string() : y.error().message));
  return {(*session)->cache_miss(), (*session)->compiled_kernels(), (*y)[0]};
}

fs::path image_in(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == Image::kSuffix) return entry.path();
  }
  return {};
}

TEST_CASE("a warm start compiles nothing and gives the same bits; what changed is named") {
  const test::ScratchCache scratch;
  DeviceList devices(built_in_plugins(), 1);
  const fs::path path = scratch.folder() / "m.onnx";
  write(path, product_model());
  const Opened cold = open_and_run(devices, path), warm = open_and_run(devices, path);
  EXPECT(cold.miss == "no compiled model of m.onnx");
  EXPECT(cold.compiled > 0);
  EXPECT(warm.miss.empty());
  EXPECT(warm.compiled == 0);
  EXPECT(warm.y.same_bits(cold.y));
  // The same bytes elsewhere are the same model.
  fs::copy_file(path, scratch.folder() / "copy.onnx");
  EXPECT(open_and_run(devices, scratch.folder() / "copy.onnx").miss.empty());
  const Opened fixed = open_and_run(devices, path, {.fixed_dims = {{"N", 5}}});
  EXPECT(fixed.miss.contains("options is 'size N=5; ', not ''"));
  EXPECT(fixed.y.same_bits(cold.y));
  SessionOptions without;
  without.passes.disabled_rules = {"fuse_epilogue"};
  EXPECT(open_and_run(devices, path, without).miss.contains("without fuse_epilogue"));
  write(path, product_model(0.75F));
  const Opened changed = open_and_run(devices, path);
  EXPECT(changed.miss.contains("digest is"));
  EXPECT_FALSE(changed.y.same_bits(cold.y));
}

TEST_CASE("every cut and every flipped bit of a compiled model is a miss") {
  const test::ScratchCache scratch;
  DeviceList devices(built_in_plugins(), 1);
  const fs::path path = scratch.folder() / "m.onnx";
  write(path, product_model());
  const Opened cold = open_and_run(devices, path);
  const fs::path file = image_in(scratch.folder());
  const auto good = read_file(file).value();
  const Image image = Image::parse(MappedFile::open(file).value()).value();
  REQUIRE(image.constants.size() == 1);
  CacheFolder folder(scratch.folder(), CacheFolder::kBytesMax);
  ImageCache images(folder);
  ThreadPool& threads = devices.open("cpu").value()->threads();
  REQUIRE(images.find(image.origins, threads).value().has_value());
  set_log_level(LogLevel::error);  // thousands of warnings about damaged files are the point here
  int found = 0;
  for (std::size_t size = 0; size < good.size(); size += 13) {
    REQUIRE(write_file_atomically(file, std::span(good).first(size)).has_value());
    found += images.find(image.origins, threads).value().has_value() ? 1 : 0;
  }
  EXPECT(found == 0);
  std::size_t padding = 0;  // between the head and the constants nothing is read
  for (std::size_t i = 0; i < good.size(); i += i < 400 || good.size() - i < 600 ? 1 : 7) {
    auto bad = good;
    bad[i] ^= std::byte{0x10};
    REQUIRE(write_file_atomically(file, bad).has_value());
    padding += images.find(image.origins, threads).value().has_value() ? 1 : 0;
  }
  EXPECT(padding < 64);
  const Opened again = open_and_run(devices, path);
  set_log_level(LogLevel::warning);
  EXPECT(again.y.same_bits(cold.y));
  EXPECT(again.compiled == 0);
  EXPECT(open_and_run(devices, path).miss.empty());
}

TEST_CASE("a compiled model under another's name, or of another build, is not used") {
  const test::ScratchCache scratch;
  DeviceList devices(built_in_plugins(), 1);
  const fs::path path = scratch.folder() / "m.onnx";
  write(path, product_model());
  open_and_run(devices, path);
  const fs::path file = image_in(scratch.folder());
  Image image = Image::parse(MappedFile::open(file).value()).value();
  image.origins.back().second = "diji of yesterday";
  const Image::Bytes other = image.bytes();
  REQUIRE(write_file_atomically(file, other.pieces).has_value());
  CacheFolder folder(scratch.folder(), CacheFolder::kBytesMax);
  ImageCache images(folder);
  Device* device = devices.open("cpu").value();
  const auto origins = origins_of("m.onnx", image.origin("digest"), {}, *device, false);
  REQUIRE(origins.has_value());
  set_log_level(LogLevel::error);
  EXPECT_FALSE(images.find(*origins, device->threads()).value().has_value());
  set_log_level(LogLevel::warning);
  EXPECT(images.why_missing(*origins).contains("not 'diji of yesterday'"));
  SessionOptions dumping;
  dumping.passes.dump_after = "fuse";
  EXPECT_FALSE(origins_of("m.onnx", "0", dumping, *device, false).has_value());
}

TEST_CASE("branches, loops and sizes from data survive the file form") {
  const test::ScratchCache scratch;
  DeviceList devices(built_in_plugins(), 2);
  const Graph graph = test::graph_from(R"(graph "mixed" {
    symbol N in [0, 1099511627776]
    input %x "x" : f32[N, 3]
    input %c "c" : bool[]
    %w = constant f32[3, 8] hex")"
                                       "0000803f0000004000004040000080400000a0400000c0400000e04000000041"
                                       "0000104100002041000030410000404100005041000060410000704100008041"
                                       "0000884100009041000098410000a0410000a8410000b0410000b8410000c041"
                                       R"("
    %p = matmul(%x, %w)
    %zero = constant f32[] {0.0}
    %mask = greater(%p, %zero)
    %where = non_zero(%mask)
    %s = prim.conditional(%c, %p) : f32[N, 8] graph "then" {
      symbol N in [0, 1099511627776]
      input %0 "p" : f32[N, 8]
      %1 = tanh(%0)
      output "y" = %1
    } graph "else" {
      symbol N in [0, 1099511627776]
      input %0 "p" : f32[N, 8]
      %1 = exp(%0)
      output "y" = %1
    }
    output "where" = %where
    output "s" = %s
  })");
  Device* device = devices.open("cpu").value();
  CompileCache cache;
  CompiledParts parts;
  const auto cold = compile(graph, *device, cache, {}, &parts);
  REQUIRE_MESSAGE(cold.has_value(), (cold ? std::string() : cold.error().message));
  const Image image{.origins = {}, .graph = (*cold)->programs[0].graph, .parts = std::move(parts)};
  const fs::path path = scratch.folder() / "a.image";
  REQUIRE(write_file_atomically(path, image.bytes().pieces).has_value());
  const Image read = Image::parse(MappedFile::open(path).value()).value();
  EXPECT(read.constants.size() == 1);
  EXPECT(print(*read.graph) == print(*image.graph));
  const auto warm = restore(read.graph, *device, cache, read.parts);
  REQUIRE_MESSAGE(warm.has_value(), (warm ? std::string() : warm.error().message));
  const bool sides[] = {false, true};
  for (const bool& side : sides) {
    const std::vector<HostTensor> inputs = {sample_tensor(DType::f32, {7, 3}, Fill::normal, 5),
                                            HostTensor::of<bool>({}, std::span(&side, 1))};
    const auto run = [&](const std::shared_ptr<const Executable>& executable) {
      const auto context = ExecutionContext::create(executable, device->default_pool()).value();
      return context->run(inputs).value();
    };
    const auto a = run(*cold), b = run(*warm);
    REQUIRE(a.size() == 2);
    EXPECT(a[0].same_bits(b[0]));
    EXPECT(a[1].same_bits(b[1]));
  }
  // Parts of another model are refused, not run.
  CompiledParts fewer = read.parts;
  fewer.launches.pop_back();
  EXPECT_FALSE(restore(read.graph, *device, cache, fewer).has_value());
  fewer = read.parts;
  fewer.launches.emplace_back();
  EXPECT_FALSE(restore(read.graph, *device, cache, fewer).has_value());
  fewer = read.parts;
  fewer.texts.clear();
  fewer.blobs.resize(1);
  EXPECT_FALSE(restore(read.graph, *device, cache, fewer).has_value());
}

TEST_CASE("FILE.dji runs without the passes, and refers to the weights beside it") {
  const test::ScratchCache scratch;
  DeviceList devices(built_in_plugins(), 1);
  Device* device = devices.open("cpu").value();
  const fs::path model = scratch.folder() / "m.onnx", file = scratch.folder() / "m.dji";
  write(model, product_model());
  const HostTensor y = open_and_run(devices, model).y;
  const WrittenModel written = write_model_file(file, model, {}, *device).value();
  EXPECT(written.referenced == 1);
  EXPECT(fs::file_size(file) == written.bytes);
  EXPECT(open_and_run(devices, file).y.same_bits(y));
  EXPECT(read_model(file, {}).value().outputs().size() == 1);
  // Elsewhere the weights go along.
  fs::create_directory(scratch.folder() / "far");
  const fs::path far = scratch.folder() / "far" / "m.dji";
  EXPECT(write_model_file(far, model, {}, *device).value().referenced == 0);
  EXPECT(open_and_run(devices, far).y.same_bits(y));
  fs::copy_file(file, far, fs::copy_options::overwrite_existing);
  const auto lost = Session::open(devices, far, {});
  REQUIRE_FALSE(lost.has_value());
  EXPECT(lost.error().code == ErrorCode::not_found);
  EXPECT(lost.error().message.contains("m.onnx"));
  // Fixed sizes are in the file, and the model is bound to them.
  REQUIRE(write_model_file(far, model, {.fixed_dims = {{"N", 5}}}, *device).has_value());
  EXPECT(open_and_run(devices, far).y.same_bits(y));
  EXPECT_FALSE(Session::open(devices, far, {.fixed_dims = {{"N", 5}}}).has_value());

  write(model, product_model(0.75F));
  const auto changed = Session::open(devices, file, {});
  REQUIRE_FALSE(changed.has_value());
  EXPECT(changed.error().code == ErrorCode::mismatch);
  EXPECT(changed.error().message.contains("weights of m.onnx are not those it was compiled from"));
}

TEST_CASE("FILE.dji for other kernels, of another version, or damaged is refused by name") {
  const test::ScratchCache scratch;
  DeviceList devices(built_in_plugins(), 1);
  const fs::path model = scratch.folder() / "m.onnx", file = scratch.folder() / "m.dji";
  write(model, product_model());
  REQUIRE(write_model_file(file, model, {}, *devices.open("cpu").value()).has_value());
  const auto message_with = [&](std::string_view name, std::string origin) {
    Image image = Image::parse(MappedFile::open(file).value()).value();
    std::ranges::find(image.origins, name, &Image::Origins::value_type::first)->second = std::move(origin);
    const fs::path other = scratch.folder() / "other.dji";
    REQUIRE(write_file_atomically(other, image.bytes().pieces).has_value());
    const auto opened = Session::open(devices, other, {});
    REQUIRE_FALSE(opened.has_value());
    EXPECT(opened.error().code == ErrorCode::unsupported);
    return opened.error().message;
  };
  EXPECT(message_with("device", "ptx").contains("has kernels for ptx; cpu:0 takes"));
  EXPECT(message_with("diji", "0.0.1").contains("was compiled by diji 0.0.1, this is"));
  const auto good = read_file(file).value();
  for (std::size_t i = 0; i < good.size(); i += 11) {
    auto bad = good;
    bad[i] ^= std::byte{1};
    REQUIRE(write_file_atomically(file, bad).has_value());
    const auto opened = Session::open(devices, file, {});
    EXPECT_FALSE(opened.has_value());
  }
}

TEST_CASE("a model's identity is known again while none of its files changes") {
  const test::ScratchCache scratch;
  CacheFolder folder(scratch.folder(), CacheFolder::kBytesMax);
  const fs::path model = scratch.folder() / "m.onnx", data = scratch.folder() / "m.data";
  const auto write_text = [](const fs::path& path, std::string_view text) {
    REQUIRE(write_file_atomically(path, text).has_value());
  };
  write_text(model, "model");
  write_text(data, "data");
  const auto known = [&] { return ModelIdentity(folder, model, 0).known(); };
  EXPECT_FALSE(known().has_value());
  ModelIdentity(folder, model).remember("too fresh", {});
  EXPECT_FALSE(known().has_value());
  ModelIdentity(folder, model, 0).remember("digest", {"m.data"});
  EXPECT(known() == "digest");
  write_text(data, "DATA");  // another file under the name, of the same size
  EXPECT_FALSE(known().has_value());
  ModelIdentity(folder, model, 0).remember("digest 2", {"m.data"});
  EXPECT(known() == "digest 2");
  ModelIdentity before(folder, model, 0);
  write_text(model, "MODEL");
  EXPECT_FALSE(known().has_value());
  before.remember("of the bytes before", {});
  EXPECT_FALSE(known().has_value());
  ModelIdentity(folder, model, 0).remember("digest 3", {"absent"});
  EXPECT_FALSE(known().has_value());
}

}  // namespace
}  // namespace diji
