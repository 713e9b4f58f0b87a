/* The operator example.example_op: y[i, j] = x[i, j] * scale[i] + offset. Replace what it says and computes.
 */
#include "diji/custom_op.h"

enum { kX, kScale, kGradient };

/* The sizes of y are those of x, as `kOutputs` says; here only what does not go together is refused. */
static int32_t shape(const diji_op_call* call, int64_t* const* sizes) {
  (void)sizes;
  if (call->inputs[kX].sizes[0] == call->inputs[kScale].sizes[0]) return 0;
  return call->refuse(call, "scale has not as many elements as x has rows");
}

/* x may lie in memory in any order, so its strides are used; scale and y are contiguous. */
static int32_t run(const diji_op_call* call) {
  const diji_op_tensor* x = &call->inputs[kX];
  const float* from = (const float*)x->data;
  const float* scale = (const float*)call->inputs[kScale].data;
  float* y = (float*)call->outputs[0].data;
  const float offset = (float)call->real(call, "offset", 0.0);
  for (int64_t i = 0; i < x->sizes[0]; ++i) {
    for (int64_t j = 0; j < x->sizes[1]; ++j) {
      y[i * x->sizes[1] + j] = from[i * x->strides[0] + j * x->strides[1]] * scale[i] + offset;
    }
  }
  return 0;
}

static const diji_op_input kInputs[] = {
    {.name = "x", .dtypes = DIJI_OP_DTYPE(DIJI_F32), .rank = 2, .layout = DIJI_OP_STRIDED},
    {.name = "scale", .dtypes = DIJI_OP_DTYPE(DIJI_F32), .rank = 1, .layout = DIJI_OP_CONTIGUOUS},
};
static const diji_op_output kOutputs[] = {{.name = "y", .dtype_of = kX, .shape_of = kX}};
static const diji_op_attribute kAttributes[] = {{.name = "offset", .kind = DIJI_OP_REAL}};

/* Its gradient is an operator too: by x, g[i, j] * scale[i]; by scale, the sum over j of g[i, j] * x[i, j].
 */
static int32_t run_gradient(const diji_op_call* call) {
  const diji_op_tensor* x = &call->inputs[kX];
  const float* from = (const float*)x->data;
  const float* scale = (const float*)call->inputs[kScale].data;
  const float* g = (const float*)call->inputs[kGradient].data;
  float* by_x = (float*)call->outputs[kX].data;
  float* by_scale = (float*)call->outputs[kScale].data;
  for (int64_t i = 0; i < x->sizes[0]; ++i) {
    by_scale[i] = 0;
    for (int64_t j = 0; j < x->sizes[1]; ++j) {
      const int64_t at = i * x->sizes[1] + j;
      by_x[at] = g[at] * scale[i];
      by_scale[i] += g[at] * from[i * x->strides[0] + j * x->strides[1]];
    }
  }
  return 0;
}

static const diji_op_input kGradientInputs[] = {
    {.name = "x", .dtypes = DIJI_OP_DTYPE(DIJI_F32), .rank = 2, .layout = DIJI_OP_STRIDED},
    {.name = "scale", .dtypes = DIJI_OP_DTYPE(DIJI_F32), .rank = 1, .layout = DIJI_OP_CONTIGUOUS},
    {.name = "y_gradient", .dtypes = DIJI_OP_DTYPE(DIJI_F32), .rank = 2, .layout = DIJI_OP_CONTIGUOUS},
};
static const diji_op_output kGradientOutputs[] = {
    {.name = "x_gradient", .dtype_of = kX, .shape_of = kX},
    {.name = "scale_gradient", .dtype_of = kScale, .shape_of = kScale},
};

static const diji_custom_op kOp = {
    .struct_size = sizeof(diji_custom_op),
    .domain = "example",
    .name = "example_op",
    .version = 1,
    .doc = "Rows of x times their scale, plus an offset.",
    .inputs = kInputs,
    .input_count = 2,
    .outputs = kOutputs,
    .output_count = 1,
    .attributes = kAttributes,
    .attribute_count = 1,
    .shape = shape,
    .run = run,
    .gradient = "example_opGradient",
};
static const diji_custom_op kGradientOp = {
    .struct_size = sizeof(diji_custom_op),
    .domain = "example",
    .name = "example_opGradient",
    .version = 1,
    .doc = "What example_op's operands do to a number that y changes by y_gradient.",
    .inputs = kGradientInputs,
    .input_count = 3,
    .outputs = kGradientOutputs,
    .output_count = 2,
    .attributes = kAttributes,
    .attribute_count = 1,
    .shape = shape,
    .run = run_gradient,
};

static const diji_custom_op* const kOps[] = {&kOp, &kGradientOp};
static const diji_op_library kLibrary = {
    .struct_size = sizeof(diji_op_library),
    .abi_major = DIJI_OP_ABI_MAJOR,
    .abi_minor = DIJI_OP_ABI_MINOR,
    .name = "example_op",
    .version = "1",
    .ops = kOps,
    .op_count = 2,
};

__attribute__((visibility("default"))) const diji_op_library* diji_op_library_entry(void) {
  return &kLibrary;
}
