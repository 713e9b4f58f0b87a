// Attention: scaled dot products of queries and keys, softmax over the keys one may see, sums of values.
#include "ops/attention.h"

#include "ops/families.h"
#include "ops/numerics.h"
#include "ops/samples.h"

#include <array>
#include <cmath>

namespace diji {

ValueId split_heads(Builder& b, ValueId x, std::int64_t heads) {
  if (!b.ok()) return ValueId::none;
  if (b.rank(x) != 3 || heads < 1)
    return b.fail(ErrorCode::mismatch, "{} does not fall into {} heads", text_of(b.type(x)), heads);
  const Shape from = b.shape(x);
  return b.reshape(x, {from[0], from[1], heads, floor_div(from[2], heads)});
}

namespace {

// [B, H, L, N] -> [B, groups, H / groups · L, N]: the heads that share a key stand one below the other.
ValueId stack_groups(Builder& b, ValueId x, const Dim& groups) {
  const Shape from = b.shape(x);
  if (from[1] == groups) return x;
  return b.reshape(x, {from[0], groups, floor_div(from[1], groups) * from[2], from[3]});
}

}  // namespace

ValueId scores_of(Builder& b, ValueId q, ValueId k) {
  if (!b.ok()) return ValueId::none;
  const Shape from = b.shape(q), keys = b.shape(k);
  const ValueId stacked = b.dot_general(
      stack_groups(b, q, keys[1]), k,
      {.lhs_batch = {0, 1}, .rhs_batch = {0, 1}, .lhs_contracting = {3}, .rhs_contracting = {3}});
  return b.reshape(stacked, {from[0], from[1], from[2], keys[2]});
}

ValueId weighted_values(Builder& b, ValueId p, ValueId v) {
  if (!b.ok()) return ValueId::none;
  const Shape from = b.shape(p), values = b.shape(v);
  const ValueId stacked = b.dot_general(
      stack_groups(b, p, values[1]), v,
      {.lhs_batch = {0, 1}, .rhs_batch = {0, 1}, .lhs_contracting = {3}, .rhs_contracting = {2}});
  return b.reshape(stacked, {from[0], from[1], from[2], values[3]});
}

ValueId visible_keys(Builder& b, const Sight& sight, const Dim& queries, const Dim& keys) {
  ValueId visible = sight.allowed;
  const auto limit = [&](ValueId condition) {
    visible = visible == ValueId::none ? condition : b.logical_and(visible, condition);
  };
  if (!sight.causal && sight.left < 0 && sight.right < 0) return visible;
  const ValueId key = b.iota({1, keys}, 1);
  ValueId position = b.iota({queries, 1}, 0);
  if (sight.offset != ValueId::none) position = b.add(position, sight.offset);
  const auto number = [&](std::int64_t n) { return b.scalar(DType::i64, static_cast<double>(n)); };
  if (sight.causal) limit(b.less(key, b.add(position, number(1))));
  if (sight.left >= 0) limit(b.less(position, b.add(key, number(sight.left + 1))));
  if (sight.right >= 0) limit(b.less(key, b.add(position, number(sight.right + 1))));
  return visible;
}

ValueId hide(Builder& b, ValueId x, ValueId visible) {
  return visible == ValueId::none ? x : b.select(visible, x, b.scalar(b.dtype(x), -HUGE_VAL));
}

ValueId attention_softmax(Builder& b, ValueId scores, ValueId sink) {
  const DType dtype = b.dtype(scores);
  const Ints last = {b.rank(scores) - 1};
  const ValueId zero = b.scalar(dtype, 0), nothing = b.scalar(dtype, -HUGE_VAL);
  ValueId largest = b.reduce_keeping(scores, Reduction::max, last);
  if (sink != ValueId::none) largest = b.maximum(largest, sink);
  const ValueId base = b.select(b.equal(largest, nothing), zero, largest);
  const ValueId powers = b.exp(b.subtract(scores, base));
  ValueId sum = b.reduce_keeping(powers, Reduction::sum, last);
  if (sink != ValueId::none) sum = b.add(sum, b.exp(b.subtract(sink, base)));
  return b.divide(powers, b.select(b.equal(sum, zero), b.scalar(dtype, 1), sum));
}

ValueId rotate(Builder& b, ValueId x, const Rotation& rotation) {
  if (!b.ok()) return ValueId::none;
  const Shape from = b.shape(x);
  if (from.size() != 4 || b.rank(rotation.cos) != 3 || b.rank(rotation.sin) != 3) {
    return b.fail(ErrorCode::mismatch,
                  "x {} has neither 3 nor 4 axes, or cos {} and sin {} have no row for each position",
                  text_of(b.type(x)), text_of(b.type(rotation.cos)), text_of(b.type(rotation.sin)));
  }
  const DType dtype = b.dtype(x), in = wide(dtype);
  const Dim turned = rotation.dims == 0 ? from[3] : Dim(rotation.dims);
  const Dim half = floor_div(turned, 2);
  const bool whole = turned == from[3];
  const Shape zeros(4, Dim(0));
  const ValueId part = whole ? x : b.slice(x, zeros, {from[0], from[1], from[2], turned}, {1, 1, 1, 1});
  Shape paired = {from[0], from[1], from[2], 2, half};
  if (rotation.interleaved) std::swap(paired[3], paired[4]);
  const std::size_t pair = rotation.interleaved ? 4 : 3;
  const ValueId pairs = b.reshape(b.convert(part, in), paired);
  // The other one of each pair: the axis of two, backwards.
  Shape start(5, Dim(0));
  start[pair] = 1;
  Ints step(5, 1);
  step[pair] = -1;
  const ValueId other = b.slice(pairs, start, paired, step);
  Shape two(5, Dim(1));
  two[pair] = 2;
  const ValueId side = b.iota(two, static_cast<std::int64_t>(pair), in);
  const ValueId sign = b.subtract(b.add(side, side), b.scalar(in, 1));
  const auto angle = [&](ValueId table) {
    if (!b.ok()) return ValueId::none;
    Shape shape = b.shape(table);
    shape.insert(shape.begin() + rotation.heads_axis, Dim(1));
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(pair), Dim(1));
    return b.reshape(b.convert(table, in), shape);
  };
  const ValueId turned_pairs =
      b.add(b.multiply(pairs, angle(rotation.cos)), b.multiply(sign, b.multiply(other, angle(rotation.sin))));
  const ValueId y = b.convert(b.reshape(turned_pairs, {from[0], from[1], from[2], turned}), dtype);
  if (whole) return y;
  const ValueId rest =
      b.slice(x, {0, 0, 0, turned}, {from[0], from[1], from[2], from[3] - turned}, {1, 1, 1, 1});
  return b.concatenate({y, rest}, 3);
}

namespace {

std::int64_t integer(const OpCall& call, std::string_view name, std::int64_t otherwise) {
  return call.attributes.get_or<std::int64_t>(name, otherwise);
}

ValueId heads_first(Builder& b, ValueId x) { return b.transpose(x, {0, 2, 1, 3}); }

// [B, H, L, D] -> [B, L, H · D]
ValueId join_heads(Builder& b, ValueId x) {
  if (!b.ok()) return ValueId::none;
  const Shape from = b.shape(x);
  return b.reshape(heads_first(b, x), {from[0], from[2], from[1] * from[3]});
}

// A mask that ends before the last key lets none of the others be seen.
struct Mask {
  ValueId added = ValueId::none;    ///< floats to add to the scores
  ValueId allowed = ValueId::none;  ///< bool
};

Mask read_mask(Builder& b, ValueId mask, const Dim& keys, DType dtype) {
  if (mask == ValueId::none || !b.ok()) return {};
  Shape shape = b.shape(mask);
  if (shape.empty()) return {.added = b.fail(ErrorCode::mismatch, "attn_mask is a scalar")};
  Mask result;
  if (const Dim size = shape.back(); !(size == keys)) {
    b.graph().require(
        {Constraint::Kind::less_equal, size, keys, "attention: attn_mask is as long as the keys"});
    shape.back() = keys;
    Values indices;
    for (std::int64_t axis = 0; axis < std::ssize(shape); ++axis) indices.push_back(b.iota(shape, axis));
    mask = b.gather(mask, indices, true);
    result.allowed = b.less(b.iota({keys}, 0), size_scalar(b, size, DType::i64));
  }
  const ValueId inside = result.allowed;
  if (b.dtype(mask) == DType::boolean) return {.allowed = mask};
  result.added = b.convert(mask, dtype);
  // A key masked by -inf is hidden rather than added to: +inf - inf would be NaN.
  const ValueId open = b.logical_not(b.equal(result.added, b.scalar(dtype, -HUGE_VAL)));
  result.allowed = inside == ValueId::none ? open : b.logical_and(inside, open);
  return result;
}

// softcap · tanh(x / softcap)
ValueId capped(Builder& b, ValueId scores, double softcap) {
  if (!(softcap > 0)) return scores;
  const ValueId cap = b.scalar(b.dtype(scores), softcap);
  return b.multiply(cap, b.tanh(b.divide(scores, cap)));
}

ValueId scaled_queries(Builder& b, ValueId q, std::optional<double> scale) {
  if (!b.ok()) return ValueId::none;
  const DType dtype = b.dtype(q);
  if (scale) return b.multiply(q, b.scalar(dtype, *scale));
  const ValueId size = size_scalar(b, b.shape(q)[3], wide(dtype));
  return b.multiply(q, b.convert(b.divide(b.scalar(wide(dtype), 1), b.sqrt(size)), dtype));
}

// Position of the first query among the keys: behind the past, or so that the last query meets the last key.
ValueId query_offset(Builder& b, ValueId past, ValueId lengths, const Dim& queries) {
  if (past != ValueId::none) return size_scalar(b, b.shape(past)[2], DType::i64);
  if (lengths == ValueId::none) return ValueId::none;
  return b.subtract(lengths, size_scalar(b, queries, DType::i64));
}

struct Operands {
  ValueId q, k, v, lengths;
};

Operands attention_operands(Builder& b, const OpCall& call) {
  Operands in{call.inputs[0], call.inputs[1], call.inputs[2], operand(call, 6)};
  const bool flat = b.rank(in.q) == 3;
  if (b.rank(in.k) != b.rank(in.q) || b.rank(in.v) != b.rank(in.q) || (!flat && b.rank(in.q) != 4)) {
    b.fail(ErrorCode::mismatch, "Q {}, K {} and V {} must all have 3 or all 4 axes", text_of(b.type(in.q)),
           text_of(b.type(in.k)), text_of(b.type(in.v)));
    return in;
  }
  if (flat) {
    in.q = heads_first(b, split_heads(b, in.q, integer(call, "q_num_heads", 0)));
    in.k = heads_first(b, split_heads(b, in.k, integer(call, "kv_num_heads", 0)));
    in.v = heads_first(b, split_heads(b, in.v, integer(call, "kv_num_heads", 0)));
  }
  const ValueId past_k = operand(call, 4), past_v = operand(call, 5);
  if ((past_k == ValueId::none) != (past_v == ValueId::none))
    b.fail(ErrorCode::mismatch, "past_key and past_value come together");
  if (past_k != ValueId::none && b.ok()) {
    in.k = b.concatenate({past_k, in.k}, 2);
    in.v = b.concatenate({past_v, in.v}, 2);
  }
  if (in.lengths != ValueId::none && b.ok()) in.lengths = along_axis(b, in.lengths, 0, 4);
  return in;
}

Values attention(Builder& b, const OpCall& call) {
  const Operands in = attention_operands(b, call);
  if (!b.ok()) return {ValueId::none};
  const DType dtype = b.dtype(in.q);
  const DType soft = wide(call.attributes.get_or("softmax_precision", dtype));
  const Dim queries = b.shape(in.q)[2], keys = b.shape(in.k)[2];
  const double* scale = call.attributes.get<double>("scale");
  const ValueId raw =
      scores_of(b, scaled_queries(b, in.q, scale == nullptr ? std::nullopt : std::optional(*scale)), in.k);
  const ValueId cap = capped(b, b.convert(raw, soft), call.attributes.get_or("softcap", 0.0));
  const Mask mask = read_mask(b, operand(call, 3), keys, soft);
  Sight sight{.offset = query_offset(b, operand(call, 4), in.lengths, queries),
              .allowed = mask.allowed,
              .causal = integer(call, "is_causal", 0) != 0,
              .left = integer(call, "left_window_size", -1),
              .right = integer(call, "right_window_size", -1)};
  if (in.lengths != ValueId::none) {
    const ValueId real = b.less(b.iota({keys}, 0), in.lengths);
    sight.allowed = sight.allowed == ValueId::none ? real : b.logical_and(sight.allowed, real);
  }
  const ValueId sum = mask.added == ValueId::none ? cap : b.add(cap, mask.added);
  const ValueId biased = hide(b, sum, visible_keys(b, sight, queries, keys));
  const ValueId weights = b.convert(attention_softmax(b, biased, ValueId::none), dtype);
  const ValueId y = weighted_values(b, weights, b.convert(in.v, dtype));
  const std::array stages = {raw, cap, biased, weights};
  const std::int64_t mode = integer(call, "qk_matmul_output_mode", 0);
  if (mode < 0 || mode >= std::ssize(stages))
    return {b.fail(ErrorCode::mismatch, "qk_matmul_output_mode {} is none of 0 … 3", mode)};
  return {b.rank(call.inputs[0]) == 3 ? join_heads(b, y) : y, in.k, in.v,
          b.convert(stages[static_cast<std::size_t>(mode)], dtype)};
}

// Rows of a table by position; without positions the table has them already.
ValueId rows_at(Builder& b, ValueId table, ValueId positions) {
  return positions == ValueId::none ? table : b.take(table, positions, 0);
}

Values rotary_embedding(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0], positions = operand(call, 3);
  const bool flat = b.rank(x) == 3;
  if (!flat && b.rank(x) != 4)
    return {b.fail(ErrorCode::mismatch, "x {} has neither 3 nor 4 axes", text_of(b.type(x)))};
  const ValueId heads = flat ? split_heads(b, x, integer(call, "num_heads", 0)) : x;
  const Rotation rotation{.cos = rows_at(b, call.inputs[1], positions),
                          .sin = rows_at(b, call.inputs[2], positions),
                          .interleaved = integer(call, "interleaved", 0) != 0,
                          .dims = integer(call, "rotary_embedding_dim", 0),
                          .heads_axis = flat ? 2 : 1};
  return {b.reshape(rotate(b, heads, rotation), b.shape(x))};
}

// ONNX Runtime's form: positions stand second, and one of them means "from there on".
Values contrib_rotary_embedding(Builder& b, const OpCall& call) {
  const ValueId x = call.inputs[0];
  ValueId positions = call.inputs[1];
  const bool flat = b.rank(x) == 3;
  std::int64_t heads = integer(call, "num_heads", 0);
  const std::int64_t dims = integer(call, "rotary_embedding_dim", 0);
  if (integer(call, "is_packed_batching", 0) != 0)
    return {b.fail(ErrorCode::unsupported, "is_packed_batching is not built yet")};
  if ((!flat && b.rank(x) != 4) || b.rank(call.inputs[2]) != 2) {
    return {b.fail(ErrorCode::mismatch, "x {} has neither 3 nor 4 axes, or cos_cache {} has not 2",
                   text_of(b.type(x)), text_of(b.type(call.inputs[2])))};
  }
  if (b.rank(positions) == 1) {
    const ValueId steps = b.iota({1, b.shape(x)[flat ? 1 : 2]}, 1);
    positions = b.add(steps, b.reshape(positions, {}));
  }
  ValueId in = x;
  if (flat && heads == 0 && dims == 0) {
    // The table tells the size of a head.
    const Dim size = b.shape(call.inputs[2])[1] * Dim(2), width = b.shape(x)[2];
    in = b.reshape(x, {b.shape(x)[0], b.shape(x)[1], floor_div(width, size), size});
  } else if (flat) {
    in = split_heads(b, x, heads);
  }
  const double scale = call.attributes.get_or("scale", 1.0);
  ValueId y = rotate(b, in,
                     {.cos = rows_at(b, call.inputs[2], positions),
                      .sin = rows_at(b, call.inputs[3], positions),
                      .interleaved = integer(call, "interleaved", 0) != 0,
                      .dims = dims,
                      .heads_axis = flat ? 2 : 1});
  if (scale != 1.0) y = b.multiply(y, b.scalar(b.dtype(y), scale));
  return {b.reshape(y, b.shape(x))};
}

// What group_query_attention knows of its cache, all of it i64.
struct Cache {
  Dim length;    ///< of present_key
  ValueId past;  ///< [B, 1, 1, 1]: valid keys before the new ones
};

// The new rows (x [B, L, G, D]) behind what is valid of the past, and zeros behind them: [B, G, length, D].
ValueId updated_cache(Builder& b, ValueId past, ValueId x, const Cache& cache) {
  if (!b.ok()) return ValueId::none;
  const Shape from = b.shape(x), to = {from[0], from[2], cache.length, from[3]};
  const ValueId row = b.iota(to, 2), place = b.subtract(row, cache.past);
  const ValueId batch = b.iota(to, 0), head = b.iota(to, 1), element = b.iota(to, 3);
  const ValueId fresh = b.gather(x, {batch, place, head, element}, true);
  if (past == ValueId::none) return fresh;
  // Behind the new rows both are 0.
  return b.select(b.less(row, cache.past), b.gather(past, {batch, head, row, element}, true), fresh);
}

struct GroupedInputs {
  ValueId q, k, v;  ///< [B, L, H or G, D]
};

// Separate, or q, k and v behind each other in the last axis.
GroupedInputs grouped_inputs(Builder& b, const OpCall& call) {
  const std::int64_t heads = integer(call, "num_heads", 0), groups = integer(call, "kv_num_heads", 0);
  const ValueId q = call.inputs[0], k = operand(call, 1), v = operand(call, 2);
  if (heads < 1 || groups < 1 || heads % groups != 0) {
    b.fail(ErrorCode::mismatch, "num_heads {} is no multiple of kv_num_heads {}", heads, groups);
    return {};
  }
  if (k != ValueId::none && v != ValueId::none)
    return {split_heads(b, q, heads), split_heads(b, k, groups), split_heads(b, v, groups)};
  const ValueId all = split_heads(b, q, heads + 2 * groups);
  if (!b.ok()) return {};
  const Shape from = b.shape(all);
  const auto part = [&](std::int64_t first, std::int64_t count) {
    return b.slice(all, {0, 0, first, 0}, {from[0], from[1], count, from[3]}, {1, 1, 1, 1});
  };
  return {part(0, heads), part(heads, groups), part(heads + groups, groups)};
}

void refuse_what_is_not_built(Builder& b, const OpCall& call) {
  for (const std::string_view name : {"k_quant_type", "v_quant_type"}) {
    if (call.attributes.get_or(name, std::string("NONE")) != "NONE")
      b.fail(ErrorCode::unsupported, "a quantised cache ({}) is not built yet", name);
  }
  if (integer(call, "qk_output", 0) != 0) b.fail(ErrorCode::unsupported, "qk_output is not built yet");
}

Rotation cache_rotation(Builder& b, const OpCall& call, ValueId past, const Dim& queries) {
  ValueId positions = operand(call, 9);
  if (positions == ValueId::none && b.ok()) {
    const Shape batch = {b.shape(past)[0], 1};
    positions = b.add(b.reshape(past, batch), b.iota({1, queries}, 1));
  }
  return {.cos = rows_at(b, call.inputs[7], positions),
          .sin = rows_at(b, call.inputs[8], positions),
          .interleaved = integer(call, "rotary_interleaved", 0) != 0,
          .dims = 0,
          .heads_axis = 2};
}

Values group_query_attention(Builder& b, const OpCall& call) {
  refuse_what_is_not_built(b, call);
  GroupedInputs in = grouped_inputs(b, call);
  const auto total = operand(call, 6) == ValueId::none ? std::nullopt : b.contents(operand(call, 6));
  if (operand(call, 5) == ValueId::none || !total || !b.ok())
    return {b.fail(ErrorCode::mismatch, "seqlens_k or total_sequence_length is missing")};
  const DType dtype = b.dtype(in.q), soft = wide(dtype);
  const Dim queries = b.shape(in.q)[1];
  const ValueId past_k = operand(call, 3), past_v = operand(call, 4);
  const ValueId valid = b.convert(b.reshape(operand(call, 5), {b.shape(in.q)[0], 1, 1, 1}), DType::i64);
  const ValueId before = b.add(valid, size_scalar(b, Dim(1) - queries, DType::i64));
  const Dim cached = past_k == ValueId::none ? Dim(0) : b.shape(past_k)[2];
  const Cache cache{max(cached, (*total)[0]), b.maximum(before, b.scalar(DType::i64, 0))};
  if (integer(call, "do_rotary", 0) != 0) {
    if (operand(call, 7) == ValueId::none || operand(call, 8) == ValueId::none)
      return {b.fail(ErrorCode::mismatch, "do_rotary needs cos_cache and sin_cache")};
    Rotation rotation = cache_rotation(b, call, cache.past, queries);
    // The table tells how many of a head's elements turn.
    const Dim turned = b.ok() ? b.shape(rotation.cos).back() * Dim(2) : Dim(0);
    if (b.ok() && !(turned == b.shape(in.q)[3])) rotation.dims = turned.constant().value_or(0);
    in.q = rotate(b, in.q, rotation);
    in.k = rotate(b, in.k, rotation);
  }
  const ValueId k = updated_cache(b, past_k, in.k, cache), v = updated_cache(b, past_v, in.v, cache);
  const double scale = call.attributes.get_or("scale", 0.0);
  const ValueId q = scaled_queries(b, heads_first(b, in.q), scale == 0 ? std::nullopt : std::optional(scale));
  ValueId scores = capped(b, b.convert(scores_of(b, q, k), soft), call.attributes.get_or("softcap", 0.0));
  if (const Mask mask = read_mask(b, operand(call, 10), cache.length, soft); mask.added != ValueId::none)
    scores = b.add(scores, hide(b, mask.added, mask.allowed));
  const std::int64_t window = integer(call, "local_window_size", -1);
  const Sight sight{.offset = cache.past, .causal = true, .left = window > 0 ? window - 1 : -1};
  ValueId sink = ValueId::none;
  if (operand(call, 11) != ValueId::none) {
    sink = b.convert(along_axis(b, operand(call, 11), 1, 4), soft);
  } else if (integer(call, "smooth_softmax", 0) > 0) {
    sink = b.scalar(soft, 0);
  }
  const ValueId weights =
      attention_softmax(b, hide(b, scores, visible_keys(b, sight, queries, cache.length)), sink);
  return {join_heads(b, weighted_values(b, b.convert(weights, dtype), v)), k, v};
}

Attributes heads(std::int64_t q, std::int64_t kv) { return {{"q_num_heads", q}, {"kv_num_heads", kv}}; }

std::vector<Sample> attention_samples(DType t) {
  const auto x = [&](StaticShape shape, std::uint64_t seed) {
    return sample_tensor(t, std::move(shape), Fill::normal, seed);
  };
  const auto mask = [](StaticShape shape) {
    return sample_tensor(DType::boolean, std::move(shape), Fill::normal);
  };
  std::vector<Sample> samples = {
      {"4-d", {x({2, 2, 3, 8}, 1), x({2, 2, 5, 8}, 2), x({2, 2, 5, 4}, 3)}, {}, {}},
      {"3-d, groups", {x({1, 3, 32}, 1), x({1, 5, 16}, 2), x({1, 5, 16}, 3)}, heads(4, 2), {}},
      {"causal, capped",
       {x({1, 2, 4, 4}, 1), x({1, 2, 4, 4}, 2), x({1, 2, 4, 4}, 3)},
       {{"is_causal", std::int64_t{1}}, {"softcap", 2.0}, {"scale", 0.25}},
       {}},
      {"bool mask",
       {x({1, 2, 3, 4}, 1), x({1, 1, 5, 4}, 2), x({1, 1, 5, 4}, 3), mask({3, 5})},
       {{"qk_matmul_output_mode", std::int64_t{3}}},
       {}},
      {"short float mask",
       {x({1, 1, 3, 4}, 1), x({1, 1, 5, 4}, 2), x({1, 1, 5, 4}, 3), x({1, 1, 3, 4}, 4)},
       {{"qk_matmul_output_mode", std::int64_t{2}}},
       {}},
      {"past",
       {x({1, 2, 2, 4}, 1), x({1, 2, 2, 4}, 2), x({1, 2, 2, 4}, 3), x({2, 5}, 4), x({1, 2, 3, 4}, 5),
        x({1, 2, 3, 4}, 6)},
       {{"is_causal", std::int64_t{1}}, {"left_window_size", std::int64_t{2}}},
       {}},
      {"no keys", {x({1, 1, 2, 4}, 1), x({1, 1, 0, 4}, 2), x({1, 1, 0, 4}, 3)}, {}, {}}};
  return samples;
}

std::vector<Sample> rotary_samples(DType t) {
  const auto x = [&](StaticShape shape, std::uint64_t seed) {
    return sample_tensor(t, std::move(shape), Fill::normal, seed);
  };
  return {{"3-d",
           {x({2, 3, 16}, 1), x({7, 4}, 2), x({7, 4}, 3),
            HostTensor::of<std::int64_t>({2, 3}, {0, 1, 2, 4, 5, 6})},
           {{"num_heads", std::int64_t{2}}},
           {}},
          {"interleaved",
           {x({1, 2, 3, 8}, 1), x({1, 3, 4}, 2), x({1, 3, 4}, 3)},
           {{"interleaved", std::int64_t{1}}},
           {}},
          {"a part",
           {x({1, 2, 3, 8}, 1), x({1, 3, 2}, 2), x({1, 3, 2}, 3)},
           {{"rotary_embedding_dim", std::int64_t{4}}},
           {}}};
}

std::vector<Sample> contrib_rotary_samples(DType t) {
  const auto x = [&](StaticShape shape, std::uint64_t seed) {
    return sample_tensor(t, std::move(shape), Fill::normal, seed);
  };
  return {{"from a position on", {x({2, 3, 16}, 1), ints({2}), x({7, 4}, 2), x({7, 4}, 3)}, {}, {}}};
}

std::vector<Sample> grouped_samples(DType t) {
  const auto x = [&](StaticShape shape, std::uint64_t seed) {
    return sample_tensor(t, std::move(shape), Fill::normal, seed);
  };
  const auto number = [](StaticShape shape, std::initializer_list<std::int32_t> values) {
    return HostTensor::of<std::int32_t>(std::move(shape), values);
  };
  const std::vector<bool> total_is_known = {false, false, false, false, false, false, true};
  return {{"one step",
           {x({2, 1, 32}, 1), x({2, 1, 16}, 2), x({2, 1, 16}, 3), x({2, 2, 4, 8}, 4), x({2, 2, 4, 8}, 5),
            number({2}, {4, 2}), number({}, {5}), x({8, 4}, 6), x({8, 4}, 7)},
           {{"num_heads", std::int64_t{4}},
            {"kv_num_heads", std::int64_t{2}},
            {"do_rotary", std::int64_t{1}},
            {"local_window_size", std::int64_t{3}}},
           total_is_known}};
}

constexpr DTypeSet kFloat = static_cast<DTypeSet>(kF32 | kF16 | kBF16);
constexpr AttributeDef kInterleaved = {"interleaved", AttributeKind::integer, "0", "1: pairs are neighbours"};
constexpr AttributeDef kRotaryDims = {"rotary_embedding_dim", AttributeKind::integer, "0: all",
                                      "elements that turn"};

constexpr std::array kOps = {
    OpDef{
        .name = "attention",
        .doc =
            "softmax(q · k^T · scale + mask) · v for each head (Vaswani et al. 2017), with grouped heads, a "
            "cache, causal and sliding windows. A row that sees no key gives 0.",
        .inputs = {{"q", "[B, H, L, D] or [B, L, H · D]", kFloating},
                   {"k", "[B, G, S, D] or [B, S, G · D]", kFloating},
                   {"v", "[B, G, S, E] or [B, S, G · E]", kFloating, "V"},
                   {"attn_mask", "stretches to [B, H, L, S]; may end early", kAny, "mask",
                    OperandMode::optional},
                   {"past_key", "[B, G, P, D]", kFloating, "T", OperandMode::optional},
                   {"past_value", "[B, G, P, E]", kFloating, "V", OperandMode::optional},
                   {"nonpad_kv_seqlen", "[B]", kI64, "length", OperandMode::optional}},
        .outputs = {{"y", "[B, H, L, E] or [B, L, H · E]", kFloating},
                    {"present_key", "[B, G, P + S, D]", kFloating},
                    {"present_value", "[B, G, P + S, E]", kFloating, "V"},
                    {"qk_matmul_output", "[B, H, L, P + S]", kFloating}},
        .attributes = {{"is_causal", AttributeKind::integer, "0", "1: no key behind the query's position"},
                       {"kv_num_heads", AttributeKind::integer, "from k", "G of 3-d operands"},
                       {"left_window_size", AttributeKind::integer, "-1", "keys before; -1: all"},
                       {"q_num_heads", AttributeKind::integer, "from q", "H of 3-d operands"},
                       {"qk_matmul_output_mode", AttributeKind::integer, "0",
                        "0 products, 1 capped, 2 with mask, 3 softmax"},
                       {"right_window_size", AttributeKind::integer, "-1", "keys behind; -1: all"},
                       {"scale", AttributeKind::real, "1 / sqrt(D)", ""},
                       {"softcap", AttributeKind::real, "0", "c · tanh(x / c) of the scores where c > 0"},
                       {"softmax_precision", AttributeKind::dtype, "of q", "f32 at least"}},
        .decompose = attention,
        .samples = attention_samples,
        .onnx = {"Attention", {23, 24, 25}},
        .oracle = "onnx-node:test_attention_"},
    OpDef{.name = "rotary_embedding",
          .doc = "Pairs of a head's elements turn by an angle that grows with the position (Su et al. 2021).",
          .inputs = {{"x", "[B, L, H · D] or [B, H, L, D]", kFloating},
                     {"cos", "[positions, D / 2] or [B, L, D / 2]", kFloating},
                     {"sin", "like cos", kFloating},
                     {"position_ids", "[B, L]", kI64, "position", OperandMode::optional}},
          .outputs = {{"y", "like x", kFloating}},
          .attributes = {kInterleaved,
                         {"num_heads", AttributeKind::integer, "from x", "of 3-d x"},
                         kRotaryDims},
          .decompose = rotary_embedding,
          .samples = rotary_samples,
          .onnx = {"RotaryEmbedding", {23}},
          .oracle = "onnx-node:test_rotary_embedding"},
    OpDef{.name = "contrib_rotary_embedding",
          .doc = "rotary_embedding in ONNX Runtime's form: one position means all from there on.",
          .inputs = {{"x", "[B, L, H · D] or [B, H, L, D]", kFloat},
                     {"position_ids", "[1] or [B, L]", kI64, "position"},
                     {"cos", "[positions, D / 2]", kFloat},
                     {"sin", "like cos", kFloat}},
          .outputs = {{"y", "like x", kFloat}},
          .attributes = {kInterleaved,
                         {"is_packed_batching", AttributeKind::integer, "0", "0 only"},
                         {"num_heads", AttributeKind::integer, "from cos", "of 3-d x"},
                         kRotaryDims,
                         {"scale", AttributeKind::real, "1", "of the result"}},
          .decompose = contrib_rotary_embedding,
          .samples = contrib_rotary_samples,
          .onnx = {"com.microsoft.RotaryEmbedding", {1}},
          .oracle = "file:contrib.py"},
    OpDef{
        .name = "group_query_attention",
        .doc =
            "Causal attention of new tokens over a cache that holds seqlens_k + 1 of them with the new ones; "
            "q, k and v may be packed in one operand. ONNX Runtime's GroupQueryAttention.",
        .inputs = {{"query", "[B, L, H · D], packed [B, L, (H + 2 · G) · D]", kFloat},
                   {"key", "[B, L, G · D]", kFloat, "T", OperandMode::optional},
                   {"value", "[B, L, G · D]", kFloat, "T", OperandMode::optional},
                   {"past_key", "[B, G, P, D]", kFloat, "T", OperandMode::optional},
                   {"past_value", "[B, G, P, D]", kFloat, "T", OperandMode::optional},
                   {"seqlens_k", "[B], required", kI32, "length", OperandMode::optional},
                   {"total_sequence_length", "[], required", kI32, "length", OperandMode::optional, true},
                   {"cos_cache", "[positions, D / 2]", kFloat, "T", OperandMode::optional},
                   {"sin_cache", "[positions, D / 2]", kFloat, "T", OperandMode::optional},
                   {"position_ids", "[B, L]", kI64, "position", OperandMode::optional},
                   {"attention_bias", "stretches to [B, H, L, total]", kFloat, "T", OperandMode::optional},
                   {"head_sink", "[H]", kFloat, "T", OperandMode::optional}},
        .outputs = {{"output", "[B, L, H · D]", kFloat},
                    {"present_key", "[B, G, max(P, total), D]", kFloat},
                    {"present_value", "[B, G, max(P, total), D]", kFloat}},
        .attributes = {{"do_rotary", AttributeKind::integer, "0", "1: queries and keys turn"},
                       {"k_quant_type", AttributeKind::text, "NONE", "NONE only"},
                       {"kv_num_heads", AttributeKind::integer, "", "G"},
                       {"local_window_size", AttributeKind::integer, "-1",
                        "keys seen, the own included; -1: all"},
                       {"num_heads", AttributeKind::integer, "", "H"},
                       {"qk_output", AttributeKind::integer, "0", "0 only"},
                       {"rotary_interleaved", AttributeKind::integer, "0", "1: pairs are neighbours"},
                       {"scale", AttributeKind::real, "1 / sqrt(D)", ""},
                       {"smooth_softmax", AttributeKind::integer, "-1", "1: a sink of score 0"},
                       {"softcap", AttributeKind::real, "0", "c · tanh(x / c) of the scores where c > 0"},
                       {"v_quant_type", AttributeKind::text, "NONE", "NONE only"}},
        .decompose = group_query_attention,
        .samples = grouped_samples,
        .onnx = {"com.microsoft.GroupQueryAttention", {1}},
        .oracle = "file:contrib.py"},
};

}  // namespace

std::span<const OpDef> attention_ops() { return kOps; }

}  // namespace diji
