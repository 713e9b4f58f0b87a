// The catalogue: every algorithm of every operation, one row each, and what each costs.
#include "collective/plan.h"
#include "collective/plan_families.h"
#include "collective/plan_writer.h"
#include "collective/plans_direct.h"

#include <algorithm>
#include <array>
#include <bit>

namespace diji::collective {
namespace {

using Request = PlanRequest;
using Model = CostModel;

constexpr std::string_view kThakur = "Thakur, Rabenseifner, Gropp 2005";
constexpr std::string_view kPatarasuk = "Patarasuk, Yuan 2009";
constexpr std::string_view kSanders = "Sanders, Speck, Traeff 2009";
constexpr std::string_view kBruck = "Bruck et al. 1997";

// What one port does for one slice: messages, vectors that they carry and vectors that are combined, and how
// much of it goes between hosts.
struct Load {
  double messages = 0;
  double vectors = 0;
  double combined = 0;
  double messages_between = 0;
  double vectors_between = 0;
};
double time_us(const Load& load, double bytes, const Model& m) {
  return load.messages * m.alpha_us + load.messages_between * m.alpha_between_us +
         bytes * (load.vectors * m.beta_us_per_byte + load.vectors_between * m.beta_between_us_per_byte +
                  load.combined * m.gamma_us_per_byte);
}
// `path` is what happens one after the other until the first slice is everywhere; each further slice then
// costs what it asks of the busiest port.
double price(const Request& r, double bytes, const Model& m, const Load& path, const Load& busiest) {
  const double slice = bytes / r.slices;
  return time_us(path, slice, m) + (r.slices - 1) * time_us(busiest, slice, m);
}
double price(const Request& r, double bytes, const Model& m, const Load& path) {
  return price(r, bytes, m, path, path);
}

double others(const Request& r) { return r.world - 1; }
double share(const Request& r) { return others(r) / r.world; }  // of the vector: all blocks but the own one
double log2_up(int n) { return std::bit_width(static_cast<unsigned>(std::max(n, 1) - 1)); }
double log2_down(int n) { return std::bit_width(static_cast<unsigned>(std::max(n, 1))) - 1; }
double rounds(const Request& r) { return log2_up(r.world); }
int power(const Request& r) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(r.world))); }
// 1 where some ranks play for others (plans_doubling.cpp).
double has_rest(const Request& r) { return power(r) == r.world ? 0 : 1; }

double blocks_to_each(const Request& r, double b, const Model& m) {
  return price(r, b, m, {others(r), share(r)});
}
double blocks_folded(const Request& r, double b, const Model& m) {
  return price(r, b, m, {others(r), share(r), share(r)});
}
double blocks_folded_and_back(const Request& r, double b, const Model& m) {
  return price(r, b, m, {2 * others(r), 2 * share(r), share(r)});
}
double half_blocks_folded_and_back(const Request& r, double b, const Model& m) {
  return price(r, b, m, {4 * others(r), 2 * share(r), share(r)});
}
double vector_to_each(const Request& r, double b, const Model& m) {
  return price(r, b, m, {others(r), others(r)});
}
double vector_folded(const Request& r, double b, const Model& m) {
  return price(r, b, m, {others(r), others(r), others(r)});
}
double doubling(const Request& r, double b, const Model& m) {
  const double k = log2_down(power(r));
  const double rest = has_rest(r);
  return price(r, b, m, {k + 2 * rest, k + 2 * rest, k + rest}, {k + rest, k + rest, k + rest});
}
double halving_doubling(const Request& r, double b, const Model& m) {
  const double p = power(r);
  const double k = 2 * (p - 1);
  const double rest = has_rest(r);
  const double combined = (p - 1) / p + rest;
  return price(r, b, m, {k + 2 * rest * p, k / p + 2 * rest, combined},
               {k + rest * p, k / p + rest, combined});
}
// Blocks that pass between players 0 and 2^i, over all i: the first players look after two blocks each.
double players_blocks(const Request& r) {
  const int rest = r.world - power(r);
  double blocks = 0;
  for (int bit = 1; bit < power(r); bit *= 2) blocks += bit + std::min(bit, rest);
  return blocks;
}
double halving_blocks(const Request& r, double b, const Model& m) {
  const double n = r.world;
  const double k = players_blocks(r) + has_rest(r) * n;
  return price(r, b, m, {k + has_rest(r), (k + has_rest(r)) / n, k / n}, {k, k / n, k / n});
}
double doubling_blocks(const Request& r, double b, const Model& m) {
  const double n = r.world;
  const double k = players_blocks(r) + has_rest(r) * (n - 1);
  return price(r, b, m, {k + has_rest(r), (k + has_rest(r)) / n}, {k, k / n});
}
double tree(const Request& r, double b, const Model& m) { return price(r, b, m, {rounds(r), rounds(r)}); }
double tree_folded(const Request& r, double b, const Model& m) {
  return price(r, b, m, {rounds(r), rounds(r), rounds(r)});
}
double chain(const Request& r, double b, const Model& m) {
  return price(r, b, m, {others(r), others(r)}, {1, 1});
}
double chain_folded(const Request& r, double b, const Model& m) {
  return price(r, b, m, {others(r), others(r), others(r)}, {1, 1, 1});
}
// Halves of the vector; a node of a tree (plans_tree.cpp) serves two children one after the other, but the
// root of a tree of 2^i nodes has one.
double tree_levels(int nodes) {
  return 2 * log2_down(nodes) - (nodes > 1 && std::has_single_bit(static_cast<unsigned>(nodes)) ? 1 : 0);
}
double double_tree(const Request& r, double b, const Model& m) {
  const double k = r.world == 1 ? 0 : 2 + tree_levels(r.world - 1);  // the root serves both trees
  return price(r, b, m, {k, k / 2}, {2, 1});
}
double double_tree_folded(const Request& r, double b, const Model& m) {
  const double k = r.world == 1 ? 0 : 2 + tree_levels(r.world - 1);
  return price(r, b, m, {k, k / 2, k / 2}, {2, 1, 1});
}
double double_tree_both_ways(const Request& r, double b, const Model& m) {
  const double k = tree_levels(r.world);
  const double children = r.world > 2 ? 2 : 1;
  return price(r, b, m, {2 * k, k, k / 2}, {2 * children, children, children / 2});
}
// A rank combines in the round in which the next slice comes: from the second slice on, a hop is two
// messages.
double chain_between_rounds(const Request& r, double b, const Model& m) {
  const double waits = std::min(r.slices, 2);
  const double k = others(r) * waits;
  const double slice = b / r.slices;
  const double combined = std::max(r.world - 2, 0);
  return time_us({k, k, combined}, slice, m) + (r.slices - waits) * time_us({1, 1}, slice, m);
}
double exscan_doubling(const Request& r, double b, const Model& m) {
  const double k = log2_up(r.world - 1);
  const double moves = r.world > 1 ? 1 : 0;
  return price(r, b, m, {moves + k, moves + k, k});
}
// Of the distances 1 … n-1 those with bit k travel in round k.
double bruck_blocks(const Request& r, double b, const Model& m) {
  double sent = 0;
  for (int bit = 1; bit < r.world; bit *= 2)
    sent += r.world / (2 * bit) * bit + std::max(r.world % (2 * bit) - bit, 0);
  return price(r, b, m, {sent, sent / r.world});
}
double words(const Request& r, double, const Model& m) { return price(r, 0, m, {rounds(r)}); }
double hierarchical(const Request& r, double b, const Model& m) {
  const double k = r.node_ranks;
  const double hosts = r.world / k;
  return price(r, b, m, {2 * (k - 1), 2 * (k - 1) / k, (k + hosts - 2) / k, hosts - 1, (hosts - 1) / k});
}
double hierarchical_to_each(const Request& r, double b, const Model& m) {
  const double k = r.node_ranks;
  const double hosts = r.world / k;
  return price(r, b, m, {k - 1, k - 1, 0, hosts - 1, hosts - 1});
}

using enum Operation;
constexpr std::array kAlgorithms = {
    Algorithm{"exchange", "everybody sends all to everybody and folds: 1 round, n-1 vectors sent", "",
              all_reduce, false, supports_all, direct::exchange, vector_folded},
    Algorithm{"direct", "block r is folded by rank r and sent to all: 2 rounds, 2(n-1)/n vectors sent",
              kThakur, all_reduce, false, supports_all, direct::all_reduce, blocks_folded_and_back},
    Algorithm{"ring", "blocks go around, then the results: 2(n-1) rounds, 2(n-1)/n vectors sent", kPatarasuk,
              all_reduce, false, supports_all, ring_all_reduce, blocks_folded_and_back},
    Algorithm{"bidirectional_ring",
              "half of the vector each way around: 2(n-1) rounds, 2(n-1)/n vectors sent", kPatarasuk,
              all_reduce, false, supports_all, bidirectional_ring_all_reduce, half_blocks_folded_and_back},
    Algorithm{"recursive_doubling", "partners in one bit exchange all: log2 n rounds, log2 n vectors sent",
              kThakur, all_reduce, false, supports_all, recursive_doubling_all_reduce, doubling},
    Algorithm{"halving_doubling",
              "partners exchange halves, then the results: 2 log2 n rounds, 2(n-1)/n vectors sent", kThakur,
              all_reduce, false, supports_all, halving_doubling_all_reduce, halving_doubling},
    Algorithm{"double_tree", "two trees, each for half of the vector, up and down: 4 log2 n rounds", kSanders,
              all_reduce, false, supports_all, double_tree_all_reduce, double_tree_both_ways},
    Algorithm{"hierarchical", "within hosts, between hosts, within hosts", kThakur, all_reduce, false,
              supports_equal_hosts, hierarchical_all_reduce, hierarchical, true},
    Algorithm{"direct", "block r is sent to rank r and folded there: 1 round, (n-1)/n vectors sent", kThakur,
              reduce_scatter, false, supports_all, direct::reduce_scatter, blocks_folded},
    Algorithm{"ring", "blocks go around: n-1 rounds, (n-1)/n vectors sent", kPatarasuk, reduce_scatter, false,
              supports_all, ring_reduce_scatter, blocks_folded},
    Algorithm{"bidirectional_ring", "each block comes from both sides: n/2 rounds, (n-1)/n vectors sent",
              kPatarasuk, reduce_scatter, false, supports_all, bidirectional_ring_reduce_scatter,
              blocks_folded},
    Algorithm{"recursive_halving", "partners exchange halves: log2 n rounds, (n-1)/n vectors sent", kThakur,
              reduce_scatter, false, supports_all, recursive_halving_reduce_scatter, halving_blocks},
    Algorithm{"direct", "everybody sends its block to everybody: 1 round", "", all_gather, false,
              supports_all, direct::all_gather, blocks_to_each},
    Algorithm{"ring", "blocks go around: n-1 rounds, (n-1)/n vectors sent", kThakur, all_gather, false,
              supports_all, ring_all_gather, blocks_to_each},
    Algorithm{"bidirectional_ring", "each block goes to both sides: n/2 rounds, (n-1)/n vectors sent",
              kPatarasuk, all_gather, false, supports_all, bidirectional_ring_all_gather, blocks_to_each},
    Algorithm{"recursive_doubling", "partners exchange what they have: log2 n rounds", kThakur, all_gather,
              false, supports_all, recursive_doubling_all_gather, doubling_blocks},
    Algorithm{"bruck", "what one has, to the rank 2^k before: log2 n rounds", kBruck, all_gather, false,
              supports_all, bruck_all_gather, blocks_to_each},
    Algorithm{"direct", "the root sends to everybody: 1 round", "", broadcast, false, supports_all,
              direct::broadcast, vector_to_each},
    Algorithm{"binomial_tree", "who has it sends it on: log2 n rounds", kThakur, broadcast, false,
              supports_all, binomial_broadcast, tree},
    Algorithm{"chain", "slices from rank to rank: n-1 + slices rounds", "", broadcast, false, supports_all,
              chain_broadcast, chain},
    Algorithm{"double_tree", "halves of the vector down two trees: 2 log2 n + slices rounds", kSanders,
              broadcast, false, supports_all, double_tree_broadcast, double_tree},
    Algorithm{"hierarchical", "to one rank of each host, then within hosts: 2 rounds", "", broadcast, false,
              supports_equal_hosts, hierarchical_broadcast, hierarchical_to_each, true},
    Algorithm{"direct", "all send to the root, which folds: 1 round", "", reduce, false, supports_all,
              direct::reduce, vector_folded},
    Algorithm{"binomial_tree", "pairs, pairs of pairs, …: log2 n rounds", kThakur, reduce, false,
              supports_all, binomial_reduce, tree_folded},
    Algorithm{"chain", "slices from rank to rank: n-1 + slices rounds", "", reduce, false, supports_all,
              chain_reduce, chain_folded},
    Algorithm{"double_tree", "halves of the vector up two trees: 2 log2 n + slices rounds", kSanders, reduce,
              false, supports_all, double_tree_reduce, double_tree_folded},
    Algorithm{"direct", "everybody sends its block to the root: 1 round", "", gather, false, supports_all,
              direct::gather, blocks_to_each},
    Algorithm{"binomial_tree", "blocks of 1, 2, 4, … ranks: log2 n rounds", kThakur, gather, false,
              supports_all, binomial_gather, blocks_to_each},
    Algorithm{"direct", "the root sends everybody its block: 1 round", "", scatter, false, supports_all,
              direct::scatter, blocks_to_each},
    Algorithm{"binomial_tree", "blocks of …, 4, 2, 1 ranks: log2 n rounds", kThakur, scatter, false,
              supports_all, binomial_scatter, blocks_to_each},
    Algorithm{"direct", "everybody sends everybody a block: 1 round", "", all_to_all, false, supports_all,
              direct::all_to_all, blocks_to_each},
    Algorithm{"pairwise", "one partner a round: n-1 rounds", kThakur, all_to_all, false, supports_all,
              pairwise_all_to_all, blocks_to_each},
    Algorithm{"bruck", "blocks with bit k in their distance go 2^k ranks on: log2 n rounds", kBruck,
              all_to_all, true, supports_all, bruck_all_to_all, bruck_blocks},
    Algorithm{"direct", "all send to the higher ranks, which fold: 1 round", "", scan, false, supports_all,
              direct::scan, vector_folded},
    Algorithm{"recursive_doubling", "from the rank 2^k before: log2 n rounds", "Hillis, Steele 1986", scan,
              false, supports_all, recursive_doubling_scan, tree_folded},
    Algorithm{"chain", "what is combined goes to the next rank: n-1 + slices rounds", "", scan, false,
              supports_all, chain_scan, chain_folded},
    Algorithm{"direct", "all send to the higher ranks, which fold: 1 round", "", exscan, false, supports_all,
              direct::exscan, vector_folded},
    Algorithm{"recursive_doubling", "values move up by one rank, then a scan: 1 + log2 n rounds",
              "Hillis, Steele 1986", exscan, false, supports_all, recursive_doubling_exscan, exscan_doubling},
    Algorithm{"chain", "what is combined goes to the next rank: 2(n-1) + slices rounds", "", exscan, false,
              supports_all, chain_exscan, chain_between_rounds},
    Algorithm{"dissemination", "a word to rank + 2^i in round i: log2 n rounds",
              "Hensgen, Finkel, Manber 1988", barrier, false, supports_all, direct::dissemination_barrier,
              words},
};

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

}  // namespace diji::collective
