// The rules of the compiler: everything that may be left out without making a result wrong, in one table, and
// what a search for a wrong one counts.
#pragma once

#include "graph/builder.h"
#include "graph/primitives.h"

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

/// Rewrites one node whose inputs are already in the new graph, so that it meets what earlier rules made.
/// Empty where the pattern does not hold.
using LocalRewrite = std::optional<ValueId> (*)(Builder& builder, Primitive primitive, const Node& node,
                                                const Values& inputs);

/// A node that is about to be computed inside the kernel of what reads it.
struct Join {
  Primitive producer;
  bool root;            ///< the producer is a reduction, scan, dot product or convolution
  bool group_has_root;  ///< the kernel has one already
  bool coordinates;     ///< the producer is made of coordinates
};

struct PassRule {
  std::string_view name;
  std::string_view pass;  ///< of pipeline(), in which it works
  std::string_view doc;
  LocalRewrite rewrite = nullptr;              ///< of simplify
  bool (*allows)(const Join& join) = nullptr;  ///< of fuse: which joins need this rule
};

/// In the order in which they are tried. What is not here (decompose, remove_dead, kernels of one node) is
/// needed to have a program at all.
std::span<const PassRule> rules();

// What bounds the time that the passes take: steps, never a clock, so that the same graph becomes the same
// kernels on every machine. A limit that is met makes the result slower, not wrong, and is told as a warning.

/// Rounds of simplify over a graph. Each shrinks it or moves a broadcast down, so few are needed.
inline constexpr int kSimplifyRoundsMax = 20;
/// Larger kernels are longer without fewer memory passes, and take longer to compile.
inline constexpr std::size_t kKernelNodesMax = 64;
inline constexpr std::size_t kKernelInputsMax = 16;
/// Nodes looked at while fuse tries joins, of one graph: a join into a kernel of n nodes looks at n + 1.
/// Models of 300 to 2,800 primitives take 1,300 to 16,300 steps.
inline constexpr std::int64_t kFusionStepsMax = 1 << 22;

/// How often each rule was applied, and how often it may be. Rules apply in the same order on every run, so a
/// limit of n stops behind the same application each time. Of one compilation at a time.
class RuleUses {
 public:
  void limit(std::string_view rule, std::int64_t times) { uses_[std::string(rule)].limit = times; }
  bool may(std::string_view rule) const;
  /// `nodes` says to what: the model's nodes, and their primitives.
  void applied(std::string_view rule, std::vector<std::string> nodes);
  std::int64_t count(std::string_view rule) const;
  /// Of the last application; empty where there was none.
  std::vector<std::string> last(std::string_view rule) const;

 private:
  struct Use {
    std::int64_t count = 0;
    std::int64_t limit = std::numeric_limits<std::int64_t>::max();
    std::vector<std::string> nodes;
  };
  std::map<std::string, Use, std::less<>> uses_;
};

struct PassOptions;
/// Whether the options allow the rule one more application.
bool may_apply(const PassOptions& options, std::string_view rule);
/// Counts an application where somebody counts.
void count_application(const PassOptions& options, std::string_view rule, const Node& node);

/// "conv_3 (multiply)": the model's name for a node, and what it is.
std::string title_of(const Node& node);

// The local rules of simplify.cpp.
std::optional<ValueId> drop_identity(Builder& b, Primitive primitive, const Node& node, const Values& inputs);
std::optional<ValueId> merge_reshapes(Builder& b, Primitive primitive, const Node& node,
                                      const Values& inputs);
std::optional<ValueId> merge_broadcasts(Builder& b, Primitive primitive, const Node& node,
                                        const Values& inputs);
std::optional<ValueId> sink_broadcast(Builder& b, Primitive primitive, const Node& node,
                                      const Values& inputs);
std::optional<ValueId> dot_of_transposed(Builder& b, Primitive primitive, const Node& node,
                                         const Values& inputs);
std::optional<ValueId> convolution_unit_axis(Builder& b, Primitive primitive, const Node& node,
                                             const Values& inputs);

}  // namespace diji
