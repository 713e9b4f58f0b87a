// What a chunk holds, as a term: whose contributions, combined in which order. Private to the checker.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace diji::collective {

/// A term's number. Equal terms have equal numbers, so "the same bits on all ranks" is "the same number".
using TermId = int;
inline constexpr TermId kUndefined = -1;

/// Ranks, one bit each.
class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(int world) : words_(static_cast<std::size_t>(world + 63) / 64) {}
  static RankSet range(int world, int first, int end);
  void add(int rank) { words_[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64); }
  void add(const RankSet& other);
  bool intersects(const RankSet& other) const;
  bool operator==(const RankSet&) const = default;
  /// "0-3, 7"
  std::string text() const;

 private:
  std::vector<std::uint64_t> words_;
};

class Terms {
 public:
  enum class Kind : std::uint8_t { leaf, combined, finished };
  struct Term {
    Kind kind = Kind::leaf;
    int chunk = 0;  ///< of the logical vector
    int rank = -1;  ///< of a leaf
    RankSet ranks;
    int fold_end = -1;  ///< of ((rank 0 + rank 1) + …): the first rank that is not in it; else -1
  };
  explicit Terms(int world) : world_(world) {}

  TermId leaf(int rank, int chunk);
  /// kUndefined where they overlap, or are of different chunks, or one is finished.
  TermId combine(TermId left, TermId right);
  TermId finish(TermId partial);
  const Term& operator[](TermId id) const { return terms_[static_cast<std::size_t>(id)]; }
  std::string text(TermId id) const;

 private:
  TermId add(Term term);
  int world_;
  std::vector<Term> terms_;
  std::map<std::pair<int, int>, TermId> leaves_;
  std::map<std::pair<TermId, TermId>, TermId> combined_;
  std::map<TermId, TermId> finished_;
};

}  // namespace diji::collective
