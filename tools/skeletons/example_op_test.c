/* The first test of the operator: a small case whose answer was worked out by hand, on contiguous and on
 * strided x. */
#include "diji/custom_op.h"

#include <math.h>
#include <stdio.h>

static double offset_of(const diji_op_call* call, const char* name, double otherwise) {
  (void)call, (void)name, (void)otherwise;
  return 0.5;
}

static int32_t refuse(const diji_op_call* call, const char* sentence) {
  (void)call;
  fprintf(stderr, "refused: %s\n", sentence);
  return 1;
}

/* [[1, 2, 3], [4, 5, 6]] with rows times 2 and -1, plus 0.5. */
static int check(const char* what, float* x, const int64_t* strides) {
  static const float kWanted[] = {2.5f, 4.5f, 6.5f, -3.5f, -4.5f, -5.5f};
  static const int64_t kSizes[] = {2, 3}, kDense[] = {3, 1}, kOne[] = {1};
  float scale[] = {2, -1}, y[6] = {0};
  const diji_op_tensor inputs[] = {{x, kSizes, strides, 2, DIJI_F32}, {scale, kSizes, kOne, 1, DIJI_F32}};
  const diji_op_tensor outputs[] = {{y, kSizes, kDense, 2, DIJI_F32}};
  const diji_op_call call = {
      .struct_size = sizeof(call), .inputs = inputs, .outputs = outputs, .real = offset_of, .refuse = refuse};
  int64_t sizes[2] = {2, 3}, *all[] = {sizes};
  const diji_custom_op* op = diji_op_library_entry()->ops[0];
  if (op->shape(&call, all) != 0 || op->run(&call) != 0) return 1;
  for (int i = 0; i < 6; ++i) {
    if (fabsf(y[i] - kWanted[i]) <= 1e-6f) continue;
    fprintf(stderr, "%s: element %d is %g, wanted %g\n", what, i, y[i], kWanted[i]);
    return 1;
  }
  printf("%s passed\n", what);
  return 0;
}

int main(void) {
  float rows[] = {1, 2, 3, 4, 5, 6}, columns[] = {1, 4, 2, 5, 3, 6};
  const int64_t by_rows[] = {3, 1}, by_columns[] = {1, 2};
  return check("contiguous", rows, by_rows) + check("strided", columns, by_columns);
}
