// One operator with attributes, shapes and dtypes drawn at random, as a graph that is compiled once and run
// with many sizes and contents. The same seed gives the same graph, and the same number the same case of it.
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace diji::fuzz {

/// What every draw comes from. Only the generator's own bits are used: distributions differ between
/// libraries.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::uint64_t bits() { return random_(); }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  bool one_in(std::int64_t count) { return below(count) == 0; }
  template <typename Items>
  const auto& of(const Items& items) {
    return *(std::begin(items) + below(std::ssize(items)));
  }

 private:
  std::mt19937_64 random_;
};

class OperatorTemplate {
 public:
  /// An operator of `operators` in a dtype it takes, after one of its record's samples. Nothing where the
  /// operator refuses what was drawn.
  static std::optional<OperatorTemplate> drawn(std::span<const OpDef* const> operators, std::uint64_t seed);
  /// Which operator and dtype that is, before anything of theirs is called: "matmul f32".
  static std::string chosen(std::span<const OpDef* const> operators, std::uint64_t seed);

  const Graph& graph() const { return graph_; }
  DType dtype() const { return dtype_; }
  const OpDef& op() const { return *op_; }
  /// "matmul f32 'odd sizes', transpose = 1", with the declared shapes.
  std::string text() const;
  /// Inputs of one case, in the order of the graph's ports; nearly all keep the assumptions of the graph as
  /// it was compiled. Nothing where no such sizes were found that are small enough.
  std::optional<std::vector<HostTensor>> inputs(const Graph& compiled, std::uint64_t number) const;

 private:
  struct Fed {
    HostTensor like;  ///< the sample's tensor: sizes that fit, values that fit
    Shape shape;      ///< as declared
    bool same_type;   ///< of the type that the template's dtype is drawn for, so that any value fits
  };
  OperatorTemplate() = default;
  void choose(std::span<const OpDef* const> operators, Draw& draw);
  bool build(Draw& draw, std::vector<Sample> samples);
  Dim declared_size(Draw& draw, std::int64_t size);
  Bindings random_sizes(Draw& draw, const Graph& compiled) const;
  bool small_enough(const Bindings& sizes) const;

  const OpDef* op_ = nullptr;
  DType dtype_ = DType::f32;
  std::uint64_t seed_ = 0;
  std::string label_;
  Attributes attributes_;
  Graph graph_;
  std::vector<Fed> fed_;
  bool symbolic_ = true;
  bool at_least_one_ = false;
  Bindings sample_sizes_;  ///< of the symbols
};

}  // namespace diji::fuzz
