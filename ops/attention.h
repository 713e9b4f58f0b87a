// Attention over cached keys and values, as the operators of several domains use it.
#pragma once

#include "graph/builder.h"

namespace diji {

/// [B, L, H · D] -> [B, L, H, D], also of symbolic sizes.
ValueId split_heads(Builder& b, ValueId x, std::int64_t heads);

/// [B, H, L, S] = q [B, H, L, D] · k [B, G, S, D] along D. H is a multiple of G; each head of k serves H / G
/// neighbouring heads of q.
ValueId scores_of(Builder& b, ValueId q, ValueId k);
/// [B, H, L, E] = p [B, H, L, S] · v [B, G, S, E] along S.
ValueId weighted_values(Builder& b, ValueId p, ValueId v);

/// Which keys a query sees. All are i64 or bool and stretch to [B, H, L, S]; none means no such limit.
struct Sight {
  ValueId offset = ValueId::none;   ///< position of the first query among the keys; none is 0
  ValueId allowed = ValueId::none;  ///< bool, on top of the rest
  bool causal = false;              ///< no key behind the query's own position
  std::int64_t left = -1;           ///< how many keys before its own position; negative: all
  std::int64_t right = -1;
};
/// none where every query sees every key.
ValueId visible_keys(Builder& b, const Sight& sight, const Dim& queries, const Dim& keys);

/// x where `visible`, else -inf.
ValueId hide(Builder& b, ValueId x, ValueId visible);
/// Softmax over the last axis, where a row of only -inf gives zeros. `sink` (may be none, stretches to a
/// column) is the score of a key whose value is zero.
ValueId attention_softmax(Builder& b, ValueId scores, ValueId sink);

struct Rotation {
  ValueId cos = ValueId::none, sin = ValueId::none;  ///< [B, L, half] or [1, L, half]
  bool interleaved = false;                          ///< pairs are neighbours, not one of each half
  std::int64_t dims = 0;                             ///< how many of a head's elements turn; 0: all
  std::int64_t heads_axis = 2;                       ///< where x has its heads: 2 or 1
};
/// (x1, x2) -> (x1 · cos - x2 · sin, x2 · cos + x1 · sin) for each pair of a head's elements (Su et al.
/// 2021); x [B, L, H, D] or [B, H, L, D].
ValueId rotate(Builder& b, ValueId x, const Rotation& rotation);

}  // namespace diji
