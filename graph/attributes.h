// Attributes: what is fixed about a node when the graph is built (axes, sizes, a dtype), by name.
#pragma once

#include "base/dim.h"
#include "base/dtype.h"
#include "base/host_tensor.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace diji {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<double>;

using Attribute = std::variant<std::int64_t, double, std::string, Ints, Floats, Shape, DType, HostTensor>;

/// The alternatives of Attribute, in its order.
enum class AttributeKind : std::uint8_t { integer, real, text, integers, reals, dims, dtype, tensor };
std::string_view name_of(AttributeKind kind);

/// A small map sorted by name, so that equal sets print and compare equal.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> items);

  void set(std::string_view name, Attribute value);
  void erase(std::string_view name);
  const Attribute* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The value when it is there and of this type, else null.
  template <typename T>
  const T* get(std::string_view name) const {
    const Attribute* value = find(name);
    return value == nullptr ? nullptr : std::get_if<T>(value);
  }
  template <typename T>
  T get_or(std::string_view name, T otherwise) const {
    const T* value = get<T>(name);
    return value == nullptr ? std::move(otherwise) : *value;
  }
  const std::vector<std::pair<std::string, Attribute>>& items() const { return items_; }
  bool empty() const { return items_.empty(); }
  /// Tensors compare by bits.
  friend bool operator==(const Attributes& a, const Attributes& b);

 private:
  std::vector<std::pair<std::string, Attribute>> items_;
};

/// Bits of floats and tensors, structure of Dims: true exactly where one may stand for the other.
bool same(const Attribute& a, const Attribute& b);

}  // namespace diji
