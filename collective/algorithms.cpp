// The catalogue: every algorithm of every operation, one row each, and what each costs.
#include "collective/plan.h"
#include "collective/plan_families.h"
#include "collective/plan_writer.h"
#include "collective/plans_direct.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace diji::collective {
namespace {

using Request = PlanRequest;
using Model = CostModel;

constexpr std::string_view kThakur = "Thakur, Rabenseifner, Gropp 2005";
constexpr std::string_view kPatarasuk = "Patarasuk, Yuan 2009";
constexpr std::string_view kSanders = "Sanders, Speck, Traeff 2009";
constexpr std::string_view kBruck = "Bruck et al. 1997";

// Costs: messages and bytes that go out of the port of the rank with most, one after the other, and bytes it
// combines.
double cost(const Model& m, double messages, double bytes, double combined = 0) {
  return messages * m.alpha_us + bytes * m.beta_us_per_byte + combined * m.gamma_us_per_byte;
}
double others(const Request& r) { return r.world - 1; }
double share(const Request& r) { return others(r) / r.world; }  // of the vector: all blocks but the own one
double rounds(const Request& r) { return std::ceil(std::log2(std::max(r.world, 1))); }
int power(const Request& r) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(r.world))); }
double fold_rounds(const Request& r) { return power(r) == r.world ? 0 : 2; }

double blocks_to_each(const Request& r, double b, const Model& m) { return cost(m, others(r), b * share(r)); }
double blocks_folded(const Request& r, double b, const Model& m) {
  return cost(m, others(r), b * share(r), b * share(r));
}
double direct_all_reduce(const Request& r, double b, const Model& m) {
  return blocks_folded(r, b, m) + blocks_to_each(r, b, m);
}
double vector_to_each(const Request& r, double b, const Model& m) {
  return cost(m, others(r), others(r) * b);
}
double vector_folded(const Request& r, double b, const Model& m) {
  return cost(m, others(r), others(r) * b, others(r) * b);
}
double two_ways(const Request& r, double b, const Model& m) {
  return cost(m, 4 * others(r), 2 * b * share(r), b * share(r));
}
double doubling(const Request& r, double b, const Model& m) {
  const double k = std::log2(power(r)) + fold_rounds(r);
  return cost(m, k, k * b, (k - fold_rounds(r) / 2) * b);
}
double halving_doubling(const Request& r, double b, const Model& m) {
  const double p = power(r);
  return cost(m, 2 * (p - 1) + fold_rounds(r) * p, 2 * b * (p - 1) / p + fold_rounds(r) * b, b * (p - 1) / p);
}
double tree(const Request& r, double b, const Model& m) { return cost(m, rounds(r), rounds(r) * b); }
double tree_folded(const Request& r, double b, const Model& m) {
  return cost(m, rounds(r), rounds(r) * b, rounds(r) * b);
}
double chain(const Request& r, double b, const Model& m) {
  const double k = others(r) + r.slices - 1;
  return cost(m, k, k * b / r.slices);
}
double chain_folded(const Request& r, double b, const Model& m) {
  const double k = others(r) + r.slices - 1;
  return cost(m, k, k * b / r.slices, k * b / r.slices);
}
double double_tree(const Request& r, double b, const Model& m) {
  const double k = 4 * rounds(r) + 2.0 * (r.slices - 1);
  return cost(m, 2 * k, k * b / r.slices, k * b / r.slices / 2);
}
double scan_doubling(const Request& r, double b, const Model& m) { return tree_folded(r, b, m); }
double bruck_blocks(const Request& r, double b, const Model& m) {
  const double sent = rounds(r) * r.world / 2;
  return cost(m, sent, sent * b / r.world);
}
double words(const Request& r, double, const Model& m) { return cost(m, rounds(r), 0); }
double between_hosts(const Request& r, double blocks, double b, const Model& m) {
  const double hosts = r.world / std::max(r.node_ranks, 1) - 1;
  return hosts * (m.alpha_between_us + b / blocks * m.beta_between_us_per_byte);
}
double hierarchical(const Request& r, double b, const Model& m) {
  const double k = r.node_ranks;
  return cost(m, 2 * (k - 1), 2 * b * (k - 1) / k, b) + between_hosts(r, k, b, m);
}
double hierarchical_tree(const Request& r, double b, const Model& m) {
  return cost(m, r.node_ranks - 1, (r.node_ranks - 1) * b) + between_hosts(r, 1, b, m);
}

using enum Operation;
constexpr std::array kAlgorithms = {
    Algorithm{"exchange", "everybody sends all to everybody and folds: 1 round, n-1 vectors sent", "",
              all_reduce, false, supports_all, direct::exchange, vector_folded},
    Algorithm{"direct", "block r is folded by rank r and sent to all: 2 rounds, 2(n-1)/n vectors sent",
              kThakur, all_reduce, false, supports_all, direct::all_reduce, direct_all_reduce},
    Algorithm{"ring", "blocks go around, then the results: 2(n-1) rounds, 2(n-1)/n vectors sent", kPatarasuk,
              all_reduce, false, supports_all, ring_all_reduce, direct_all_reduce},
    Algorithm{"bidirectional_ring",
              "half of the vector each way around: 2(n-1) rounds, 2(n-1)/n vectors sent", kPatarasuk,
              all_reduce, false, supports_all, bidirectional_ring_all_reduce, two_ways},
    Algorithm{"recursive_doubling", "partners in one bit exchange all: log2 n rounds, log2 n vectors sent",
              kThakur, all_reduce, false, supports_all, recursive_doubling_all_reduce, doubling},
    Algorithm{"halving_doubling",
              "partners exchange halves, then the results: 2 log2 n rounds, 2(n-1)/n vectors sent", kThakur,
              all_reduce, false, supports_all, halving_doubling_all_reduce, halving_doubling},
    Algorithm{"double_tree", "two trees, each for half of the vector, up and down: 4 log2 n rounds", kSanders,
              all_reduce, false, supports_all, double_tree_all_reduce, double_tree},
    Algorithm{"hierarchical", "within hosts, between hosts, within hosts", kThakur, all_reduce, false,
              supports_equal_hosts, hierarchical_all_reduce, hierarchical},
    Algorithm{"direct", "block r is sent to rank r and folded there: 1 round, (n-1)/n vectors sent", kThakur,
              reduce_scatter, false, supports_all, direct::reduce_scatter, blocks_folded},
    Algorithm{"ring", "blocks go around: n-1 rounds, (n-1)/n vectors sent", kPatarasuk, reduce_scatter, false,
              supports_all, ring_reduce_scatter, blocks_folded},
    Algorithm{"recursive_halving", "partners exchange halves: log2 n rounds, (n-1)/n vectors sent", kThakur,
              reduce_scatter, false, supports_powers_of_two, recursive_halving_reduce_scatter, blocks_folded},
    Algorithm{"direct", "everybody sends its block to everybody: 1 round", "", all_gather, false,
              supports_all, direct::all_gather, blocks_to_each},
    Algorithm{"ring", "blocks go around: n-1 rounds, (n-1)/n vectors sent", kThakur, all_gather, false,
              supports_all, ring_all_gather, blocks_to_each},
    Algorithm{"recursive_doubling", "partners exchange what they have: log2 n rounds", kThakur, all_gather,
              false, supports_powers_of_two, recursive_doubling_all_gather, blocks_to_each},
    Algorithm{"bruck", "what one has, to the rank 2^k before: log2 n rounds", kBruck, all_gather, false,
              supports_all, bruck_all_gather, blocks_to_each},
    Algorithm{"direct", "the root sends to everybody: 1 round", "", broadcast, false, supports_all,
              direct::broadcast, vector_to_each},
    Algorithm{"binomial_tree", "who has it sends it on: log2 n rounds", kThakur, broadcast, false,
              supports_all, binomial_broadcast, tree},
    Algorithm{"chain", "slices from rank to rank: n-1 + slices rounds", "", broadcast, false, supports_all,
              chain_broadcast, chain},
    Algorithm{"hierarchical", "to one rank of each host, then within hosts: 2 rounds", "", broadcast, false,
              supports_equal_hosts, hierarchical_broadcast, hierarchical_tree},
    Algorithm{"direct", "all send to the root, which folds: 1 round", "", reduce, false, supports_all,
              direct::reduce, vector_folded},
    Algorithm{"binomial_tree", "pairs, pairs of pairs, …: log2 n rounds", kThakur, reduce, false,
              supports_all, binomial_reduce, tree_folded},
    Algorithm{"chain", "slices from rank to rank: n-1 + slices rounds", "", reduce, false, supports_all,
              chain_reduce, chain_folded},
    Algorithm{"direct", "everybody sends its block to the root: 1 round", "", gather, false, supports_all,
              direct::gather, blocks_to_each},
    Algorithm{"direct", "the root sends everybody its block: 1 round", "", scatter, false, supports_all,
              direct::scatter, blocks_to_each},
    Algorithm{"direct", "everybody sends everybody a block: 1 round", "", all_to_all, false, supports_all,
              direct::all_to_all, blocks_to_each},
    Algorithm{"pairwise", "one partner a round: n-1 rounds", kThakur, all_to_all, false, supports_all,
              pairwise_all_to_all, blocks_to_each},
    Algorithm{"bruck", "blocks with bit k in their distance go 2^k ranks on: log2 n rounds", kBruck,
              all_to_all, true, supports_all, bruck_all_to_all, bruck_blocks},
    Algorithm{"direct", "all send to the higher ranks, which fold: 1 round", "", scan, false, supports_all,
              direct::scan, vector_folded},
    Algorithm{"recursive_doubling", "from the rank 2^k before: log2 n rounds", "Hillis, Steele 1986", scan,
              false, supports_all, recursive_doubling_scan, scan_doubling},
    Algorithm{"direct", "all send to the higher ranks, which fold: 1 round", "", exscan, false, supports_all,
              direct::exscan, vector_folded},
    Algorithm{"dissemination", "a word to rank + 2^i in round i: log2 n rounds",
              "Hensgen, Finkel, Manber 1988", barrier, false, supports_all, direct::dissemination_barrier,
              words},
};

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

}  // namespace diji::collective
