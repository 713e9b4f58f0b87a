// The names, sizes and rules of operations, reductions and element types: one row each.
#include "collective/operation.h"

#include <algorithm>
#include <array>

namespace diji::collective {
namespace {

struct OperationRow {
  std::string_view name;
  bool reduces;
  bool has_root;
};
constexpr std::array<OperationRow, kOperationCount> kOperations = {{
    {"all_reduce", true, false},
    {"all_gather", false, false},
    {"reduce_scatter", true, false},
    {"broadcast", false, true},
    {"reduce", true, true},
    {"gather", false, true},
    {"scatter", false, true},
    {"all_to_all", false, false},
    {"scan", true, false},
    {"exscan", true, false},
    {"barrier", false, false},
    {"send", false, false},
    {"receive", false, false},
}};

constexpr std::array<std::string_view, kReductionCount> kReductions = {
    "sum", "avg", "prod", "min", "max", "premul-sum", "band", "bor", "bxor", "land", "lor", "lxor",
};

// The two that DType has not; the others are its rows, in its order.
struct SmallFloatRow {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<SmallFloatRow, kElementTypeCount - kDTypeCount> kSmallFloats = {
    {{"f8e4m3", 1}, {"f8e5m2", 1}}};

constexpr std::size_t index_of(auto value) { return static_cast<std::size_t>(value); }
bool is_small_float(ElementType type) { return index_of(type) >= kDTypeCount; }
DType dtype_of_element(ElementType type) { return static_cast<DType>(type); }

template <typename Enum>
std::optional<Enum> parse(std::size_t count, std::string_view name) {
  for (std::size_t i = 0; i < count; ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Operation operation) { return kOperations[index_of(operation)].name; }
std::optional<Operation> parse_operation(std::string_view name) {
  return parse<Operation>(kOperationCount, name);
}
bool reduces(Operation operation) { return kOperations[index_of(operation)].reduces; }
bool has_root(Operation operation) { return kOperations[index_of(operation)].has_root; }

std::string_view name_of(Reduction reduction) { return kReductions[index_of(reduction)]; }
std::optional<Reduction> parse_reduction(std::string_view name) {
  return parse<Reduction>(kReductionCount, name);
}

std::string_view name_of(ElementType type) {
  return is_small_float(type) ? kSmallFloats[index_of(type) - kDTypeCount].name
                              : name_of(dtype_of_element(type));
}
std::optional<ElementType> parse_element_type(std::string_view name) {
  return parse<ElementType>(kElementTypeCount, name);
}
std::int64_t bytes_of(ElementType type) {
  return is_small_float(type) ? kSmallFloats[index_of(type) - kDTypeCount].bytes
                              : bytes_of(dtype_of_element(type));
}
bool is_floating(ElementType type) { return is_small_float(type) || is_floating(dtype_of_element(type)); }

ElementType accumulator_of(ElementType type, bool exact) {
  if (!is_floating(type) || type == ElementType::f64) return type;
  return exact && type == ElementType::f32 ? ElementType::f64 : ElementType::f32;
}

bool supports(Reduction reduction, ElementType type) {
  switch (reduction) {
    case Reduction::bit_and:
    case Reduction::bit_or:
    case Reduction::bit_xor: return !is_floating(type);
    case Reduction::average:
    case Reduction::premul_sum: return type != ElementType::boolean;
    default: return true;
  }
}

}  // namespace diji::collective
