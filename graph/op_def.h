// OpDef: one record says everything about an operator; inference, reference, tests, documentation and
// importers derive from it. Records are constexpr data in ops/ (and graph/primitives.cpp for the closed set).
#pragma once

#include "base/dtype.h"
#include "base/error.h"
#include "graph/attributes.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace diji {

class Builder;
class CustomOp;
class Graph;
struct OpDef;

/// A value of a graph. `none` stands for an optional operand that is absent.
enum class ValueId : std::uint32_t { none = 0xffffffff };
using Values = std::vector<ValueId>;

/// A fixed-capacity list that is constexpr, so that records are plain data without static constructors.
template <typename T, std::size_t Capacity>
class List {
 public:
  constexpr List() = default;
  constexpr List(std::initializer_list<T> items) {
    for (const T& item : items) items_[size_++] = item;
  }
  constexpr void push_back(const T& item) { items_[size_++] = item; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](std::size_t i) const { return items_[i]; }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }

 private:
  std::array<T, Capacity> items_{};
  std::size_t size_ = 0;
};

/// The four kinds of architecture section 4.
enum class OpKind : std::uint8_t {
  primitive,   ///< the closed set that code generators know
  composed,    ///< meaning = decompose()
  structured,  ///< graph-valued attributes, run by the runtime
  host,        ///< declared C++ on HostTensors, counted as host
};

/// Which dtypes an operand may have, as a bit set over DType.
enum DTypeSet : std::uint16_t {
  kF64 = 1 << 0,
  kF32 = 1 << 1,
  kF16 = 1 << 2,
  kBF16 = 1 << 3,
  kI8 = 1 << 4,
  kU8 = 1 << 5,
  kI16 = 1 << 6,
  kU16 = 1 << 7,
  kI32 = 1 << 8,
  kU32 = 1 << 9,
  kI64 = 1 << 10,
  kU64 = 1 << 11,
  kBool = 1 << 12,
  kFloating = kF64 | kF32 | kF16 | kBF16,
  kInteger = kI8 | kU8 | kI16 | kU16 | kI32 | kU32 | kI64 | kU64,
  kNumeric = kFloating | kInteger,
  kAny = kNumeric | kBool,
  kIndex = kI32 | kI64,
};
constexpr bool contains(DTypeSet set, DType dtype) { return (set >> static_cast<int>(dtype)) & 1; }

enum class OperandMode : std::uint8_t { required, optional, variadic };

struct Operand {
  std::string_view name;
  std::string_view dims;  ///< for people: "[..., M, K]"
  DTypeSet dtypes = kAny;
  std::string_view type = "T";  ///< operands with the same letter have the same dtype
  OperandMode mode = OperandMode::required;
  /// Its elements are sizes, positions or counts that shapes follow from: where they are computed from data,
  /// the host reads them before the operator runs (an `observe` in front of it).
  bool sizes = false;
};

struct AttributeDef {
  std::string_view name;
  AttributeKind kind = AttributeKind::integer;
  std::string_view default_text;  ///< for people; "" means required
  std::string_view doc;
};

/// One use of an operator: what check, decompose and infer see.
struct OpCall {
  const OpDef* op;
  const Values& inputs;
  const Attributes& attributes;
};

/// A node as a model file has it, before an adapter turned it into an OpCall of the catalogue.
struct ForeignNode {
  std::int64_t version = 0;  ///< of the operator's schema, not of the set
  Values inputs;
  Attributes attributes;
  std::size_t outputs = 1;  ///< how many the node names
  /// Set by adapt(): the record's last operand is a key of random numbers, which the importer gives.
  bool draws = false;
};

/// Where a model format names this operator.
struct OnnxName {
  std::string_view type;            ///< "Squeeze"; "" when ONNX has no such operator
  List<std::int64_t, 12> versions;  ///< schema versions understood
  /// Turns an older form into the record's own (attributes that became inputs). May be null.
  Result<void> (*adapt)(Builder& builder, ForeignNode& node) = nullptr;
};

/// Inputs and attributes for one conformance run.
struct Sample {
  std::string label;
  std::vector<HostTensor> inputs;
  Attributes attributes;
  std::vector<bool> constant;  ///< per input: part of the graph rather than fed (shapes, axes)
};

struct OpDef {
  std::string_view name;  ///< the field's term: "softmax"
  std::string_view doc;   ///< formula, shapes, source
  OpKind kind = OpKind::composed;
  List<Operand, 16> inputs;
  List<Operand, 6> outputs;
  List<AttributeDef, 18> attributes;
  /// How many sizes of the results only a run tells: decompose finds that many symbols in the attribute
  /// "symbols".
  int fresh_symbols = 0;
  /// Emits primitives (or other operators) and returns the outputs. Errors go to the builder (Builder::fail),
  /// with the sentence users see.
  Values (*decompose)(Builder& builder, const OpCall& call) = nullptr;
  /// Samples for one dtype of the operands typed "T".
  std::vector<Sample> (*samples)(DType dtype) = nullptr;
  OnnxName onnx;
  /// Of kind host: what stands in place of a decomposition.
  const CustomOp* custom = nullptr;
  /// The outside oracle: "onnx-node:test_add" names the ONNX node tests with that prefix. Required, see tidy.
  std::string_view oracle;
};

}  // namespace diji
