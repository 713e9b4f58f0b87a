// Recurrent layers: one loop a direction, with the products of the inputs taken out of it.
#include "ops/families.h"
#include "ops/numerics.h"
#include "ops/quantization.h"
#include "ops/samples.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace diji {
namespace {

enum class Kind : std::uint8_t { lstm, gru, rnn };

// Gates whose rows stand below each other in W and R: i, o, f, c of an LSTM, z, r, h of a GRU.
std::int64_t gates_of(Kind kind) { return kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1; }

// A matrix that is multiplied with rows of numbers: floats [N, K], or 8-bit integers [K, N] with a scale and
// zero point for all of them or each of the N.
struct Weights {
  ValueId matrix = ValueId::none, scale = ValueId::none, zero_point = ValueId::none;
};

// x [..., K] -> [..., N]. For integers x is quantised with one scale first, as ONNX Runtime does it.
ValueId product(Builder& b, ValueId x, const Weights& weights) {
  if (!b.ok()) return ValueId::none;
  if (weights.scale == ValueId::none)
    return b.dot_general(x, weights.matrix, {.lhs_contracting = {b.rank(x) - 1}, .rhs_contracting = {1}});
  const Quantized q = quantize_dynamically(b, x);
  const ValueId sums = integer_matmul(b, q.values, weights.matrix, q.zero_point, weights.zero_point);
  return b.multiply(b.convert(sums, DType::f32), b.multiply(q.scale, weights.scale));
}

// One of the activations a layer names, with the parameters that it consumes from the lists.
struct Activation {
  std::string_view op;  ///< of the catalogue; "" for those that are written out here
  std::string_view name;
  double alpha = 0, beta = 0;
  int parameters = 0;  ///< how many of alpha and beta it has
};

constexpr std::array kActivations = {
    Activation{"sigmoid", "sigmoid"},
    Activation{"tanh", "tanh"},
    Activation{"relu", "relu"},
    Activation{"softsign", "softsign"},
    Activation{"softplus", "softplus"},
    Activation{"leaky_relu", "leakyrelu", 0.01, 0, 1},
    Activation{"thresholded_relu", "thresholdedrelu", 1, 0, 1},
    Activation{"elu", "elu", 1, 0, 1},
    Activation{"hard_sigmoid", "hardsigmoid", 0.2, 0.5, 2},
    Activation{"", "affine", 1, 0, 2},
    Activation{"", "scaledtanh", 1, 1, 2},
};

ValueId activate(Builder& b, const Activation& activation, ValueId x) {
  const auto number = [&](double value) { return b.scalar(b.dtype(x), value); };
  if (activation.name == "affine")
    return b.add(b.multiply(number(activation.alpha), x), number(activation.beta));
  if (activation.name == "scaledtanh")
    return b.multiply(number(activation.alpha), b.tanh(b.multiply(number(activation.beta), x)));
  Attributes attributes;
  if (activation.parameters > 0) attributes.set("alpha", activation.alpha);
  if (activation.parameters > 1) attributes.set("beta", activation.beta);
  return apply(b, activation.op, x, attributes);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    words.push_back(lower(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  return words;
}

// As many as the directions need, in their order; each takes the next alpha and beta if it has such.
std::vector<Activation> activations_of(Builder& b, const OpCall& call, Kind kind, std::size_t directions) {
  std::vector<std::string> words = words_of(call.attributes.get_or("activations", std::string()));
  const std::vector<std::string> usual = kind == Kind::lstm
                                             ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
                                         : kind == Kind::gru ? std::vector<std::string>{"sigmoid", "tanh"}
                                                             : std::vector<std::string>{"tanh"};
  if (words.empty()) {
    for (std::size_t i = 0; i < directions; ++i) words.insert(words.end(), usual.begin(), usual.end());
  }
  if (words.size() < usual.size() * directions) {
    b.fail(ErrorCode::mismatch, "{} activations for {} directions with {} each", words.size(), directions,
           usual.size());
    return {};
  }
  const Floats alphas = call.attributes.get_or("activation_alpha", Floats{});
  const Floats betas = call.attributes.get_or("activation_beta", Floats{});
  std::size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> result;
  for (const std::string& word : words) {
    const auto* const found = std::ranges::find(kActivations, word, &Activation::name);
    if (found == kActivations.end()) {
      b.fail(ErrorCode::mismatch, "'{}' is no activation of recurrent layers", word);
      return {};
    }
    Activation activation = *found;
    if (activation.parameters > 0 && next_alpha < alphas.size()) activation.alpha = alphas[next_alpha++];
    if (activation.parameters > 1 && next_beta < betas.size()) activation.beta = betas[next_beta++];
    result.push_back(activation);
  }
  return result;
}

// Everything that one direction computes with. Biases and peepholes may be none.
struct Direction {
  Weights input, recurrent;
  ValueId bias = ValueId::none;                         ///< [gates · H], added outside of the loop
  ValueId inner_bias = ValueId::none;                   ///< [H]: of a GRU's h gate with linear_before_reset
  ValueId peepholes = ValueId::none;                    ///< [3 · H]: i, o, f
  ValueId state = ValueId::none, cell = ValueId::none;  ///< [B, H]
  std::span<const Activation> activations;
  bool backwards = false;
};

struct Layer {
  Kind kind = Kind::rnn;
  double clip = 0;  ///< 0: none
  bool input_forget = false, linear_before_reset = false;
  ValueId x = ValueId::none;        ///< [T, B, I]
  ValueId lengths = ValueId::none;  ///< [B] i64
  Dim hidden;
};

// The steps of each sequence backwards, from its own last one on; what lies behind it stays. Its own inverse.
ValueId reversed(Builder& b, ValueId x, ValueId lengths) {
  if (!b.ok()) return ValueId::none;
  const Shape shape = b.shape(x);
  if (lengths == ValueId::none) {
    Shape start(shape.size(), Dim(0));
    start[0] = shape[0] - 1;
    Ints step(shape.size(), 1);
    step[0] = -1;
    return b.slice(x, start, shape, step);
  }
  Values indices;
  for (std::int64_t axis = 0; axis < std::ssize(shape); ++axis) indices.push_back(b.iota(shape, axis));
  const ValueId length = along_axis(b, lengths, 1, std::ssize(shape)), step = indices[0];
  const ValueId mirrored = b.subtract(b.subtract(length, b.scalar(DType::i64, 1)), step);
  indices[0] = b.select(b.less(step, length), mirrored, b.broadcast(step, shape));
  return b.gather(x, indices);
}

// What a step sees, all of it values of the loop's body.
struct Step {
  Builder& b;
  const Layer& layer;
  const Direction& direction;
  ValueId gates = ValueId::none;  ///< [B, gates · H] from the inputs, biases included
  ValueId state = ValueId::none, cell = ValueId::none;
  Weights recurrent;
  ValueId inner_bias = ValueId::none, peepholes = ValueId::none;

  ValueId part(ValueId x, std::int64_t gate) const {
    if (!b.ok()) return ValueId::none;
    const bool row = b.rank(x) == 1;
    const Dim start = layer.hidden * Dim(gate);
    return row ? b.slice(x, {start}, {layer.hidden}, {1})
               : b.slice(x, {0, start}, {b.shape(x)[0], layer.hidden}, {1, 1});
  }
  ValueId activated(std::size_t which, ValueId x) const {
    if (layer.clip > 0) {
      const ValueId limit = b.scalar(b.dtype(x), layer.clip), low = b.scalar(b.dtype(x), -layer.clip);
      x = b.minimum(b.maximum(x, low), limit);
    }
    return activate(b, direction.activations[which], x);
  }
  ValueId one_minus(ValueId x) const { return b.subtract(b.scalar(b.dtype(x), 1), x); }
};

struct States {
  ValueId state = ValueId::none, cell = ValueId::none;
};

States lstm_step(const Step& s) {
  Builder& b = s.b;
  const ValueId sums = b.add(s.gates, product(b, s.state, s.recurrent));
  // Peepholes stand in the order i, o, f.
  const auto gate = [&](std::int64_t number, std::int64_t peephole, ValueId cell) {
    ValueId x = s.part(sums, number);
    if (s.peepholes != ValueId::none) x = b.add(x, b.multiply(s.part(s.peepholes, peephole), cell));
    return s.activated(0, x);
  };
  const ValueId i = gate(0, 0, s.cell);
  const ValueId f = s.layer.input_forget ? s.one_minus(i) : gate(2, 2, s.cell);
  const ValueId fresh = s.activated(1, s.part(sums, 3));
  const ValueId cell = b.add(b.multiply(f, s.cell), b.multiply(i, fresh));
  const ValueId o = gate(1, 1, cell);
  return {b.multiply(o, activate(b, s.direction.activations[2], cell)), cell};
}

// H = (1 - z) · h + z · H; r enters before the product with R, or after it with linear_before_reset.
States gru_step(const Step& s) {
  Builder& b = s.b;
  if (!b.ok()) return {};
  const Dim rows = s.layer.hidden;
  const auto some_gates = [&](std::int64_t first, std::int64_t count) {
    Weights w = s.recurrent;
    w.matrix = b.slice(w.matrix, {rows * Dim(first), 0}, {rows * Dim(count), rows}, {1, 1});
    return w;
  };
  const auto gate = [&](ValueId sums, std::int64_t number) {
    return s.activated(0, b.add(s.part(s.gates, number), s.part(sums, number)));
  };
  ValueId z, fresh;
  if (s.layer.linear_before_reset) {
    const ValueId sums = product(b, s.state, s.recurrent);
    z = gate(sums, 0);
    ValueId inner = s.part(sums, 2);
    if (s.inner_bias != ValueId::none) inner = b.add(inner, s.inner_bias);
    fresh = b.add(s.part(s.gates, 2), b.multiply(gate(sums, 1), inner));
  } else {
    const ValueId sums = product(b, s.state, some_gates(0, 2));
    z = gate(sums, 0);
    fresh = b.add(s.part(s.gates, 2), product(b, b.multiply(gate(sums, 1), s.state), some_gates(2, 1)));
  }
  const ValueId h = s.activated(1, fresh);
  return {b.add(b.multiply(s.one_minus(z), h), b.multiply(z, s.state))};
}

States rnn_step(const Step& s) {
  return {s.activated(0, s.part(s.b.add(s.gates, product(s.b, s.state, s.recurrent)), 0))};
}

// Hands the values of a graph to a body, in the order in which the loop takes them.
struct Captures {
  Builder& outer;
  Graph& body;
  Values given;
  ValueId operator()(std::string_view name, ValueId id) {
    if (id == ValueId::none) return id;
    given.push_back(id);
    return body.add_input(std::string(name), outer.type(id));
  }
};

struct Run {
  ValueId all = ValueId::none;                          ///< [T, B, H], 0 behind the end of a sequence
  ValueId state = ValueId::none, cell = ValueId::none;  ///< [B, H] at the end of each sequence
};

Run run_direction(Builder& b, const Layer& layer, const Direction& direction) {
  const ValueId x = direction.backwards ? reversed(b, layer.x, layer.lengths) : layer.x;
  ValueId gates = product(b, x, direction.input);
  if (direction.bias != ValueId::none) gates = b.add(gates, direction.bias);
  if (!b.ok()) return {};
  Graph body = b.graph().child();
  Builder inside(body);
  const ValueId iteration = body.add_input("iteration", {DType::i64, {}});
  Step step{.b = inside, .layer = layer, .direction = direction};
  const bool has_cell = layer.kind == Kind::lstm;
  step.state = body.add_input("state", b.type(direction.state));
  if (has_cell) step.cell = body.add_input("cell", b.type(direction.cell));
  const Shape steps = b.shape(gates);
  step.gates = body.add_input("gates", {b.dtype(gates), Shape(steps.begin() + 1, steps.end())});
  Captures capture{b, body, {}};
  step.recurrent = {capture("recurrent", direction.recurrent.matrix),
                    capture("scale", direction.recurrent.scale),
                    capture("zero_point", direction.recurrent.zero_point)};
  step.inner_bias = capture("inner_bias", direction.inner_bias);
  step.peepholes = capture("peepholes", direction.peepholes);
  const ValueId lengths = capture("lengths", layer.lengths);
  States next = layer.kind == Kind::lstm  ? lstm_step(step)
                : layer.kind == Kind::gru ? gru_step(step)
                                          : rnn_step(step);
  ValueId shown = next.state;
  if (lengths != ValueId::none) {
    // A sequence that has ended keeps its state and shows 0.
    const ValueId running = inside.less(iteration, along_axis(inside, lengths, 0, 2));
    shown = inside.select(running, next.state, inside.scalar(inside.dtype(next.state), 0));
    next.state = inside.select(running, next.state, step.state);
    if (has_cell) next.cell = inside.select(running, next.cell, step.cell);
  }
  if (const auto status = inside.status(); !status) {
    b.fail_with(status.error());
    return {};
  }
  body.add_output("state", next.state);
  if (has_cell) body.add_output("cell", next.cell);
  body.add_output("all", shown);
  const Values carried = has_cell ? Values{direction.state, direction.cell} : Values{direction.state};
  const Values results =
      b.loop(ValueId::none, ValueId::none, carried, {gates}, capture.given, std::move(body));
  if (!b.ok()) return {};
  const ValueId all = results.back();
  return {direction.backwards ? reversed(b, all, layer.lengths) : all, results[0],
          has_cell ? results[1] : ValueId::none};
}

// The slices of the operands that belong to one direction.
struct Slices {
  Builder& b;
  std::int64_t direction;
  // [D, rest...] -> [rest...]
  ValueId of(ValueId id) const {
    if (id == ValueId::none || !b.ok()) return id;
    const Shape from = b.shape(id);
    if (from.empty()) return b.fail(ErrorCode::mismatch, "a scalar has no directions");
    Shape start(from.size(), Dim(0)), size = from;
    start[0] = direction;
    size[0] = 1;
    const ValueId one = b.slice(id, start, size, Ints(from.size(), 1));
    return b.reshape(one, Shape(from.begin() + 1, from.end()));
  }
  ValueId as_floats(ValueId id, DType dtype) const {
    return id == ValueId::none ? id : b.convert(of(id), dtype);
  }
};

// Wb and Rb stand behind each other. Both are added to the gates of the inputs, but for the part of Rb that a
// GRU with linear_before_reset multiplies with r.
void set_biases(Builder& b, const Layer& layer, ValueId both, Direction& direction) {
  if (both == ValueId::none || !b.ok()) return;
  const std::int64_t gates = gates_of(layer.kind);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return b.slice(both, {layer.hidden * Dim(first)}, {layer.hidden * Dim(count)}, {1});
  };
  if (layer.kind != Kind::gru || !layer.linear_before_reset) {
    direction.bias = b.add(part(0, gates), part(gates, gates));
    return;
  }
  direction.bias = b.concatenate({b.add(part(0, 2), part(3, 2)), part(2, 1)}, 0);
  direction.inner_bias = part(5, 1);
}

ValueId initial_state(Builder& b, const Layer& layer, const Slices& slices, ValueId given) {
  const DType dtype = b.dtype(layer.x);
  if (!b.ok()) return ValueId::none;
  const Shape shape = {b.shape(layer.x)[1], layer.hidden};
  return given == ValueId::none ? b.broadcast(b.scalar(dtype, 0), shape)
                                : b.broadcast(slices.as_floats(given, dtype), shape);
}

struct Operands {
  ValueId w, r, bias, lengths, state, cell, peepholes;
  // of 8-bit weights
  ValueId w_scale = ValueId::none, w_zero = ValueId::none, r_scale = ValueId::none, r_zero = ValueId::none;
};

Weights weights_of(Builder& b, const Slices& slices, ValueId matrix, ValueId scale, ValueId zero_point,
                   DType dtype) {
  if (scale == ValueId::none) return {slices.as_floats(matrix, dtype)};
  const ValueId zero = is_zero_constant(b, zero_point) ? ValueId::none : slices.of(zero_point);
  return {slices.of(matrix), slices.of(scale), zero};
}

// Y [T, D, B, H], Y_h [D, B, H] and, of an LSTM, Y_c; with the batch in front where layout says so.
Values joined(Builder& b, const std::vector<Run>& runs, bool batch_first) {
  const auto stack = [&](ValueId Run::* member, std::int64_t axis) {
    Values parts;
    for (const Run& run : runs) {
      if (!b.ok()) return ValueId::none;
      Shape shape = b.shape(run.*member);
      shape.insert(shape.begin() + axis, Dim(1));
      parts.push_back(b.reshape(run.*member, shape));
    }
    return b.ok() ? b.concatenate(parts, axis) : ValueId::none;
  };
  const auto placed = [&](ValueId id, const Ints& permutation) {
    return batch_first && b.ok() ? b.transpose(id, permutation) : id;
  };
  Values results = {placed(stack(&Run::all, 1), {2, 0, 1, 3}), placed(stack(&Run::state, 0), {1, 0, 2})};
  if (runs[0].cell != ValueId::none) results.push_back(placed(stack(&Run::cell, 0), {1, 0, 2}));
  return results;
}

// What is written below counts on the ranks of all operands, of which some are absent.
bool ranks_fit(Builder& b, ValueId x, const Operands& in) {
  struct Rank {
    std::string_view name;
    ValueId id;
    std::int64_t least, most;
  };
  const std::array ranks = {
      Rank{"X", x, 3, 3},
      Rank{"W", in.w, 3, 3},
      Rank{"R", in.r, 3, 3},
      Rank{"B", in.bias, 2, 2},
      Rank{"sequence_lens", in.lengths, 1, 1},
      Rank{"initial_h", in.state, 3, 3},
      Rank{"initial_c", in.cell, 3, 3},
      Rank{"P", in.peepholes, 2, 2},
      Rank{"W_scale", in.w_scale, 1, 2},
      Rank{"W_zero_point", in.w_zero, 1, 2},
      Rank{"R_scale", in.r_scale, 1, 2},
      Rank{"R_zero_point", in.r_zero, 1, 2},
  };
  for (const Rank& rank : ranks) {
    if (rank.id == ValueId::none) continue;
    const std::int64_t found = b.rank(rank.id);
    if (found >= rank.least && found <= rank.most) continue;
    b.fail(ErrorCode::mismatch, "{} {} needs {}{} axes", rank.name, text_of(b.type(rank.id)),
           rank.least == rank.most ? "" : fmt::format("{} or ", rank.least), rank.most);
    return false;
  }
  return true;
}

Values recurrent(Builder& b, const OpCall& call, Kind kind, Operands in) {
  const DType dtype = b.dtype(call.inputs[0]), computed = wide(dtype);
  const bool batch_first = call.attributes.get_or<std::int64_t>("layout", 0) != 0;
  if (!ranks_fit(b, call.inputs[0], in)) return {ValueId::none};
  Layer layer{.kind = kind,
              .clip = call.attributes.get_or("clip", 0.0),
              .input_forget = flag(call, "input_forget"),
              .linear_before_reset = flag(call, "linear_before_reset"),
              .x = b.convert(call.inputs[0], computed),
              .lengths = in.lengths == ValueId::none ? in.lengths : b.convert(in.lengths, DType::i64),
              .hidden = b.shape(in.r)[in.r_scale == ValueId::none ? 2 : 1]};
  if (batch_first) {
    layer.x = b.transpose(layer.x, {1, 0, 2});
    if (in.state != ValueId::none) in.state = b.transpose(in.state, {1, 0, 2});
    if (in.cell != ValueId::none) in.cell = b.transpose(in.cell, {1, 0, 2});
  }
  const std::string way = lower(call.attributes.get_or("direction", std::string("forward")));
  if (way != "forward" && way != "reverse" && way != "bidirectional")
    return {b.fail(ErrorCode::mismatch, "direction '{}' is none of forward, reverse, bidirectional", way)};
  const std::size_t directions = way == "bidirectional" ? 2 : 1;
  const auto activations = activations_of(b, call, kind, directions);
  if (!b.ok()) return {ValueId::none};
  const std::size_t each = kind == Kind::lstm ? 3 : kind == Kind::gru ? 2 : 1;
  std::vector<Run> runs;
  for (std::size_t d = 0; d < directions; ++d) {
    const Slices slices{b, static_cast<std::int64_t>(d)};
    Direction direction{.input = weights_of(b, slices, in.w, in.w_scale, in.w_zero, computed),
                        .recurrent = weights_of(b, slices, in.r, in.r_scale, in.r_zero, computed),
                        .peepholes = slices.as_floats(in.peepholes, computed),
                        .state = initial_state(b, layer, slices, in.state),
                        .activations = std::span(activations).subspan(d * each, each),
                        .backwards = d == 1 || way == "reverse"};
    if (kind == Kind::lstm) direction.cell = initial_state(b, layer, slices, in.cell);
    set_biases(b, layer, slices.as_floats(in.bias, computed), direction);
    if (!b.ok()) return {ValueId::none};
    runs.push_back(run_direction(b, layer, direction));
    if (!b.ok()) return {ValueId::none};
  }
  Values results = joined(b, runs, batch_first);
  for (ValueId& id : results) id = b.convert(id, dtype);
  return results;
}

template <Kind kind>
Values recurrent_op(Builder& b, const OpCall& call) {
  return recurrent(b, call, kind,
                   {.w = call.inputs[1],
                    .r = call.inputs[2],
                    .bias = operand(call, 3),
                    .lengths = operand(call, 4),
                    .state = operand(call, 5),
                    .cell = operand(call, 6),
                    .peepholes = operand(call, 7)});
}

Values dynamic_quantize_lstm(Builder& b, const OpCall& call) {
  for (std::size_t i = 8; i < 12; ++i) {
    if (operand(call, i) == ValueId::none)
      return {b.fail(ErrorCode::mismatch, "a scale or zero point (input {}) is missing", i)};
  }
  return recurrent(b, call, Kind::lstm,
                   {.w = call.inputs[1],
                    .r = call.inputs[2],
                    .bias = operand(call, 3),
                    .lengths = operand(call, 4),
                    .state = operand(call, 5),
                    .cell = operand(call, 6),
                    .peepholes = operand(call, 7),
                    .w_scale = call.inputs[8],
                    .w_zero = call.inputs[9],
                    .r_scale = call.inputs[10],
                    .r_zero = call.inputs[11]});
}

Result<void> recurrent_adapt(Builder&, ForeignNode& node) {
  node.attributes.erase("output_sequence");
  // The default of GRU-1 as its schema spells it.
  if (node.attributes.get_or("direction", std::string()) == "foward")
    node.attributes.set("direction", std::string("forward"));
  return {};
}

// X, W, R, B and so on of the sizes T 3, B 2, I 3, H 2.
std::vector<HostTensor> layer_inputs(DType t, std::int64_t gates, std::int64_t directions) {
  const auto x = [&](StaticShape shape, std::uint64_t seed) {
    return sample_tensor(t, std::move(shape), Fill::normal, seed);
  };
  return {x({3, 2, 3}, 1), x({directions, gates * 2, 3}, 2), x({directions, gates * 2, 2}, 3),
          x({directions, gates * 4}, 4)};
}

std::vector<Sample> recurrent_samples(DType t, std::int64_t gates) {
  const auto state = [&](std::int64_t directions, std::uint64_t seed) {
    return sample_tensor(t, {directions, 2, 2}, Fill::normal, seed);
  };
  std::vector<Sample> samples = {
      {"forward", layer_inputs(t, gates, 1), {}, {}},
      {"reverse, short",
       layer_inputs(t, gates, 1),
       {{"direction", std::string("reverse")}, {"clip", 1.5}},
       {}},
      {"bidirectional", layer_inputs(t, gates, 2), {{"direction", std::string("bidirectional")}}, {}}};
  samples[1].inputs.push_back(HostTensor::of<std::int32_t>({2}, {3, 1}));
  samples[1].inputs.push_back(state(1, 5));
  samples[2].inputs[0] = sample_tensor(t, {2, 3, 3}, Fill::normal);
  samples[2].attributes.set("layout", std::int64_t{1});
  return samples;
}

std::vector<Sample> lstm_samples(DType t) {
  auto samples = recurrent_samples(t, 4);
  samples[1].inputs.push_back(sample_tensor(t, {1, 2, 2}, Fill::normal, 6));
  samples[1].inputs.push_back(sample_tensor(t, {1, 6}, Fill::normal, 7));
  samples[0].attributes.set("input_forget", std::int64_t{1});
  return samples;
}

std::vector<Sample> gru_samples(DType t) {
  auto samples = recurrent_samples(t, 3);
  samples[1].attributes.set("linear_before_reset", std::int64_t{1});
  return samples;
}

std::vector<Sample> rnn_samples(DType t) {
  auto samples = recurrent_samples(t, 1);
  samples[0].attributes.set("activations", std::string("ScaledTanh"));
  samples[0].attributes.set("activation_alpha", Floats{1.5});
  samples[0].attributes.set("activation_beta", Floats{0.5});
  return samples;
}

std::vector<Sample> quantized_lstm_samples(DType t) {
  const auto x = [&](StaticShape shape, std::uint64_t seed) {
    return sample_tensor(t, std::move(shape), Fill::normal, seed);
  };
  const auto bytes = [](StaticShape shape) {
    return sample_tensor(DType::u8, std::move(shape), Fill::wide, 2);
  };
  return {
      {"one step",
       {x({1, 2, 3}, 1), bytes({1, 3, 8}), bytes({1, 2, 8}), x({1, 16}, 2),
        HostTensor::of<std::int32_t>({2}, {1, 1}), x({1, 2, 2}, 3), x({1, 2, 2}, 4), x({1, 6}, 5),
        HostTensor::of<float>({1}, {0.0002F}), bytes({1}), HostTensor::of<float>({1}, {0.0003F}), bytes({1})},
       {},
       {}}};
}

constexpr DTypeSet kBytes = static_cast<DTypeSet>(kI8 | kU8);

constexpr decltype(OpDef::attributes) attributes_with(AttributeDef own) {
  return {{"activation_alpha", AttributeKind::reals, "of the activation", "one each that has alpha"},
          {"activation_beta", AttributeKind::reals, "of the activation", "one each that has beta"},
          {"activations", AttributeKind::text, "the usual ones", "names with commas between them"},
          {"clip", AttributeKind::real, "0", "limit of what activations of gates see; 0: none"},
          {"direction", AttributeKind::text, "forward", "or reverse, bidirectional"},
          {"hidden_size", AttributeKind::integer, "from R", ""},
          {"layout", AttributeKind::integer, "0", "1: the batch comes first in X, Y and states"},
          own};
}

constexpr OpDef recurrent_record(std::string_view name, std::string_view doc, OnnxName onnx, AttributeDef own,
                                 Values (*decompose)(Builder&, const OpCall&),
                                 std::vector<Sample> (*samples)(DType), std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"X", "[T, B, I]", kFloating},
                     {"W", "[D, gates · H, I]", kFloating},
                     {"R", "[D, gates · H, H]", kFloating},
                     {"B", "[D, 2 · gates · H]", kFloating, "T", OperandMode::optional},
                     {"sequence_lens", "[B]", kI32, "length", OperandMode::optional},
                     {"initial_h", "[D, B, H]", kFloating, "T", OperandMode::optional}},
          .outputs = {{"Y", "[T, D, B, H]", kFloating}, {"Y_h", "[D, B, H]", kFloating}},
          .attributes = attributes_with(own),
          .decompose = decompose,
          .samples = samples,
          .onnx = onnx,
          .oracle = oracle};
}

constexpr OpDef lstm_record(std::string_view name, std::string_view doc, OnnxName onnx,
                            std::string_view oracle) {
  OpDef record =
      recurrent_record(name, doc, onnx, {"input_forget", AttributeKind::integer, "0", "1: f = 1 - i"},
                       recurrent_op<Kind::lstm>, lstm_samples, oracle);
  record.inputs = {{"X", "[T, B, I]", kFloating},
                   {"W", "[D, 4 · H, I]", kFloating},
                   {"R", "[D, 4 · H, H]", kFloating},
                   {"B", "[D, 8 · H]", kFloating, "T", OperandMode::optional},
                   {"sequence_lens", "[B]", kI32, "length", OperandMode::optional},
                   {"initial_h", "[D, B, H]", kFloating, "T", OperandMode::optional},
                   {"initial_c", "[D, B, H]", kFloating, "T", OperandMode::optional},
                   {"P", "[D, 3 · H]", kFloating, "T", OperandMode::optional}};
  record.outputs = {
      {"Y", "[T, D, B, H]", kFloating}, {"Y_h", "[D, B, H]", kFloating}, {"Y_c", "[D, B, H]", kFloating}};
  return record;
}

constexpr OpDef quantized_lstm_record(std::string_view name, std::string_view doc, OnnxName onnx,
                                      std::string_view oracle) {
  OpDef record = lstm_record(name, doc, onnx, oracle);
  record.decompose = dynamic_quantize_lstm;
  record.samples = quantized_lstm_samples;
  record.inputs = {{"X", "[T, B, I]", kF32},
                   {"W", "[D, I, 4 · H]", kBytes, "Q"},
                   {"R", "[D, H, 4 · H]", kBytes, "Q"},
                   {"B", "[D, 8 · H]", kF32, "T", OperandMode::optional},
                   {"sequence_lens", "[B]", kI32, "length", OperandMode::optional},
                   {"initial_h", "[D, B, H]", kF32, "T", OperandMode::optional},
                   {"initial_c", "[D, B, H]", kF32, "T", OperandMode::optional},
                   {"P", "[D, 3 · H]", kF32, "T", OperandMode::optional},
                   {"W_scale", "[D] or [D, 4 · H], required", kF32, "T", OperandMode::optional},
                   {"W_zero_point", "like W_scale, required", kBytes, "Q", OperandMode::optional},
                   {"R_scale", "[D] or [D, 4 · H], required", kF32, "T", OperandMode::optional},
                   {"R_zero_point", "like R_scale, required", kBytes, "Q", OperandMode::optional}};
  return record;
}

constexpr std::array kOps = {
    lstm_record("lstm",
                "Long short-term memory (Hochreiter, Schmidhuber 1997) with gates i, o, f, c: C = f · C + i "
                "· g(c), H "
                "= o · h(C).",
                {"LSTM", {1, 7, 14, 22}, recurrent_adapt}, "onnx-node:test_lstm_"),
    recurrent_record("gru",
                     "Gated recurrent unit (Cho et al. 2014) with gates z, r, h: H = (1 - z) · g(h) + z · H.",
                     {"GRU", {1, 3, 7, 14, 22}, recurrent_adapt},
                     {"linear_before_reset", AttributeKind::integer, "0", "1: r after the product with R"},
                     recurrent_op<Kind::gru>, gru_samples, "onnx-node:test_gru_"),
    recurrent_record("rnn", "H = f(X · W^T + H · R^T + biases).", {"RNN", {1, 7, 14, 22}, recurrent_adapt},
                     {"output_sequence", AttributeKind::integer, "0", "of version 1; not used"},
                     recurrent_op<Kind::rnn>, rnn_samples, "onnx-node:test_simple_rnn_"),
    quantized_lstm_record(
        "dynamic_quantize_lstm",
        "lstm with 8-bit weights; inputs and states are quantised by dynamic_quantize_linear "
        "before each product.",
        {"com.microsoft.DynamicQuantizeLSTM", {1}, recurrent_adapt}, "file:contrib.py"),
};

}  // namespace

std::span<const OpDef> recurrent_ops() { return kOps; }

}  // namespace diji
