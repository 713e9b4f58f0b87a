// Sequences and optionals: lists whose length is known at import, so that only their tensors reach the graph.
#include "formats/onnx/names.h"
#include "formats/onnx/special.h"
#include "formats/onnx/tensor.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace diji::onnx {
namespace {

ImportedList one(Sequence sequence) { return {{std::move(sequence)}}; }
ImportedList one(Tensor tensor) { return {{tensor}}; }

ValueId integer_constant(Site& site, std::int64_t value) {
  return site.builder().constant(HostTensor::of<std::int64_t>({}, {value}));
}

Result<void> check_item(const Site& site, const Sequence& sequence, const Tensor& item) {
  const DType dtype = site.builder().dtype(item.id);
  const std::int32_t packed = sequence.items.empty() ? item.packed : sequence.items[0].packed;
  if (dtype == sequence.dtype && item.packed == packed) return {};
  return fail(ErrorCode::mismatch, "a tensor of {} in a sequence of {}", name_of(dtype),
              name_of(sequence.dtype));
}

// Counted from the end when negative; `size_max` itself is allowed for insertion.
Result<std::size_t> position_of(const Site& site, std::size_t input, const Sequence& sequence, bool behind) {
  const std::int64_t size = std::ssize(sequence.items);
  const std::int64_t given = TRY(site.known_integer(input, "the position"));
  const std::int64_t position = given < 0 ? given + size : given;
  if (position >= 0 && (position < size || (behind && position == size))) {
    return static_cast<std::size_t>(position);
  }
  return fail(ErrorCode::malformed, "position {} in a sequence of {} tensors", given, size);
}

Result<ImportedList> sequence_construct(Site& site) {
  Sequence sequence;
  for (std::size_t i = 0; i < site.inputs.size(); ++i) {
    const Tensor item = TRY(site.tensor(i, fmt::format("input {}", i)));
    if (i == 0) sequence.dtype = site.builder().dtype(item.id);
    TRY(check_item(site, sequence, item));
    sequence.items.push_back(item);
  }
  if (sequence.items.empty()) return fail(ErrorCode::malformed, "a sequence is made of one tensor at least");
  return one(std::move(sequence));
}

Result<ImportedList> sequence_empty(Site& site) {
  const std::int64_t number = TRY(site.integer("dtype", data_type_of(DType::f32)));
  const DType dtype =
      TRY(dtype_of_number(number, "attribute 'dtype'", site.importer.model().file, site.node.offset));
  return one(Sequence{.dtype = dtype, .items = {}});
}

Result<ImportedList> sequence_insert(Site& site) {
  Sequence sequence = TRY(site.sequence(0, "the sequence"));
  const Tensor item = TRY(site.tensor(1, "the tensor"));
  TRY(check_item(site, sequence, item));
  std::size_t position = sequence.items.size();
  if (site.has_input(2)) position = TRY(position_of(site, 2, sequence, true));
  TRY(site.importer.charge(std::ssize(sequence.items)));
  sequence.items.insert(std::next(sequence.items.begin(), static_cast<std::ptrdiff_t>(position)), item);
  return one(std::move(sequence));
}

Result<ImportedList> sequence_erase(Site& site) {
  Sequence sequence = TRY(site.sequence(0, "the sequence"));
  if (sequence.items.empty()) return fail(ErrorCode::malformed, "nothing to take from an empty sequence");
  std::size_t position = sequence.items.size() - 1;
  if (site.has_input(1)) position = TRY(position_of(site, 1, sequence, false));
  TRY(site.importer.charge(std::ssize(sequence.items)));
  sequence.items.erase(std::next(sequence.items.begin(), static_cast<std::ptrdiff_t>(position)));
  return one(std::move(sequence));
}

Result<ImportedList> sequence_at(Site& site) {
  const Sequence sequence = TRY(site.sequence(0, "the sequence"));
  const std::size_t position = TRY(position_of(site, 1, sequence, false));
  return one(sequence.items[position]);
}

Result<ImportedList> sequence_length(Site& site) {
  const Sequence sequence = TRY(site.sequence(0, "the sequence"));
  return one(Tensor{.id = integer_constant(site, std::ssize(sequence.items))});
}

Result<ImportedList> concat_from_sequence(Site& site) {
  const Sequence sequence = TRY(site.sequence(0, "the sequence"));
  if (site.attribute("axis") == nullptr) return fail(ErrorCode::malformed, "attribute 'axis' is missing");
  const std::int64_t given = TRY(site.integer("axis", 0));
  const bool new_axis = TRY(site.integer("new_axis", 0)) != 0;
  if (sequence.items.empty()) return fail(ErrorCode::malformed, "an empty sequence cannot be joined");
  Builder& builder = site.builder();
  const std::int64_t rank = builder.rank(sequence.items[0].id) + (new_axis ? 1 : 0);
  const std::int64_t axis = builder.axis(given, rank);
  TRY(builder.status());
  Values parts;
  for (const Tensor& item : sequence.items) {
    Shape shape = builder.shape(item.id);
    if (new_axis && axis > std::ssize(shape)) return fail(ErrorCode::mismatch, "tensors of different rank");
    if (new_axis) shape.insert(std::next(shape.begin(), axis), Dim(1));
    parts.push_back(builder.reshape(item.id, std::move(shape)));
  }
  const ValueId joined = builder.concatenate(std::move(parts), axis);
  return one(Tensor{.id = joined, .packed = sequence.items[0].packed});
}

// How long each piece is along the axis.
Result<std::vector<std::int64_t>> piece_sizes(Site& site, const Dim& along) {
  const std::optional<std::int64_t> size = along.constant();
  std::vector<std::int64_t> sizes;
  if (site.has_input(1) && site.builder().rank(TRY(site.plain(1, "'split'"))) == 1) {
    const auto given = site.builder().constant_ints(TRY(site.plain(1, "'split'")));
    if (!given)
      return fail(ErrorCode::unsupported,
                  "'split' depends on data; only what is known at import is built yet");
    Dim total(0);
    for (const std::int64_t piece : *given) {
      if (piece < 0) return fail(ErrorCode::malformed, "a piece of {} elements", piece);
      total = total + Dim(piece);
    }
    const bool fits = !size || total.is(*size);
    if (!fits)
      return fail(ErrorCode::mismatch, "pieces of {} elements, the axis has {}", total.text(), along.text());
    site.builder().graph().require(
        {Constraint::Kind::equal, along, total, "SplitToSequence: the sum of 'split'"});
    return *given;
  }
  const std::int64_t piece = site.has_input(1) ? TRY(site.known_integer(1, "'split'")) : 1;
  if (piece < 1) return fail(ErrorCode::malformed, "pieces of {} elements", piece);
  if (!size) {
    return fail(ErrorCode::unsupported,
                "the axis has {} elements; a sequence of unknown length is not built yet", along.text());
  }
  TRY(site.importer.charge(*size / piece));
  for (std::int64_t rest = *size; rest > 0; rest -= piece) sizes.push_back(std::min(rest, piece));
  return sizes;
}

Result<ImportedList> split_to_sequence(Site& site) {
  const Tensor input = TRY(site.tensor(0, "the input"));
  Builder& builder = site.builder();
  const std::int64_t axis = builder.axis(TRY(site.integer("axis", 0)), builder.rank(input.id));
  const bool keeps_axis = site.has_input(1) || TRY(site.integer("keepdims", 1)) != 0;
  if (builder.rank(input.id) == 0) return fail(ErrorCode::mismatch, "a scalar has no axis to split");
  TRY(builder.status());
  const auto place = static_cast<std::size_t>(axis);
  const std::vector<std::int64_t> sizes = TRY(piece_sizes(site, builder.shape(input.id)[place]));
  Sequence sequence{.dtype = builder.dtype(input.id), .items = {}};
  Shape start(static_cast<std::size_t>(builder.rank(input.id)), Dim(0));
  for (const std::int64_t size : sizes) {
    Shape shape = builder.shape(input.id);
    shape[place] = Dim(size);
    ValueId piece = builder.slice(input.id, start, shape, Ints(shape.size(), 1));
    shape.erase(std::next(shape.begin(), axis));
    if (!keeps_axis) piece = builder.reshape(piece, shape);
    sequence.items.push_back({piece, input.packed});
    start[place] = start[place] + Dim(size);
  }
  return one(std::move(sequence));
}

// Element k of each input: an item of a sequence, or a tensor that is the same for all.
Result<ImportedList> elements_at(const Site& site, std::size_t k) {
  ImportedList elements;
  for (std::size_t i = 0; i < site.inputs.size(); ++i) {
    const auto* sequence = std::get_if<Sequence>(&site.inputs[i].value);
    if (sequence == nullptr) {
      elements.push_back({TRY(site.tensor(i, fmt::format("input {}", i)))});
    } else if (k < sequence->items.size()) {
      elements.push_back({sequence->items[k]});
    }
  }
  return elements;
}

// The dtype that a body declares for an output, for a list that stays empty.
Result<DType> declared_dtype(const Site& site, const ValueInfoProto& output) {
  return dtype_of_number(output.data_type, fmt::format("output '{}'", shown(output.name)),
                         site.importer.model().file, output.offset);
}

Result<ImportedList> sequence_map(Site& site) {
  const GraphProto& body = *TRY(site.graph("body"));
  const std::size_t length = TRY(site.sequence(0, "the sequence")).items.size();
  for (std::size_t i = 1; i < site.inputs.size(); ++i) {
    const auto* other = std::get_if<Sequence>(&site.inputs[i].value);
    if (other == nullptr || other->items.size() == length) continue;
    return fail(ErrorCode::mismatch, "sequences of {} and {} tensors", length, other->items.size());
  }
  std::vector<Sequence> results(body.outputs.size());
  for (std::size_t k = 0; k < length; ++k) {
    Scope scope(site.scope.body, site.scope);
    scope.path += fmt::format("{}/", k);
    const ImportedList outputs = TRY(site.importer.add_graph(body, TRY(elements_at(site, k)), scope));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto* item = std::get_if<Tensor>(&outputs[i].value);
      if (item == nullptr || item->id == ValueId::none)
        return fail(ErrorCode::mismatch, "output {} of the body is no tensor", i);
      if (k == 0) results[i].dtype = site.builder().dtype(item->id);
      TRY(check_item(site, results[i], *item));
      results[i].items.push_back(*item);
    }
  }
  ImportedList lists;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (length == 0) results[i].dtype = TRY(declared_dtype(site, body.outputs[i]));
    lists.push_back({std::move(results[i])});
  }
  return lists;
}

Result<ImportedList> make_optional(Site& site) {
  Optional optional;
  if (site.has_input(0)) optional.content = std::make_shared<const Imported>(site.inputs[0]);
  return ImportedList{{std::move(optional)}};
}

// Since opset 18 a tensor or a sequence stands for an optional that has it.
Result<ImportedList> optional_has_element(Site& site) {
  bool has = site.has_input(0);
  if (has) {
    const auto* optional = std::get_if<Optional>(&site.inputs[0].value);
    has = optional == nullptr || optional->content != nullptr;
  }
  return one(Tensor{.id = site.builder().constant(HostTensor::of<bool>({}, {has}))});
}

Result<ImportedList> optional_get_element(Site& site) {
  if (!site.has_input(0)) return fail(ErrorCode::malformed, "the input is missing");
  const auto* optional = std::get_if<Optional>(&site.inputs[0].value);
  if (optional == nullptr) return ImportedList{site.inputs[0]};
  if (optional->content == nullptr) return fail(ErrorCode::malformed, "the optional has no element");
  return ImportedList{*optional->content};
}

constexpr std::array<std::string_view, 1> kDtype = {"dtype"}, kBody = {"body"}, kType = {"type"};
constexpr std::array<std::string_view, 2> kJoin = {"axis", "new_axis"}, kSplit = {"axis", "keepdims"};

constexpr std::array kOps = {
    SpecialOp{"SequenceConstruct", sequence_construct, {}, 11},
    SpecialOp{"SequenceEmpty", sequence_empty, kDtype, 11},
    SpecialOp{"SequenceInsert", sequence_insert, {}, 11},
    SpecialOp{"SequenceErase", sequence_erase, {}, 11},
    SpecialOp{"SequenceAt", sequence_at, {}, 11},
    SpecialOp{"SequenceLength", sequence_length, {}, 11},
    SpecialOp{"ConcatFromSequence", concat_from_sequence, kJoin, 11},
    SpecialOp{"SplitToSequence", split_to_sequence, kSplit, 11},
    SpecialOp{"SequenceMap", sequence_map, kBody, 17},
    SpecialOp{"Optional", make_optional, kType, 15},
    SpecialOp{"OptionalHasElement", optional_has_element, {}, 15},
    SpecialOp{"OptionalGetElement", optional_get_element, {}, 15},
};

}  // namespace

std::span<const SpecialOp> sequence_ops() { return kOps; }

}  // namespace diji::onnx
