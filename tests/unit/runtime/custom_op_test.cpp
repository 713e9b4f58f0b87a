// Custom operators: declarations against calls, host functions and kernel text in a program with symbolic
// sizes, with and without memory that the host sees, and what a library may not be.
#include "graph/custom_op.h"
#include "graph/builder.h"
#include "graph/text.h"
#include "ops/catalog.h"
#include "plugins/cpu/cpu_plugin.h"
#include "runtime/conformance.h"
#include "runtime/op_library.h"
#include "tests/unit/runtime/fixture.h"

#include <array>
#include <cstring>

namespace diji {
namespace {

constexpr std::uint32_t kOnlyF32 = DIJI_OP_DTYPE(DIJI_F32);
int host_calls = 0;  // of twice

// y = 2x, of any rank; also as kernel text. It counts on contiguous memory.
std::int32_t twice(const diji_op_call* call) {
  ++host_calls;
  const diji_op_tensor& x = call->inputs[0];
  std::int64_t count = 1;
  for (std::uint32_t axis = 0; axis < x.rank; ++axis) count *= x.sizes[axis];
  for (std::int64_t i = 0; i < count; ++i)
    static_cast<float*>(call->outputs[0].data)[i] = 2 * static_cast<const float*>(x.data)[i];
  return 0;
}

// y = x several times behind itself: no declaration tells how many elements that is.
std::int32_t repeated_shape(const diji_op_call* call, std::int64_t* const* sizes) {
  sizes[0][0] = call->integer(call, "times", 2) * call->inputs[0].sizes[0];
  return sizes[0][0] < 1000 ? 0 : call->refuse(call, "that is too long");
}
std::int32_t repeated(const diji_op_call* call) {
  const auto count = static_cast<std::size_t>(call->inputs[0].sizes[0]);
  auto* y = static_cast<float*>(call->outputs[0].data);
  for (std::int64_t i = 0; i < call->integer(call, "times", 2); ++i)
    std::memcpy(y + static_cast<std::size_t>(i) * count, call->inputs[0].data, count * sizeof(float));
  return count == 13 ? call->refuse(call, "13 elements") : 0;
}

constexpr const char* kTwiceText = R"(
define void @twice(ptr %places, ptr %sizes, ptr %error, ptr %local, i64 %begin, i64 %end) {
entry:
  %x = load ptr, ptr %places
  %place = getelementptr ptr, ptr %places, i64 1
  %y = load ptr, ptr %place
  %n = load i64, ptr %sizes
  %first = mul i64 %begin, 4
  %all = mul i64 %end, 4
  %inside = icmp slt i64 %all, %n
  %last = select i1 %inside, i64 %all, i64 %n
  %any = icmp slt i64 %first, %last
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %x, i64 %i
  %to = getelementptr float, ptr %y, i64 %i
  %value = load float, ptr %from
  %double = fmul float %value, FACTOR
  store float %double, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %last
  br i1 %more, label %loop, label %done
done:
  ret void
}
)";

std::string twice_text(std::string_view factor) {
  std::string text = kTwiceText;
  return text.replace(text.find("FACTOR"), 6, factor);
}

// The operators of a test, with what may be changed about them.
struct Library {
  std::array<diji_op_input, 1> input = {{{.name = "x",
                                          .dtypes = kOnlyF32,
                                          .rank = DIJI_OP_ANY_RANK,
                                          .layout = DIJI_OP_CONTIGUOUS,
                                          .optional = 0}}};
  std::array<diji_op_input, 1> list = {
      {{.name = "x", .dtypes = kOnlyF32, .rank = 1, .layout = DIJI_OP_CONTIGUOUS, .optional = 0}}};
  std::array<diji_op_output, 1> like_x = {
      {{.name = "y", .dtype_of = 0, .dtype = {}, .shape_of = 0, .rank = 0}}};
  std::array<diji_op_output, 1> own = {
      {{.name = "y", .dtype_of = 0, .dtype = {}, .shape_of = DIJI_OP_OWN, .rank = 1}}};
  std::array<diji_op_attribute, 1> attributes = {{{.name = "times", .kind = DIJI_OP_INTEGER, .required = 0}}};
  std::string text = twice_text("2.0");
  diji_op_kernel kernel = {.struct_size = sizeof(diji_op_kernel),
                           .dialect = "llvm-ir",
                           .dtypes = "f32",
                           .entry = "twice",
                           .text = nullptr,
                           .elements = 4,
                           .tolerance_ulp = 0};
  const diji_op_kernel* kernels[1] = {&kernel};
  diji_custom_op twice_op = record("Twice", input, like_x, twice);
  diji_custom_op repeat_op = record("Repeat", list, own, repeated);
  const diji_custom_op* ops[2] = {&twice_op, &repeat_op};
  diji_op_library table = {.struct_size = sizeof(diji_op_library),
                           .abi_major = DIJI_OP_ABI_MAJOR,
                           .abi_minor = DIJI_OP_ABI_MINOR,
                           .name = "test",
                           .version = "1",
                           .ops = ops,
                           .op_count = 2};

  Library() {
    kernel.text = text.c_str();
    repeat_op.shape = repeated_shape;
    repeat_op.attributes = attributes.data();
    repeat_op.attribute_count = 1;
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void offer_kernel() {
    twice_op.kernels = kernels;
    twice_op.kernel_count = 1;
  }

  static diji_custom_op record(const char* name, std::span<const diji_op_input> inputs,
                               std::span<const diji_op_output> outputs,
                               std::int32_t (*run)(const diji_op_call*)) {
    diji_custom_op op{};
    op.struct_size = sizeof(op);
    op.domain = "test";
    op.name = name;
    op.version = 1;
    op.doc = "";
    op.inputs = inputs.data();
    op.input_count = static_cast<std::uint32_t>(inputs.size());
    op.outputs = outputs.data();
    op.output_count = static_cast<std::uint32_t>(outputs.size());
    op.run = run;
    return op;
  }
};

OpLibraries load(Library& library) {
  OpLibraries libraries;
  const auto added = libraries.add(&library.table, "test");
  REQUIRE_MESSAGE(added.has_value(), (added ? std::string() : added.error().message));
  return libraries;
}

constexpr std::string_view kModel = R"(graph "model" {
  symbol n in [0, 1000000]
  input %0 "x" : f32[n]
  %1 = prim.add(%0, %0)
  %2 = test.Twice(%1)
  %3 = test.Repeat(%2) {times = 3}
  %4 = prim.multiply(%3, %3)
  output "y" = %4
})";

std::unique_ptr<Session> open(DeviceList& devices, const OpLibraries& libraries, std::string device = "") {
  const auto find = [&](std::string_view name) {
    const OpDef* own = find_custom(libraries.records(), name);
    return own != nullptr ? own : find_op(name);
  };
  auto graph = parse(kModel, find);
  REQUIRE_MESSAGE(graph.has_value(), (graph ? std::string() : graph.error().message));
  SessionOptions options;
  options.device = std::move(device);
  options.passes.verify_each = true;
  auto session = Session::of(devices, std::move(*graph), options);
  REQUIRE_MESSAGE(session.has_value(), (session ? std::string() : session.error().message));
  return std::move(*session);
}

void expect_right(Session& session) {
  for (const std::int64_t n : {5, 1, 0, 100, 5}) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 2;
    const auto got = session.run({{"x", HostTensor::of<float>({n}, x)}});
    REQUIRE_MESSAGE(got.has_value(), (got ? std::string() : got.error().message));
    REQUIRE((*got)[0].shape() == StaticShape{3 * n});
    for (std::size_t i = 0; i < 3 * x.size(); ++i) {
      const float four = 4 * x[i % x.size()];
      EXPECT((*got)[0].values<float>()[i] == four * four);
    }
  }
}

TEST_CASE("host functions inside of a program with symbolic sizes") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  Library library;
  const OpLibraries libraries = load(library);
  const auto session = open(devices, libraries);
  EXPECT(session->coverage().host == 2);
  EXPECT(session->coverage().generated == 2);
  host_calls = 0;
  expect_right(*session);
  EXPECT(host_calls == 5);
}

TEST_CASE("kernel text where the device has its dialect and every size is known") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  Library library;
  library.offer_kernel();
  const OpLibraries libraries = load(library);
  const auto session = open(devices, libraries);
  EXPECT(session->coverage().native == 1);
  EXPECT(session->coverage().host == 1);
  host_calls = 0;
  expect_right(*session);
  EXPECT(host_calls == 0);
}

// The CPU, as a device whose memory the host does not see.
const diji_device_plugin_table* hidden_plugin() {
  static const diji_device_plugin_table kTable = [] {
    diji_device_plugin_table table = *diji_plugin_cpu();
    table.name = "hidden";
    table.device_properties = [](std::int32_t ordinal, diji_device_properties* out) {
      const diji_status status = diji_plugin_cpu()->device_properties(ordinal, out);
      out->host_visible = 0;
      return status;
    };
    table.map = nullptr;
    return table;
  }();
  return &kTable;
}

TEST_CASE("operands are copied where the host does not see the device's memory") {
  const test::ScratchCache cache;
  const std::array tables = {hidden_plugin()};
  DeviceList devices(tables, 2);
  Library library;
  const OpLibraries libraries = load(library);
  const auto session = open(devices, libraries, "hidden");
  EXPECT(session->coverage().host == 2);
  expect_right(*session);
}

TEST_CASE("refusals of shape() and run() end the run, and the next one is right") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  Library library;
  const OpLibraries libraries = load(library);
  const auto session = open(devices, libraries);
  const auto sentence = [&](std::int64_t n) {
    const auto got = session->run({{"x", HostTensor::allocate(DType::f32, {n}).value()}});
    return got ? std::string() : got.error().message;
  };
  EXPECT(sentence(400) == "test.Repeat: it refuses its operands: that is too long");
  EXPECT(sentence(13) == "test.Repeat: 13 elements");
  expect_right(*session);
}

TEST_CASE("a call that does not fit its declaration is refused with both sides") {
  Library library;
  library.input[0].rank = 2;
  const OpLibraries libraries = load(library);
  const CustomOp& op = *libraries.records()[0]->custom;
  const HostTensor x = HostTensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  OperandView view = OperandView::of(x);
  const auto sentence = [&] {
    const auto got = op.call(std::span(&view, 1), {});
    return got ? std::string() : got.error().message;
  };
  EXPECT(sentence().empty());
  view.strides = {1, 2};
  EXPECT(sentence() ==
         "test.Twice: input 'x' is declared as contiguous f32 of rank 2, the call has f32[2, 3] with strides "
         "[1, 2]");
  view = OperandView::of(x.reshaped({6}));
  EXPECT(sentence() ==
         "test.Twice: input 'x' is declared as contiguous f32 of rank 2, the call has contiguous f32[6]");
  const HostTensor integers = HostTensor::of<std::int32_t>({1, 1}, {1});
  view = OperandView::of(integers);
  EXPECT(sentence() ==
         "test.Twice: input 'x' is declared as contiguous f32 of rank 2, the call has contiguous i32[1, 1]");
  Graph graph;
  Builder builder(graph);
  builder.call(*libraries.records()[0], {graph.add_input("x", {DType::f16, {Dim::symbol("n")}})}, {});
  EXPECT(builder.status().error().message ==
         "test.Twice: input 'x' is declared as contiguous f32 of rank 2, the call has contiguous f16[n]");
}

TEST_CASE("verify finds a kernel that is not its function, and strides that are declared and ignored") {
  const test::ScratchCache scratch;
  DeviceList devices(built_in_plugins(), 2);
  Device* device = devices.open("cpu").value();
  const auto verified = [&](Library& library) {
    const OpLibraries libraries = load(library);
    CompileCache cache;
    return verify_operator(*device, cache, *libraries.records()[0], DType::f32);
  };
  Library right;
  right.input[0].rank = 1;
  right.offer_kernel();
  VerifyRow row = verified(right);
  CAPTURE(row.problem);
  EXPECT(row.failed == 0);
  EXPECT(row.unsupported == 0);
  EXPECT(row.cases == 16);
  Library wrong;
  wrong.input[0].rank = 1;
  wrong.text = twice_text("3.0");
  wrong.kernel.text = wrong.text.c_str();
  wrong.offer_kernel();
  row = verified(wrong);
  EXPECT(row.failed == 12);  // all but those without elements
  Library strides;
  strides.input[0].layout = DIJI_OP_STRIDED;
  row = verified(strides);
  EXPECT(row.failed > 0);
  EXPECT(row.problem.contains("input 'x' is declared strided, and of f32[3, 3, 3] with strides [2, 6, 18]"));
}

// y = x²; FACTOR · x · g is its gradient for a factor of 2 only.
std::int64_t count_of(const diji_op_tensor& x) {
  std::int64_t count = 1;
  for (std::uint32_t axis = 0; axis < x.rank; ++axis) count *= x.sizes[axis];
  return count;
}
std::int32_t square(const diji_op_call* call) {
  const auto* x = static_cast<const float*>(call->inputs[0].data);
  for (std::int64_t i = 0; i < count_of(call->inputs[0]); ++i)
    static_cast<float*>(call->outputs[0].data)[i] = x[i] * x[i];
  return 0;
}
template <int factor>
std::int32_t square_gradient(const diji_op_call* call) {
  const auto* x = static_cast<const float*>(call->inputs[0].data);
  const auto* g = static_cast<const float*>(call->inputs[1].data);
  for (std::int64_t i = 0; i < count_of(call->inputs[0]); ++i)
    static_cast<float*>(call->outputs[0].data)[i] = static_cast<float>(factor) * x[i] * g[i];
  return 0;
}

TEST_CASE("gradients are compared with differences, and must be in the library") {
  const test::ScratchCache scratch;
  DeviceList devices(built_in_plugins(), 1);
  Device* device = devices.open("cpu").value();
  const auto verified = [&](std::int32_t (*gradient)(const diji_op_call*)) {
    Library library;
    std::array inputs = {library.input[0], library.input[0]};
    inputs[1].name = "g";
    library.twice_op.run = square;
    library.twice_op.gradient = "Slope";
    library.repeat_op = Library::record("Slope", inputs, library.like_x, gradient);
    const OpLibraries libraries = load(library);
    REQUIRE(libraries.records()[0]->custom->gradient() == libraries.records()[1]->custom);
    CompileCache cache;
    return verify_operator(*device, cache, *libraries.records()[0], DType::f32);
  };
  const VerifyRow right = verified(square_gradient<2>), wrong = verified(square_gradient<3>);
  CAPTURE(right.problem);
  EXPECT(right.failed == 0);
  EXPECT(right.cases == 16);
  EXPECT(wrong.failed == 12);  // all but those without elements
  EXPECT(wrong.problem.contains("the gradient by 'x' gives"));
}

TEST_CASE("a library of the first version has no gradients") {
  Library library;
  library.table.abi_minor = 0;
  library.twice_op.struct_size = offsetof(diji_custom_op, gradient);
  library.twice_op.gradient = "what lies behind the record";
  EXPECT(load(library).records()[0]->custom->gradient() == nullptr);
}

TEST_CASE("libraries that are refused") {
  const auto sentence = [](Library& library) {
    OpLibraries libraries;
    const auto added = libraries.add(&library.table, "lib.so");
    return added ? std::string() : added.error().message;
  };
  const auto with = [&](auto change) {
    Library library;
    change(library);
    return sentence(library);
  };
  EXPECT(with([](Library&) {}).empty());
  EXPECT(with([](Library& l) { ++l.table.abi_major; }).contains("it was built for operator ABI 2.1"));
  EXPECT(with([](Library& l) { l.table.struct_size = 4; }).contains("its table has 4 bytes"));
  EXPECT(with([](Library& l) { l.table.op_count = 0; }).contains("it has 0 operators"));
  EXPECT(with([](Library& l) { l.ops[1] = l.ops[0]; }).contains("there is an operator test.Twice already"));
  EXPECT(with([](Library& l) { l.ops[1] = nullptr; }).contains("one of its operators is null"));
  EXPECT(with([](Library& l) { l.twice_op.run = nullptr; }) ==
         "test.Twice: it has no run(), which is its meaning");
  EXPECT(with([](Library& l) { l.twice_op.domain = ""; }).contains("a domain other than ONNX's own"));
  EXPECT(with([](Library& l) { l.twice_op.struct_size = 8; }).contains("an operator's record has 8 bytes"));
  EXPECT(with([](Library& l) { l.input[0].dtypes = 1u << 20; }).contains("input 'x' has no dtype"));
  EXPECT(with([](Library& l) { l.repeat_op.shape = nullptr; }).contains("a rank and shape()"));
  EXPECT(with([](Library& l) { l.twice_op.gradient = "Slope"; }) ==
         "test.Twice: its gradient test.Slope is not in the library");
  EXPECT(with([](Library& l) { l.twice_op.gradient = "Repeat"; }) ==
         "test.Twice: its gradient test.Repeat has 1 inputs and 1 outputs; it must have 2 and 1");
  EXPECT(with([](Library& l) { l.kernel.entry = nullptr, l.offer_kernel(); }).contains("kernel 0 lacks"));
}

}  // namespace
}  // namespace diji
