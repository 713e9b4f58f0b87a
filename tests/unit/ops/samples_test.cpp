// Sample values are the same everywhere and as mean as they say.
#include "ops/samples.h"

#include "tests/unit/expect.h"

#include <cmath>

namespace diji {
namespace {

TEST_CASE("values depend on dtype, shape, fill and seed only") {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const Fill fill : {Fill::normal, Fill::positive, Fill::wide, Fill::special}) {
      EXPECT(sample_tensor(dtype, {3, 50}, fill, 7).same_bits(sample_tensor(dtype, {3, 50}, fill, 7)));
    }
    EXPECT_FALSE(sample_tensor(dtype, {3, 50}, Fill::normal, 7)
                     .same_bits(sample_tensor(dtype, {3, 50}, Fill::normal, 8)));
  }
}

TEST_CASE("special values hold NaN, both infinities, both zeros, subnormals and the ends of the range") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    CAPTURE(name_of(dtype));
    const HostTensor x = sample_tensor(dtype, {14}, Fill::special);
    int nans = 0, infinities = 0, negative_zeros = 0, subnormals = 0;
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const double value = x.as_double(i);
      nans += std::isnan(value) ? 1 : 0;
      infinities += std::isinf(value) ? 1 : 0;
      negative_zeros += value == 0 && std::signbit(value) ? 1 : 0;
      subnormals += value != 0 && std::fabs(value) < 1e-7 ? 1 : 0;
    }
    EXPECT(nans == 1);
    EXPECT(infinities == 2);
    EXPECT(negative_zeros == 1);
    EXPECT(subnormals == 2);
  }
}

TEST_CASE("positive is positive") {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::boolean) continue;
    const HostTensor x = sample_tensor(dtype, {100}, Fill::positive);
    for (std::int64_t k = 0; k < x.count(); ++k) EXPECT(x.as_double(k) > 0);
  }
}

}  // namespace
}  // namespace diji
