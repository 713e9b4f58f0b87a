// Loop and Scan: one body each, imported once its carried values have sizes that hold for every iteration.
#include "formats/onnx/names.h"
#include "formats/onnx/special.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <set>
#include <utility>

namespace diji::onnx {
namespace {

struct LoopInputs {
  ValueId limit = ValueId::none, condition = ValueId::none;
  Values carried, scanned;  ///< scanned along axis 0
};
struct BodyOutputs {
  ValueId condition = ValueId::none;  ///< whether to go on; none: always
  Values carried, stacked;
};
/// Fills a body; all values are the body's.
using BodyMaker = std::function<Result<BodyOutputs>(Scope& scope, ValueId iteration, const Values& carried,
                                                    const Values& slices)>;

class LoopBuilder {
 public:
  LoopBuilder(NodeImporter& importer, Scope& outer, const LoopInputs& inputs)
      : importer_(importer), outer_(outer), inputs_(inputs), varying_(inputs.carried.size()) {}

  /// The carried values at the end, then the stacked ones.
  Result<Values> build(const BodyMaker& make) {
    while (true) {
      TRY(importer_.charge(std::ssize(inputs_.carried) + std::ssize(inputs_.scanned) + 1));
      Graph graph = outer_.body.builder.graph().child();
      Body body(graph, &outer_.body);
      Scope scope(body, outer_);
      const ValueId iteration = graph.add_input("iteration", {DType::i64, {}});
      body.iteration = iteration;
      const Values carried = add_carried(graph), slices = add_slices(graph);
      const BodyOutputs outputs = TRY(make(scope, iteration, carried, slices));
      TRY(body.builder.status());
      if (TRY(widen(graph, carried, outputs.carried))) continue;
      if (outputs.condition != ValueId::none)
        graph.add_output(std::string(kLoopCondition), outputs.condition);
      for (std::size_t i = 0; i < outputs.carried.size(); ++i)
        graph.add_output(fmt::format("carried{}", i), outputs.carried[i]);
      for (std::size_t i = 0; i < outputs.stacked.size(); ++i)
        graph.add_output(fmt::format("stacked{}", i), outputs.stacked[i]);
      Values captures;
      for (const auto& [outside, inside] : body.captures()) captures.push_back(outside);
      Builder& builder = outer_.body.builder;
      Values results = builder.loop(inputs_.limit, inputs_.condition, inputs_.carried, inputs_.scanned,
                                    captures, std::move(graph));
      TRY(builder.status());
      return results;
    }
  }

 private:
  // A size that changes from trip to trip is a symbol of the body's own.
  Values add_carried(Graph& graph) const {
    Values values;
    for (std::size_t i = 0; i < inputs_.carried.size(); ++i) {
      Type type = outer_.body.builder.type(inputs_.carried[i]);
      for (const std::size_t axis : varying_[i]) type.shape[axis] = graph.fresh_symbol();
      values.push_back(graph.add_input(fmt::format("carried{}", i), std::move(type)));
    }
    return values;
  }

  Values add_slices(Graph& graph) const {
    Values values;
    for (std::size_t i = 0; i < inputs_.scanned.size(); ++i) {
      Type type = outer_.body.builder.type(inputs_.scanned[i]);
      type.shape.erase(type.shape.begin());
      values.push_back(graph.add_input(fmt::format("slice{}", i), std::move(type)));
    }
    return values;
  }

  // True when an axis was found to vary that was taken as fixed: the body is imported again then.
  Result<bool> widen(const Graph& graph, const Values& before, const Values& after) {
    bool changed = false;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Type &inside = graph.type(before[i]), &next = graph.type(after[i]);
      if (inside.dtype != next.dtype || inside.shape.size() != next.shape.size()) {
        return fail(
            inside.dtype != next.dtype ? ErrorCode::mismatch : ErrorCode::unsupported,
            "carried value {} is {} and becomes {}; types and ranks that change from trip to trip are not "
            "built",
            i, text_of(inside), text_of(next));
      }
      for (std::size_t axis = 0; axis < next.shape.size(); ++axis) {
        if (next.shape[axis] == inside.shape[axis]) continue;
        changed |= varying_[i].insert(axis).second;
      }
    }
    return changed;
  }

  NodeImporter& importer_;
  Scope& outer_;
  const LoopInputs& inputs_;
  std::vector<std::set<std::size_t>> varying_;
};

Result<ValueId> plain_output(const ImportedList& outputs, std::size_t i) {
  if (i >= outputs.size())
    return fail(ErrorCode::malformed, "its body has {} outputs, more are wanted", outputs.size());
  const auto* tensor = std::get_if<Tensor>(&outputs[i].value);
  if (tensor == nullptr || tensor->id == ValueId::none) {
    return fail(ErrorCode::unsupported, "output {} of its body is no tensor, which is not built yet", i);
  }
  if (tensor->packed != 0) return refuse_packed(tensor->packed, fmt::format("output {} of its body", i));
  return tensor->id;
}

ImportedList tensors(const Values& values) {
  ImportedList list;
  for (const ValueId id : values) list.push_back({Tensor{.id = id}});
  return list;
}

ValueId truth(Builder& builder) { return builder.constant(HostTensor::of<bool>({}, {true})); }

std::optional<bool> known_bool(const Builder& builder, ValueId id) {
  const auto elements = builder.constant_ints(id);
  if (!elements || elements->size() != 1) return std::nullopt;
  return (*elements)[0] != 0;
}

// ---- Loop

// Trips one after the other in the graph: for lists as carried values, whose lengths exist at import only.
class Unroller {
 public:
  Unroller(Site& site, const GraphProto& body, bool heeds_condition)
      : site_(site), body_(body), heeds_condition_(heeds_condition) {}

  Result<ImportedList> run() {
    ImportedList carried(site_.inputs.begin() + 2, site_.inputs.end());
    if (body_.outputs.size() < carried.size() + 1)
      return fail(ErrorCode::malformed, "its body has too few outputs");
    stacked_.resize(body_.outputs.size() - carried.size() - 1);
    std::optional<std::int64_t> limit;
    if (site_.has_input(0)) limit = TRY(site_.known_integer(0, "the trip count of a loop over sequences"));
    bool go_on =
        !heeds_condition_ || TRY(site_.known_integer(1, "the condition of a loop over sequences")) != 0;
    for (std::int64_t trip = 0; go_on && (!limit || trip < *limit); ++trip) go_on = TRY(step(trip, carried));
    for (const Values& pieces : stacked_) carried.push_back({Tensor{.id = TRY(joined(pieces))}});
    return carried;
  }

 private:
  Result<bool> step(std::int64_t trip, ImportedList& carried) {
    Builder& builder = site_.builder();
    TRY(site_.importer.charge(std::ssize(carried) + 1));
    ImportedList inputs = {{Tensor{.id = builder.constant(HostTensor::of<std::int64_t>({}, {trip}))}},
                           {Tensor{.id = truth(builder)}}};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Scope scope(site_.scope.body, site_.scope);
    scope.path += fmt::format("{}/", trip);
    const ImportedList outputs = TRY(site_.importer.add_graph(body_, std::move(inputs), scope));
    std::copy_n(outputs.begin() + 1, carried.size(), carried.begin());
    for (std::size_t i = 0; i < stacked_.size(); ++i)
      stacked_[i].push_back(TRY(plain_output(outputs, 1 + carried.size() + i)));
    if (!heeds_condition_) return true;
    const auto go_on = known_bool(builder, TRY(plain_output(outputs, 0)));
    if (go_on) return *go_on;
    return fail(ErrorCode::unsupported, "the condition of a loop over sequences depends on data");
  }

  Result<ValueId> joined(const Values& pieces) {
    if (pieces.empty())
      return fail(ErrorCode::unsupported, "a loop over sequences without a trip collects nothing");
    Builder& builder = site_.builder();
    Values rows;
    for (const ValueId piece : pieces) {
      Shape shape = builder.shape(piece);
      shape.insert(shape.begin(), Dim(1));
      rows.push_back(builder.reshape(piece, std::move(shape)));
    }
    return builder.concatenate(std::move(rows), 0);
  }

  Site& site_;
  const GraphProto& body_;
  bool heeds_condition_;
  std::vector<Values> stacked_;
};

Result<ImportedList> import_loop(Site& site) {
  const GraphProto& body = *TRY(site.graph("body"));
  // An absent condition means that the body's is ignored (specification of Loop).
  const bool heeds_condition = site.has_input(1);
  site.inputs.resize(std::max<std::size_t>(site.inputs.size(), 2));
  LoopInputs loop;
  bool lists = false;
  for (std::size_t i = 2; i < site.inputs.size(); ++i)
    lists |= !std::holds_alternative<Tensor>(site.inputs[i].value);
  if (lists) return Unroller(site, body, heeds_condition).run();
  for (std::size_t i = 2; i < site.inputs.size(); ++i)
    loop.carried.push_back(TRY(site.plain(i, fmt::format("carried value {}", i - 2))));
  if (site.has_input(0)) loop.limit = TRY(site.plain(0, "the trip count"));
  if (heeds_condition) {
    const ValueId condition = TRY(site.plain(1, "the condition"));
    const auto known = known_bool(site.builder(), condition);
    if (!known) loop.condition = condition;
    if (known == false) loop.limit = site.builder().constant(HostTensor::of<std::int64_t>({}, {0}));
  }
  const auto make = [&](Scope& scope, ValueId iteration, const Values& carried,
                        const Values&) -> Result<BodyOutputs> {
    Builder& builder = scope.body.builder;
    ImportedList inputs = tensors({iteration, truth(builder)});
    const ImportedList more = tensors(carried);
    inputs.insert(inputs.end(), more.begin(), more.end());
    const ImportedList outputs = TRY(site.importer.add_graph(body, std::move(inputs), scope));
    BodyOutputs result;
    const ValueId go_on = TRY(plain_output(outputs, 0));
    if (heeds_condition && known_bool(builder, go_on) != true) result.condition = go_on;
    for (std::size_t i = 0; i < carried.size(); ++i)
      result.carried.push_back(TRY(plain_output(outputs, 1 + i)));
    for (std::size_t i = 1 + carried.size(); i < outputs.size(); ++i)
      result.stacked.push_back(TRY(plain_output(outputs, i)));
    return result;
  };
  return tensors(TRY(LoopBuilder(site.importer, site.scope, loop).build(make)));
}

// ---- Scan

ValueId reversed(Builder& builder, ValueId x) {
  const Shape shape = builder.shape(x);
  Shape start(shape.size(), Dim(0));
  Ints step(shape.size(), 1);
  start[0] = shape[0] - Dim(1);
  step[0] = -1;
  return builder.slice(x, std::move(start), shape, std::move(step));
}

// Axis `from` becomes axis `to`; the others keep their order.
ValueId move_axis(Builder& builder, ValueId x, std::int64_t from, std::int64_t to) {
  Ints order;
  for (std::int64_t axis = 0; axis < builder.rank(x); ++axis) {
    if (axis != from) order.push_back(axis);
  }
  order.insert(order.begin() + to, from);
  return builder.transpose(x, std::move(order));
}

struct ScanForm {
  const GraphProto* body = nullptr;
  std::size_t states = 0, scanned = 0, outputs = 0;
  Ints input_axes, input_backwards, output_axes, output_backwards;
};

Result<Ints> list_of(const Site& site, std::string_view name, std::size_t count) {
  Ints list = TRY(site.integers(name));
  if (list.empty()) return Ints(count, 0);
  if (list.size() == count) return list;
  return fail(ErrorCode::malformed, "attribute '{}' has {} entries, {} are wanted", name, list.size(), count);
}

// Values lie in site.inputs from `first` on.
Result<ScanForm> scan_form(const Site& site, std::size_t first, bool old) {
  ScanForm form{.body = TRY(site.graph("body"))};
  const std::int64_t scanned = TRY(site.integer("num_scan_inputs", 0));
  const auto values = static_cast<std::int64_t>(site.inputs.size() - std::min(first, site.inputs.size()));
  if (scanned < 1 || scanned > values) {
    return fail(ErrorCode::malformed, "num_scan_inputs is {}, the node has {} inputs", scanned, values);
  }
  form.scanned = static_cast<std::size_t>(scanned);
  form.states = static_cast<std::size_t>(values - scanned);
  if (form.body->outputs.size() < form.states)
    return fail(ErrorCode::malformed, "its body has too few outputs");
  form.outputs = form.body->outputs.size() - form.states;
  form.input_axes = TRY(list_of(site, "scan_input_axes", form.scanned));
  form.input_backwards = TRY(list_of(site, old ? "directions" : "scan_input_directions", form.scanned));
  form.output_axes = TRY(list_of(site, "scan_output_axes", form.outputs));
  form.output_backwards = TRY(list_of(site, "scan_output_directions", form.outputs));
  return form;
}

Result<void> require_one_length(Builder& builder, const Values& scanned) {
  const Dim length = builder.shape(scanned[0])[0];
  for (const ValueId id : scanned) {
    const Dim other = builder.shape(id)[0];
    if (length.constant() && other.constant() && !(length == other)) {
      return fail(ErrorCode::mismatch, "it scans over {} and {} elements", length.text(), other.text());
    }
    builder.graph().require({Constraint::Kind::equal, length, other, "Scan: lengths of what it scans over"});
  }
  return {};
}

Result<Values> add_scan(NodeImporter& importer, Scope& scope, const ScanForm& form, LoopInputs loop) {
  Builder& builder = scope.body.builder;
  for (std::size_t i = 0; i < form.scanned; ++i) {
    ValueId& x = loop.scanned[i];
    if (builder.rank(x) == 0) return fail(ErrorCode::mismatch, "a scalar has no axis to scan over");
    x = move_axis(builder, x, builder.axis(form.input_axes[i], builder.rank(x)), 0);
    TRY(builder.status());
    if (form.input_backwards[i] != 0) x = reversed(builder, x);
  }
  TRY(require_one_length(builder, loop.scanned));
  const auto make = [&](Scope& inner, ValueId, const Values& carried,
                        const Values& slices) -> Result<BodyOutputs> {
    Values inputs = carried;
    inputs.insert(inputs.end(), slices.begin(), slices.end());
    const ImportedList outputs = TRY(importer.add_graph(*form.body, tensors(inputs), inner));
    BodyOutputs result;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      (i < form.states ? result.carried : result.stacked).push_back(TRY(plain_output(outputs, i)));
    return result;
  };
  Values results = TRY(LoopBuilder(importer, scope, loop).build(make));
  for (std::size_t i = 0; i < form.outputs; ++i) {
    ValueId& y = results[form.states + i];
    if (form.output_backwards[i] != 0) y = reversed(builder, y);
    y = move_axis(builder, y, 0, builder.axis(form.output_axes[i], builder.rank(y)));
    TRY(builder.status());
  }
  return results;
}

Result<LoopInputs> scan_inputs(const Site& site, std::size_t first, const ScanForm& form) {
  LoopInputs loop;
  for (std::size_t i = first; i < site.inputs.size(); ++i) {
    const ValueId id = TRY(site.plain(i, fmt::format("input {}", i)));
    (i < first + form.states ? loop.carried : loop.scanned).push_back(id);
  }
  return loop;
}

// Scan-8: everything has a batch axis in front, and the first input may say how long each sequence is.
Result<ImportedList> import_scan_8(Site& site) {
  if (site.has_input(0)) return fail(ErrorCode::unsupported, "'sequence_lens' is not built yet");
  const ScanForm form = TRY(scan_form(site, 1, true));
  const LoopInputs given = TRY(scan_inputs(site, 1, form));
  LoopInputs batch;
  batch.scanned = given.carried;
  batch.scanned.insert(batch.scanned.end(), given.scanned.begin(), given.scanned.end());
  for (const ValueId id : batch.scanned) {
    if (site.builder().rank(id) == 0) return fail(ErrorCode::mismatch, "an input has no batch axis");
  }
  TRY(require_one_length(site.builder(), batch.scanned));
  const auto make = [&](Scope& scope, ValueId, const Values&, const Values& slices) -> Result<BodyOutputs> {
    const auto middle = slices.begin() + static_cast<std::ptrdiff_t>(form.states);
    LoopInputs one;
    one.carried.assign(slices.begin(), middle);
    one.scanned.assign(middle, slices.end());
    return BodyOutputs{.carried = {}, .stacked = TRY(add_scan(site.importer, scope, form, std::move(one)))};
  };
  return tensors(TRY(LoopBuilder(site.importer, site.scope, batch).build(make)));
}

Result<ImportedList> import_scan(Site& site) {
  constexpr std::int64_t kWithoutBatch = 9;
  if (site.scope.opsets.at("") < kWithoutBatch) return import_scan_8(site);
  const ScanForm form = TRY(scan_form(site, 0, false));
  return tensors(TRY(add_scan(site.importer, site.scope, form, TRY(scan_inputs(site, 0, form)))));
}

constexpr std::array<std::string_view, 1> kLoopNames = {"body"};
constexpr std::array<std::string_view, 7> kScanNames = {"body",
                                                        "num_scan_inputs",
                                                        "scan_input_axes",
                                                        "scan_input_directions",
                                                        "scan_output_axes",
                                                        "scan_output_directions",
                                                        "directions"};
constexpr std::array kOps = {
    SpecialOp{"Loop", import_loop, kLoopNames},
    SpecialOp{"Scan", import_scan, kScanNames, 8},
};

}  // namespace

std::span<const SpecialOp> loop_ops() { return kOps; }

}  // namespace diji::onnx
