// What one C-like kernel language spells in its own way, and the declarations that a kernel in it needs.
#pragma once

#include "codegen/loop_nest.h"

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace diji {

/// Where lane l of a vector lies in memory.
enum class LanePlaces : std::uint8_t {
  next,     ///< at l
  strided,  ///< at l · stride
  indexed,  ///< where a vector of indices says
};

/// A function that kernels call because the language has no sign for the operation. f16 never computes: it is
/// converted, moved and chosen only.
struct CFunction {
  NestOp op;
  LaneType type;  ///< of the result, or of what is stored
  LaneType from;  ///< of the operand of a conversion or fold, of the mask of a choice, of the indices
  LanePlaces places = LanePlaces::next;
  bool masked = false;  ///< the mask has signed integers of the elements' width: 0 or -1

  auto key() const { return std::tuple(op, type.dtype, type.lanes, from.dtype, from.lanes, places, masked); }
};

class CDeclarations;

/// One language. The printer of the family does the rest: blocks, loops, conditions, names, numbers.
struct CLanguage {
  /// Before everything else: the scalar types i8 … u64, f16, f32, f64, boolean; DIJI_NAN_f32 and its like;
  /// DIJI_RARE(condition).
  std::string_view prelude;
  /// Opens the function and its loop over `grid`; names place0 …, size0 …, scratch, shared and error_word.
  std::string (*head)(const LoopNest& nest);
  std::string_view tail;
  /// Definition of the vector type of that name.
  std::string (*vector_type)(LaneType type, std::string_view name);
  /// Definition of the function of that name; what it needs is asked of `declarations`.
  std::string (*function)(const CFunction& function, std::string_view name, CDeclarations& declarations);
  std::string_view function_words;  ///< before each of them: "static inline "
  /// The expression of an operation that has a sign. Integers wrap.
  std::string (*infix)(std::string_view sign, LaneType type, const std::string& a, const std::string& b,
                       CDeclarations& declarations);
  std::string_view long_suffix;  ///< of literals of 64 bits
  std::string_view open, close;  ///< around the lanes of a vector: "(T){0, 1}"
  bool casts_vectors = true;  ///< "(T)x" keeps the bits of a vector, and comparisons give one of another type
  std::string_view global, group;  ///< before the type of what a pointer points to, by the memory it is in
  bool prefetches = true;          ///< else hints are left out
  std::string_view barrier;        ///< empty: there are no groups
  bool guarded = false;            ///< declarations may meet their like from elsewhere
};

/// Types and functions in the order in which they must stand, each once.
class CDeclarations {
 public:
  explicit CDeclarations(const CLanguage& language)
      : language_(language), texts_{std::string(language.prelude)} {}
  const CLanguage& language() const { return language_; }

  /// The name of the type: "f32x16".
  std::string type(LaneType type);
  /// The name of the function: "f32x16_floor".
  std::string function(const CFunction& function);
  std::vector<std::string> take() { return std::move(texts_); }

 private:
  void add(std::string_view name, std::string text);
  const CLanguage& language_;
  std::vector<std::string> texts_;
  std::map<std::pair<DType, int>, std::string> types_;
  std::map<decltype(CFunction{}.key()), std::string> functions_;
};

/// Signed integers as wide as the elements: what comparisons of vectors give.
LaneType mask_of(LaneType type);

KernelText print_c_family(const LoopNest& nest, const CLanguage& language);

}  // namespace diji
