// The sorted attribute list.
#include "graph/attributes.h"

#include <algorithm>
#include <bit>

namespace diji {
namespace {

auto lower_bound(auto& items, std::string_view name) {
  return std::lower_bound(items.begin(), items.end(), name,
                          [](const auto& item, std::string_view key) { return item.first < key; });
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

std::string_view name_of(AttributeKind kind) {
  constexpr std::string_view kNames[] = {"integer", "real", "text",  "integers",
                                         "reals",   "dims", "dtype", "tensor"};
  return kNames[static_cast<std::size_t>(kind)];
}

Attributes::Attributes(std::initializer_list<std::pair<std::string, Attribute>> items) {
  for (const auto& [name, value] : items) set(name, value);
}

void Attributes::set(std::string_view name, Attribute value) {
  const auto place = lower_bound(items_, name);
  if (place != items_.end() && place->first == name) {
    place->second = std::move(value);
  } else {
    items_.emplace(place, std::string(name), std::move(value));
  }
}

void Attributes::erase(std::string_view name) {
  const auto place = lower_bound(items_, name);
  if (place != items_.end() && place->first == name) items_.erase(place);
}

const Attribute* Attributes::find(std::string_view name) const {
  const auto place = lower_bound(items_, name);
  return place != items_.end() && place->first == name ? &place->second : nullptr;
}

bool same(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& left) {
        const auto& right = std::get<std::decay_t<decltype(left)>>(b);
        using T = std::decay_t<decltype(left)>;
        if constexpr (std::is_same_v<T, double>) {
          return same_bits(left, right);
        } else if constexpr (std::is_same_v<T, Floats>) {
          return std::equal(left.begin(), left.end(), right.begin(), right.end(), same_bits);
        } else if constexpr (std::is_same_v<T, HostTensor>) {
          return left.same_bits(right);
        } else {
          return left == right;
        }
      },
      a);
}

bool operator==(const Attributes& a, const Attributes& b) {
  return std::equal(
      a.items_.begin(), a.items_.end(), b.items_.begin(), b.items_.end(),
      [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); });
}

}  // namespace diji
