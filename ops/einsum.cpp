// Einstein sums: an equation of labels becomes diagonals, products that fold axes, and one permutation.
#include "ops/families.h"
#include "ops/formula.h"
#include "ops/samples.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

namespace diji {
namespace {

// One term of the equation: a label an axis. Letters are themselves; the k-th last axis of an ellipsis is −k.
using Labels = std::vector<int>;

struct Equation {
  std::vector<Labels> terms;
  Labels result;
};

struct Term {
  ValueId value;
  Labels labels;
};

bool has(const Labels& labels, int label) { return std::ranges::find(labels, label) != labels.end(); }
std::int64_t position(const Labels& labels, int label) {
  return std::ranges::find(labels, label) - labels.begin();
}

// The labels of "ab...c"; `ellipsis` axes stand for the dots. Nothing when the text is no term.
std::optional<Labels> parse_term(std::string_view text, std::int64_t ellipsis) {
  Labels labels;
  bool dots = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      if (dots || text.substr(i, 3) != "...") return std::nullopt;
      dots = true;
      for (std::int64_t k = ellipsis; k > 0; --k) labels.push_back(static_cast<int>(-k));
      i += 2;
    } else if ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z')) {
      labels.push_back(text[i]);
    } else {
      return std::nullopt;
    }
  }
  return labels;
}

std::vector<std::string> split_terms(std::string_view text) {
  std::vector<std::string> terms(1);
  for (const char c : text) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  return terms;
}

// How many axes the dots stand for: equally many in every term that has them.
std::optional<std::int64_t> ellipsis_axes(Builder& b, const OpCall& call,
                                          const std::vector<std::string>& terms) {
  std::optional<std::int64_t> axes;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto letters = std::ranges::count_if(terms[i], [](char c) { return c != '.'; });
    const bool dots = terms[i].find('.') != std::string::npos;
    const std::int64_t rest = b.rank(call.inputs[i]) - letters;
    if (rest < 0 || (!dots && rest != 0)) {
      b.fail(ErrorCode::mismatch, "term '{}' does not fit {}", terms[i], text_of(b.shape(call.inputs[i])));
      return std::nullopt;
    }
    if (dots && axes.value_or(rest) != rest) {
      b.fail(ErrorCode::mismatch, "the ellipsis stands for {} axes in one term and for {} in '{}'", *axes,
             rest, terms[i]);
      return std::nullopt;
    }
    if (dots) axes = rest;
  }
  return axes.value_or(0);
}

// Without "->": the ellipsis, then the letters that stand once, in alphabetical order.
Labels implicit_result(const std::vector<Labels>& terms, std::int64_t ellipsis) {
  std::map<int, int> counts;
  for (const Labels& term : terms) {
    for (const int label : term) ++counts[label];
  }
  Labels result;
  for (std::int64_t k = ellipsis; k > 0; --k) result.push_back(static_cast<int>(-k));
  for (const auto& [label, count] : counts) {
    if (label > 0 && count == 1) result.push_back(label);
  }
  return result;
}

std::optional<Equation> parse(Builder& b, const OpCall& call) {
  std::string text = call.attributes.get_or("equation", std::string{});
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  const auto terms = split_terms(std::string_view(text).substr(0, arrow));
  const auto refuse = [&] {
    b.fail(ErrorCode::mismatch, "Einsum equation '{}' does not fit {} operands", text, call.inputs.size());
    return std::nullopt;
  };
  if (terms.size() != call.inputs.size()) return refuse();
  const auto ellipsis = ellipsis_axes(b, call, terms);
  if (!ellipsis) return std::nullopt;
  Equation equation;
  std::set<int> known;
  for (const std::string& term : terms) {
    const auto labels = parse_term(term, *ellipsis);
    if (!labels) return refuse();
    known.insert(labels->begin(), labels->end());
    equation.terms.push_back(*labels);
  }
  const auto result = arrow == std::string::npos
                          ? std::optional(implicit_result(equation.terms, *ellipsis))
                          : parse_term(std::string_view(text).substr(arrow + 2), *ellipsis);
  if (!result) return refuse();
  std::set<int> once;
  for (const int label : *result) {
    if (!known.contains(label) || !once.insert(label).second) return refuse();
  }
  equation.result = *result;
  return equation;
}

// A label that stands twice selects the diagonal.
Term diagonal(Builder& b, Term term) {
  Labels labels;
  for (const int label : term.labels) {
    if (!has(labels, label)) labels.push_back(label);
  }
  if (labels.size() == term.labels.size() || !b.ok()) return term;
  const Shape from = b.shape(term.value);
  Shape to;
  for (const int label : labels) to.push_back(from[static_cast<std::size_t>(position(term.labels, label))]);
  Values indices;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    const std::int64_t first = position(labels, term.labels[axis]);
    const Dim& size = to[static_cast<std::size_t>(first)];
    if (!(size == from[axis]) && size.constant() && from[axis].constant()) {
      b.fail(ErrorCode::mismatch, "a label has sizes {} and {}", size.text(), from[axis].text());
      return term;
    }
    b.graph().require({Constraint::Kind::equal, size, from[axis], "einsum: sizes of a label"});
    indices.push_back(b.iota(to, first));
  }
  return {b.gather(term.value, std::move(indices)), std::move(labels)};
}

// Folds the axes that nobody needs.
Term sum_out(Builder& b, Term term, const std::set<int>& needed) {
  Ints axes;
  Labels kept;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (needed.contains(term.labels[i])) {
      kept.push_back(term.labels[i]);
    } else {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  return {b.reduce(term.value, Reduction::sum, std::move(axes)), std::move(kept)};
}

// An axis of size 1 whose label has another size elsewhere stretches: the other operand alone counts.
Term drop_ones(Builder& b, Term term, const Term& other) {
  if (!b.ok()) return term;
  Shape to;
  Labels kept;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    const Dim size = b.shape(term.value)[i];
    const bool shared = has(other.labels, term.labels[i]);
    if (shared && size.is(1) &&
        !b.shape(other.value)[static_cast<std::size_t>(position(other.labels, term.labels[i]))].is(1))
      continue;
    to.push_back(size);
    kept.push_back(term.labels[i]);
  }
  return {b.reshape(term.value, std::move(to)), std::move(kept)};
}

// The axes in this order; labels that are missing get size 1.
ValueId aligned(Builder& b, const Term& term, const Labels& order) {
  Ints permutation;
  for (const int label : order) {
    if (has(term.labels, label)) permutation.push_back(position(term.labels, label));
  }
  const ValueId sorted = b.transpose(term.value, std::move(permutation));
  if (!b.ok()) return ValueId::none;
  Shape to;
  std::size_t next = 0;
  for (const int label : order) to.push_back(has(term.labels, label) ? b.shape(sorted)[next++] : Dim(1));
  return b.reshape(sorted, std::move(to));
}

// The axes of `term` in the order of these groups, each group as one axis.
ValueId grouped(Builder& b, const Term& term, const std::vector<Labels>& groups) {
  Labels order;
  for (const Labels& group : groups) order.insert(order.end(), group.begin(), group.end());
  const ValueId sorted = aligned(b, term, order);
  if (!b.ok()) return ValueId::none;
  Shape to;
  std::size_t axis = 0;
  for (const Labels& group : groups) {
    Dim size = 1;
    for (std::size_t i = 0; i < group.size(); ++i) size = size * b.shape(sorted)[axis++];
    to.push_back(size);
  }
  return b.reshape(sorted, std::move(to));
}

// The product of two terms, with the labels that nobody needs behind it folded: as matrices, an axis a group.
Term multiply(Builder& b, Term left, Term right, const std::set<int>& needed) {
  right = drop_ones(b, std::move(right), left);
  left = drop_ones(b, std::move(left), right);
  Labels batch, folded, rows, columns;
  for (const int label : left.labels) {
    Labels& group = !has(right.labels, label) ? rows : needed.contains(label) ? batch : folded;
    group.push_back(label);
  }
  for (const int label : right.labels) {
    if (!has(left.labels, label)) columns.push_back(label);
  }
  Labels labels;
  for (const Labels* group : {&batch, &rows, &columns})
    labels.insert(labels.end(), group->begin(), group->end());
  if (folded.empty() || !b.ok())
    return {b.multiply(aligned(b, left, labels), aligned(b, right, labels)), labels};
  Shape to;
  for (const int label : labels) {
    const Term& term = has(left.labels, label) ? left : right;
    to.push_back(b.shape(term.value)[static_cast<std::size_t>(position(term.labels, label))]);
  }
  const ValueId product =
      b.dot_general(grouped(b, left, {batch, rows, folded}), grouped(b, right, {batch, folded, columns}),
                    {.lhs_batch = {0}, .rhs_batch = {0}, .lhs_contracting = {2}, .rhs_contracting = {1}});
  return {b.reshape(product, std::move(to)), labels};
}

Values einsum(Builder& b, const OpCall& call) {
  const auto equation = parse(b, call);
  if (!equation) return {ValueId::none};
  std::optional<Term> product;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    // What the result or a later operand needs.
    std::set<int> later(equation->result.begin(), equation->result.end());
    for (std::size_t j = i + 1; j < equation->terms.size(); ++j)
      later.insert(equation->terms[j].begin(), equation->terms[j].end());
    std::set<int> needed = later;
    if (product) needed.insert(product->labels.begin(), product->labels.end());
    Term term = sum_out(b, diagonal(b, {call.inputs[i], equation->terms[i]}), needed);
    product = product ? multiply(b, std::move(*product), std::move(term), later) : std::move(term);
    product = sum_out(b, std::move(*product), later);
  }
  return {aligned(b, *product, equation->result)};
}

std::vector<Sample> einsum_samples(DType t) {
  const auto x = [&](StaticShape shape, std::uint64_t seed) {
    return sample_tensor(t, std::move(shape), Fill::normal, seed);
  };
  const auto sample = [](std::string equation, std::vector<HostTensor> inputs) {
    return Sample{equation, std::move(inputs), {{"equation", equation}}, {}};
  };
  return {sample("ij,jk->ik", {x({3, 5}, 1), x({5, 18}, 2)}),
          sample("bij,bjk", {x({2, 3, 5}, 1), x({2, 5, 4}, 2)}),
          sample("bhqd,bhkd->bhqk", {x({2, 3, 4, 5}, 1), x({2, 3, 6, 5}, 2)}),
          sample("...ii->...i", {x({2, 4, 4}, 1)}),
          sample("iij->ji", {x({3, 3, 5}, 1)}),
          sample("ij->", {x({3, 17}, 1)}),
          sample("i,j->ij", {x({3}, 1), x({17}, 2)}),
          sample("ij,jk,kl->il", {x({2, 3}, 1), x({3, 4}, 2), x({4, 5}, 3)}),
          sample("...ij, ...jk -> ...ik", {x({2, 1, 3, 4}, 1), x({1, 3, 4, 5}, 2)}),
          sample("ab,cb->ca", {x({2, 3}, 1), x({0, 3}, 2)})};
}

constexpr std::array kOps = {
    OpDef{.name = "einsum",
          .doc = "Sums products of the operands over all labels that the right side of the equation does not "
                 "name; a "
                 "label that stands twice in a term selects its diagonal (numpy.einsum).",
          .inputs = {{"inputs", "[...]", kNumeric, "T", OperandMode::variadic}},
          .outputs = {{"output", "[...]", kNumeric}},
          .attributes = {{"equation", AttributeKind::text, "", "such as \"bij,bjk->bik\""}},
          .decompose = einsum,
          .samples = einsum_samples,
          .onnx = {"Einsum", {12, 28}},
          .oracle = "onnx-node:test_einsum"},
};

}  // namespace

std::span<const OpDef> einsum_ops() { return kOps; }

}  // namespace diji
