// Layers that carry a small state along a sequence: linear attention and the causal convolution before it.
#include "ops/attention.h"
#include "ops/families.h"
#include "ops/numerics.h"
#include "ops/samples.h"

#include <array>

namespace diji {
namespace {

struct Heads {
  std::int64_t queries, keys;  ///< keys divides queries
};

// [B, T, heads · D] -> [T, B, heads, D] in f32 at least.
ValueId steps_of(Builder& b, ValueId x, std::int64_t heads) {
  const ValueId split = split_heads(b, b.convert(x, wide(b.dtype(x))), heads);
  return b.ok() ? b.transpose(split, {1, 0, 2, 3}) : ValueId::none;
}

struct Rule {
  bool gated = false, delta = false;
};

std::optional<Rule> rule_of(Builder& b, const OpCall& call) {
  const std::string name = call.attributes.get_or("update_rule", std::string("gated_delta"));
  if (name == "linear") return Rule{};
  if (name == "gated") return Rule{.gated = true};
  if (name == "delta") return Rule{.delta = true};
  if (name == "gated_delta") return Rule{.gated = true, .delta = true};
  b.fail(ErrorCode::mismatch, "update_rule '{}' is none of linear, gated, delta, gated_delta", name);
  return std::nullopt;
}

// Decay [T, B, H, D or 1] from one for each element of a key, or for each head.
ValueId decay_steps(Builder& b, ValueId decay, ValueId keys, std::int64_t heads) {
  if (!b.ok()) return ValueId::none;
  const bool per_head = b.shape(decay).back().is(heads) && !b.shape(keys)[3].is(1);
  if (!per_head) return steps_of(b, decay, heads);
  Shape shape = b.shape(decay);
  shape.emplace_back(1);
  return b.transpose(b.reshape(b.convert(decay, b.dtype(keys)), shape), {1, 0, 2, 3});
}

struct Streams {
  ValueId q, k, v, decay = ValueId::none, beta = ValueId::none;  ///< all [T, B, H, ...]
};

// S = e^g · S + k ⊗ u with u = v, or beta · (v - S^T k); the result is q^T S.
Graph linear_attention_step(Builder& b, const Streams& in, const Type& state_type) {
  Graph body = b.graph().child();
  Builder inside(body);
  body.add_input("iteration", {DType::i64, {}});
  ValueId state = body.add_input("state", state_type);
  const auto slice = [&](std::string_view name, ValueId id) {
    if (id == ValueId::none) return id;
    const Type& type = b.type(id);
    return body.add_input(std::string(name), {type.dtype, Shape(type.shape.begin() + 1, type.shape.end())});
  };
  const ValueId q = slice("q", in.q), k = slice("k", in.k), v = slice("v", in.v);
  const ValueId decay = slice("decay", in.decay), beta = slice("beta", in.beta);
  const auto with_axis = [&](ValueId id, std::int64_t axis) {
    if (!inside.ok()) return ValueId::none;
    Shape shape = inside.shape(id);
    shape.insert(shape.begin() + axis, Dim(1));
    return inside.reshape(id, shape);
  };
  if (decay != ValueId::none) state = inside.multiply(inside.exp(with_axis(decay, 3)), state);
  ValueId update = v;
  if (beta != ValueId::none) {
    const ValueId recalled = inside.dot_general(
        k, state, {.lhs_batch = {0, 1}, .rhs_batch = {0, 1}, .lhs_contracting = {2}, .rhs_contracting = {2}});
    update = inside.multiply(beta, inside.subtract(v, recalled));
  }
  state = inside.add(state, inside.multiply(with_axis(k, 3), with_axis(update, 2)));
  const ValueId y = inside.dot_general(
      q, state, {.lhs_batch = {0, 1}, .rhs_batch = {0, 1}, .lhs_contracting = {3}, .rhs_contracting = {2}});
  if (const auto status = inside.status(); !status) b.fail_with(status.error());
  body.add_output("state", state);
  body.add_output("y", y);
  return body;
}

Values linear_attention(Builder& b, const OpCall& call) {
  const Heads heads{call.attributes.get_or<std::int64_t>("q_num_heads", 0),
                    call.attributes.get_or<std::int64_t>("kv_num_heads", 0)};
  const auto rule = rule_of(b, call);
  if (!rule || heads.keys < 1 || heads.queries < 1 || heads.queries % heads.keys != 0)
    return {b.fail(ErrorCode::mismatch, "{} heads of queries, {} of keys", heads.queries, heads.keys)};
  const ValueId past = operand(call, 3), decay = operand(call, 4), beta = operand(call, 5);
  if ((rule->gated && decay == ValueId::none) || (rule->delta && beta == ValueId::none))
    return {b.fail(ErrorCode::mismatch, "the update rule needs decay or beta, which is missing")};
  if (rule->delta && b.rank(beta) != 3)
    return {b.fail(ErrorCode::mismatch, "beta {} needs 3 axes", text_of(b.type(beta)))};
  Streams in{steps_of(b, call.inputs[0], heads.queries), steps_of(b, call.inputs[1], heads.keys),
             steps_of(b, call.inputs[2], heads.keys)};
  if (rule->gated) in.decay = decay_steps(b, decay, in.k, heads.keys);
  if (rule->delta) in.beta = steps_of(b, beta, b.shape(beta).back().is(1) ? 1 : heads.keys);
  if (!b.ok()) return {ValueId::none};
  const DType dtype = b.dtype(call.inputs[0]), computed = b.dtype(in.q);
  const Shape q = b.shape(in.q), k = b.shape(in.k), v = b.shape(in.v);
  const double given = call.attributes.get_or("scale", 0.0);
  const ValueId scale = given != 0 ? b.scalar(computed, given)
                                   : b.divide(b.scalar(computed, 1), b.sqrt(size_scalar(b, q[3], computed)));
  const std::int64_t group = heads.queries / heads.keys;
  in.q = b.reshape(b.multiply(in.q, scale), {q[0], q[1], heads.keys, group, q[3]});
  const Shape state = {k[1], heads.keys, k[3], v[3]};
  const ValueId first = past == ValueId::none ? b.broadcast(b.scalar(computed, 0), state)
                                              : b.broadcast(b.convert(past, computed), state);
  Values scanned = {in.q, in.k, in.v};
  for (const ValueId id : {in.decay, in.beta}) {
    if (id != ValueId::none) scanned.push_back(id);
  }
  if (!b.ok()) return {ValueId::none};
  Graph body = linear_attention_step(b, in, b.type(first));
  const Values results = b.loop(ValueId::none, ValueId::none, {first}, scanned, {}, std::move(body));
  if (!b.ok()) return {ValueId::none};
  // [T, B, G, H / G, E] -> [B, T, H · E]
  const ValueId y =
      b.reshape(b.transpose(results[1], {1, 0, 2, 3, 4}), {q[1], q[0], Dim(heads.queries) * v[3]});
  return {b.convert(y, dtype), b.convert(results[0], past == ValueId::none ? dtype : b.dtype(past))};
}

Values causal_conv_with_state(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0], w = call.inputs[1], bias = operand(call, 2), past = operand(call, 3);
  if (b.rank(x) != 3 || b.rank(w) != 3)
    return {b.fail(ErrorCode::mismatch, "x {} and w {} need 3 axes", text_of(b.type(x)), text_of(b.type(w)))};
  const Shape from = b.shape(x), kernel = b.shape(w);
  const auto channels = kernel[0].constant();
  if (!channels || *channels < 1)
    return {b.fail(ErrorCode::unsupported, "the channels of w {} must be a number", text_of(b.type(w)))};
  const Shape carried = {from[0], from[1], kernel[2] - 1};
  const ValueId before =
      past == ValueId::none ? b.broadcast(b.scalar(b.dtype(x), 0), carried) : b.broadcast(past, carried);
  const ValueId all = b.concatenate({before, x}, 2);
  ValueId y = b.convolution(
      all, w, {.strides = {1}, .dilations = {1}, .pads_low = {0}, .pads_high = {0}, .groups = *channels});
  if (bias != ValueId::none) y = b.add(y, along_axis(b, bias, 1, 3));
  const std::string activation = call.attributes.get_or("activation", std::string("none"));
  if (activation != "none" && activation != "silu" && activation != "swish")
    return {b.fail(ErrorCode::mismatch, "activation '{}' is none of none, silu, swish", activation)};
  if (activation != "none") y = b.convert(apply(b, "swish", b.convert(y, wide(b.dtype(x)))), b.dtype(x));
  return {y, b.slice(all, {0, 0, from[2]}, carried, {1, 1, 1})};
}

std::vector<Sample> linear_attention_samples(DType t) {
  const auto x = [&](StaticShape shape, std::uint64_t seed) {
    return sample_tensor(t, std::move(shape), Fill::normal, seed);
  };
  const auto attributes = [](std::string rule) {
    return Attributes{{"q_num_heads", std::int64_t{4}},
                      {"kv_num_heads", std::int64_t{2}},
                      {"update_rule", std::move(rule)}};
  };
  return {{"linear", {x({2, 3, 12}, 1), x({2, 3, 6}, 2), x({2, 3, 4}, 3)}, attributes("linear"), {}},
          {"gated, delta",
           {x({1, 3, 12}, 1), x({1, 3, 6}, 2), x({1, 3, 4}, 3), x({1, 2, 3, 2}, 4), x({1, 3, 6}, 5),
            x({1, 3, 1}, 6)},
           attributes("gated_delta"),
           {}},
          {"gated a head",
           {x({1, 2, 12}, 1), x({1, 2, 6}, 2), x({1, 2, 4}, 3), x({1, 2, 3, 2}, 4), x({1, 2, 2}, 5)},
           attributes("gated"),
           {}}};
}

std::vector<Sample> causal_conv_samples(DType t) {
  const auto x = [&](StaticShape shape, std::uint64_t seed) {
    return sample_tensor(t, std::move(shape), Fill::normal, seed);
  };
  return {{"no past", {x({2, 3, 9}, 1), x({3, 1, 4}, 2)}, {}, {}},
          {"one step",
           {x({1, 3, 1}, 1), x({3, 1, 3}, 2), x({3}, 3), x({1, 3, 2}, 4)},
           {{"activation", std::string("silu")}},
           {}}};
}

constexpr std::array kOps = {
    OpDef{.name = "linear_attention",
          .doc = "A state S for each head of keys: S = e^decay · S + k ⊗ u with u = v, or u = beta · (v - "
                 "S^T k) of "
                 "the delta rules (Yang et al. 2024); the result is scale · q^T S.",
          .inputs = {{"query", "[B, T, H · D]", kFloating},
                     {"key", "[B, T, G · D]", kFloating},
                     {"value", "[B, T, G · E]", kFloating},
                     {"past_state", "[B, G, D, E]", kFloating, "S", OperandMode::optional},
                     {"decay", "[B, T, G · D] or [B, T, G]", kFloating, "T", OperandMode::optional},
                     {"beta", "[B, T, G] or [B, T, 1]", kFloating, "T", OperandMode::optional}},
          .outputs = {{"output", "[B, T, H · E]", kFloating},
                      {"present_state", "[B, G, D, E]", kFloating, "S"}},
          .attributes = {{"chunk_size", AttributeKind::integer, "64", "a hint"},
                         {"kv_num_heads", AttributeKind::integer, "", "G"},
                         {"q_num_heads", AttributeKind::integer, "", "H"},
                         {"scale", AttributeKind::real, "1 / sqrt(D)", ""},
                         {"update_rule", AttributeKind::text, "gated_delta", "or linear, gated, delta"}},
          .decompose = linear_attention,
          .samples = linear_attention_samples,
          .onnx = {"LinearAttention", {27}},
          .oracle = "onnx-node:test_linear_attention_"},
    OpDef{
        .name = "causal_conv_with_state",
        .doc =
            "Each channel's own convolution that sees no later element; what the next call needs of the past "
            "is a result too.",
        .inputs = {{"input", "[B, C, L]", kFloating},
                   {"weight", "[C, 1, K]", kFloating},
                   {"bias", "[C]", kFloating, "T", OperandMode::optional},
                   {"past_state", "[B, C, K - 1]", kFloating, "T", OperandMode::optional}},
        .outputs = {{"output", "like input", kFloating}, {"present_state", "[B, C, K - 1]", kFloating}},
        .attributes = {{"activation", AttributeKind::text, "none", "or silu, swish"}},
        .decompose = causal_conv_with_state,
        .samples = causal_conv_samples,
        .onnx = {"CausalConvWithState", {27}},
        .oracle = "onnx-node:test_causal_conv_with_state_"},
};

}  // namespace

std::span<const OpDef> state_space_ops() { return kOps; }

}  // namespace diji
