// Terms, each made once.
#include "collective/symbolic.h"

#include <fmt/format.h>

#include <algorithm>

namespace diji::collective {

RankSet RankSet::range(int world, int first, int end) {
  RankSet set(world);
  for (int rank = first; rank < end; ++rank) set.add(rank);
  return set;
}

void RankSet::add(const RankSet& other) {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

bool RankSet::intersects(const RankSet& other) const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if ((words_[i] & other.words_[i]) != 0) return true;
  }
  return false;
}

std::string RankSet::text() const {
  std::vector<std::string> parts;
  const int count = static_cast<int>(words_.size()) * 64;
  const auto has = [&](int rank) {
    return rank < count && (words_[static_cast<std::size_t>(rank) / 64] >> (rank % 64) & 1) != 0;
  };
  for (int rank = 0; rank < count; ++rank) {
    if (!has(rank)) continue;
    const int first = rank;
    while (has(rank + 1)) ++rank;
    parts.push_back(first == rank ? fmt::format("{}", first) : fmt::format("{}-{}", first, rank));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

TermId Terms::add(Term term) {
  terms_.push_back(std::move(term));
  return static_cast<TermId>(terms_.size() - 1);
}

TermId Terms::leaf(int rank, int chunk) {
  const auto [at, is_new] = leaves_.try_emplace({rank, chunk}, kUndefined);
  if (is_new) {
    const int fold_end = rank == 0 ? 1 : -1;
    at->second = add({Kind::leaf, chunk, rank, RankSet::range(world_, rank, rank + 1), fold_end});
  }
  return at->second;
}

TermId Terms::combine(TermId left, TermId right) {
  const Term& a = (*this)[left];
  const Term& b = (*this)[right];
  if (a.chunk != b.chunk || a.kind == Kind::finished || b.kind == Kind::finished ||
      a.ranks.intersects(b.ranks)) {
    return kUndefined;
  }
  const auto [at, is_new] = combined_.try_emplace({left, right}, kUndefined);
  if (is_new) {
    RankSet ranks = a.ranks;
    ranks.add(b.ranks);
    const bool goes_on = b.kind == Kind::leaf && a.fold_end == b.rank;
    const int fold_end = goes_on ? b.rank + 1 : -1;
    at->second = add({Kind::combined, a.chunk, -1, std::move(ranks), fold_end});
  }
  return at->second;
}

TermId Terms::finish(TermId partial) {
  const auto [at, is_new] = finished_.try_emplace(partial, kUndefined);
  if (is_new) {
    const Term& term = (*this)[partial];
    at->second = add({Kind::finished, term.chunk, term.rank, term.ranks, term.fold_end});
  }
  return at->second;
}

std::string Terms::text(TermId id) const {
  if (id == kUndefined) return "nothing";
  const Term& term = (*this)[id];
  const char* kind = term.kind == Kind::finished   ? "the result"
                     : term.kind == Kind::combined ? "a partial result"
                                                   : "the value";
  return fmt::format("{} of chunk {} over ranks {}", kind, term.chunk, term.ranks.text());
}

}  // namespace diji::collective
