// What verify finds about the C function of a custom operator: writes outside of its outputs, parts that it
// leaves, and attributes that it asks for and that its record does not have.
#include "runtime/conformance.h"
#include "runtime/op_library.h"
#include "tests/unit/runtime/fixture.h"

namespace diji {
namespace {

std::int64_t count_of(const diji_op_tensor& tensor) {
  std::int64_t count = 1;
  for (std::uint32_t axis = 0; axis < tensor.rank; ++axis) count *= tensor.sizes[axis];
  return count;
}

// Ones, from element `first` on, and so many more than there are.
template <int first, int more>
std::int32_t ones(const diji_op_call* call) {
  auto* y = static_cast<float*>(call->outputs[0].data);
  for (std::int64_t i = first; i < count_of(call->outputs[0]) + more; ++i) y[i] = 1;
  return 0;
}
std::int32_t asks_for_another_name(const diji_op_call* call) {
  return call->integer(call, "tmies", 1) == 1 ? ones<0, 0>(call) : 1;
}
std::int32_t asks_for_another_kind(const diji_op_call* call) {
  return call->real(call, "times", 1) == 1 ? ones<0, 0>(call) : 1;
}
std::int32_t asks_in_shape(const diji_op_call* call, std::int64_t* const*) {
  return call->text(call, "tmies", nullptr) == nullptr ? 0 : 1;
}

// The first problem of y = 1 in the shape of x.
std::string problem_of(decltype(diji_custom_op::run) run, decltype(diji_custom_op::shape) shape = nullptr) {
  const test::ScratchCache scratch;
  DeviceList devices(built_in_plugins(), 1);
  const diji_op_input x = {
      .name = "x", .dtypes = DIJI_OP_DTYPE(DIJI_F32), .rank = 2, .layout = DIJI_OP_CONTIGUOUS, .optional = 0};
  const diji_op_output y = {.name = "y", .dtype_of = 0, .dtype = {}, .shape_of = 0, .rank = 0};
  const diji_op_attribute times = {.name = "times", .kind = DIJI_OP_INTEGER, .required = 0};
  diji_custom_op op{};
  op.struct_size = sizeof(op);
  op.domain = "test";
  op.name = "Ones";
  op.version = 1;
  op.inputs = &x;
  op.outputs = &y;
  op.attributes = &times;
  op.input_count = op.output_count = op.attribute_count = 1;
  op.run = run;
  op.shape = shape;
  const diji_custom_op* ops[] = {&op};
  const diji_op_library table = {.struct_size = sizeof(diji_op_library),
                                 .abi_major = DIJI_OP_ABI_MAJOR,
                                 .abi_minor = DIJI_OP_ABI_MINOR,
                                 .name = "test",
                                 .version = "1",
                                 .ops = ops,
                                 .op_count = 1};
  OpLibraries libraries;
  const auto added = libraries.add(&table, "memory");
  REQUIRE_MESSAGE(added, added.error().message);
  CompileCache cache;
  return verify_operator(*devices.open("cpu").value(), cache, *libraries.records()[0], DType::f32).problem;
}

TEST_CASE("outputs of custom operators are written, all of them and nothing else") {
  EXPECT(problem_of(ones<0, 0>) == "");
  EXPECT(problem_of(ones<0, 1>)
             .contains("test.Ones: it writes behind the end of output 'y', which is f32[3, 3]"));
  EXPECT(problem_of(ones<-1, 0>).contains("it writes before the beginning of output 'y'"));
  EXPECT(problem_of(ones<0, -1>).contains("it leaves a part of output 'y' unwritten"));
}

TEST_CASE("an attribute that a custom operator asks for is one that it declares") {
  EXPECT(problem_of(asks_for_another_name)
             .contains(
                 "test.Ones: run(): it asks for an attribute 'tmies' that its record does not declare (did "
                 "you mean times?)"));
  EXPECT(
      problem_of(asks_for_another_kind).contains("asks for the attribute 'times' as real, and its record"));
  EXPECT(problem_of(ones<0, 0>, asks_in_shape).contains("shape(): it asks for an attribute 'tmies'"));
}

}  // namespace
}  // namespace diji
