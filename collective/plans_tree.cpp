// Trees: the root's neighbours pass on what it says, or collect what it wants to hear.
#include "collective/plan_families.h"
#include "collective/plan_writer.h"

#include <algorithm>
#include <array>
#include <bit>

namespace diji::collective {
namespace {

int from_root(const PlanRequest& request, int rank) {
  return (rank - request.root + request.world) % request.world;
}
int to_rank(const PlanRequest& request, int place) { return (place + request.root) % request.world; }

// A binary tree whose inorder is 0, 1, … n-1, so that left subtrees hold lower ranks: the node of a range is
// its middle.
struct Node {
  int parent = -1;
  std::array<int, 2> children = {-1, -1};
  int side = 0;    ///< which child of its parent
  int height = 0;  ///< 0: a leaf
  int depth = 0;   ///< 0: the root
};

int build(std::vector<Node>& nodes, int first, int end, int parent, int side, int depth) {
  if (first >= end) return -1;
  // The largest perfect subtree that fits goes left: then all leaves have even places and all inner nodes odd
  // ones.
  int left = 0;
  while (2 * left + 1 < end - first) left = 2 * left + 1;
  const int middle = first + left;
  Node& node = nodes[static_cast<std::size_t>(middle)];
  node.parent = parent;
  node.side = side;
  node.depth = depth;
  const int low = build(nodes, first, middle, middle, 0, depth + 1);
  const int high = build(nodes, middle + 1, end, middle, 1, depth + 1);
  node.children = {low, high};
  for (const int child : node.children) {
    if (child >= 0) node.height = std::max(node.height, nodes[static_cast<std::size_t>(child)].height + 1);
  }
  return middle;
}

// Tree 0 over the ranks, and tree 1 over the ranks shifted by one: who is inside of one is a leaf of the
// other, so that each rank sends and receives the whole vector about once (Sanders, Speck, Traeff 2009).
// `above` is in neither but talks to the roots of both; -1: nobody is.
struct TwoTrees {
  std::vector<Node> nodes;
  int above;
  explicit TwoTrees(int world, int root = -1)
      : nodes(static_cast<std::size_t>(root < 0 ? world : world - 1)), above(root) {
    build(nodes, 0, members(), -1, 0, 0);
  }
  int members() const { return static_cast<int>(nodes.size()); }
  int place(int tree, int rank) const { return (rank - (above >= 0 && rank > above) + tree) % members(); }
  int rank(int tree, int place) const {
    const int member = (place - tree + members()) % members();
    return member + (above >= 0 && member >= above);
  }
  int top(int tree) const {
    return rank(tree, static_cast<int>(std::ranges::find(nodes, -1, &Node::parent) - nodes.begin()));
  }
  const Node& node(int tree, int rank) const { return nodes[static_cast<std::size_t>(place(tree, rank))]; }
  int height() const { return std::ranges::max_element(nodes, {}, &Node::height)->height; }
  /// What a node sends up.
  Place payload(const Node& node) const { return node.height == 0 ? Place::input : Place::partial; }
};

// Steps with the rounds in which all ranks do them together: a step depends on smaller numbers only.
void reduce_up(PlanWriter& plan, const TwoTrees& trees, int tree) {
  const Node& node = trees.node(tree, plan.rank());
  bool first = true;
  std::array<int, 2> order = {0, 1};
  const auto height_of = [&](int side) {
    const int child = node.children[static_cast<std::size_t>(side)];
    return child < 0 ? -1 : 2 * trees.nodes[static_cast<std::size_t>(child)].height + side;
  };
  if (height_of(1) < height_of(0)) order = {1, 0};
  for (const int side : order) {
    const int child = node.children[static_cast<std::size_t>(side)];
    if (child < 0) continue;
    plan.at_round(height_of(side));
    plan.receive_reduce(trees.rank(tree, child), {Place::partial, tree},
                        {first ? Place::input : Place::partial, tree},
                        trees.payload(trees.nodes[static_cast<std::size_t>(child)]), side == 0);
    first = false;
  }
  if (node.parent < 0 && trees.above >= 0) {
    plan.at_round(2 * trees.height() + 2);
    plan.send(trees.above, {trees.payload(node), tree});
  } else if (node.parent < 0) {
    plan.at_round(2 * trees.height() + 2);
    if (first) plan.copy({Place::input, tree}, {Place::partial, tree});
    plan.at_round(2 * trees.height() + 3);
    plan.finish(tree);
  } else {
    plan.at_round(2 * node.height + node.side);
    plan.send(trees.rank(tree, node.parent), {trees.payload(node), tree});
  }
}

void broadcast_down(PlanWriter& plan, const TwoTrees& trees, int tree, int base) {
  const Node& node = trees.node(tree, plan.rank());
  if (node.parent >= 0) {
    plan.at_round(base + 2 * (node.depth - 1) + node.side);
    plan.receive(trees.rank(tree, node.parent), {Place::output, tree}, Place::output);
  } else if (trees.above >= 0) {
    plan.at_round(base - 1);
    plan.receive(trees.above, {Place::output, tree}, Place::input);
  }
  for (int side = 0; side < 2; ++side) {
    const int child = node.children[static_cast<std::size_t>(side)];
    if (child < 0) continue;
    plan.at_round(base + 2 * node.depth + side);
    plan.send(trees.rank(tree, child), {Place::output, tree});
  }
}

}  // namespace

Plan double_tree_all_reduce(const PlanRequest& request, int rank) {
  const TwoTrees trees(request.world);
  PlanWriter first(request, rank, "double_tree", 2);
  PlanWriter second(request, rank, "double_tree", 2);
  const int base = 2 * trees.height() + 4;
  reduce_up(first, trees, 0);
  broadcast_down(first, trees, 0, base);
  reduce_up(second, trees, 1);
  broadcast_down(second, trees, 1, base);
  return first.done_with(std::move(second));
}

Plan double_tree_broadcast(const PlanRequest& request, int rank) {
  PlanWriter first(request, rank, "double_tree", 2);
  if (rank == request.root) {
    for (const int tree : {0, 1}) first.copy({Place::input, tree}, {Place::output, tree});
  }
  if (request.world == 1) return first.done();
  const TwoTrees trees(request.world, request.root);
  if (rank == request.root) {
    for (const int tree : {0, 1}) first.send(trees.top(tree), {Place::input, tree});
    return first.done();
  }
  PlanWriter second(request, rank, "double_tree", 2);
  broadcast_down(first, trees, 0, 1);
  broadcast_down(second, trees, 1, 1);
  return first.done_with(std::move(second));
}

Plan double_tree_reduce(const PlanRequest& request, int rank) {
  PlanWriter first(request, rank, "double_tree", 2);
  if (request.world == 1) {
    for (const int tree : {0, 1}) first.copy({Place::input, tree}, {Place::partial, tree});
    first.next_round();
    for (const int tree : {0, 1}) first.finish(tree);
    return first.done();
  }
  const TwoTrees trees(request.world, request.root);
  if (rank == request.root) {
    first.at_round(2 * trees.height() + 2);
    for (const int tree : {0, 1}) {
      const int top = trees.top(tree);
      first.receive_reduce(top, {Place::partial, tree}, {Place::input, tree},
                           trees.payload(trees.node(tree, top)), rank > 0);
    }
    first.next_round();
    for (const int tree : {0, 1}) first.finish(tree);
    return first.done();
  }
  PlanWriter second(request, rank, "double_tree", 2);
  reduce_up(first, trees, 0);
  reduce_up(second, trees, 1);
  return first.done_with(std::move(second));
}

Plan binomial_broadcast(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "binomial_tree", 1);
  const int place = from_root(request, rank);
  if (place == 0) {
    plan.copy({Place::input, 0}, {Place::output, 0});
    plan.next_round();
  }
  plan.at_round(1);
  for (int mask = 1; mask < request.world; mask *= 2) {
    if (place < mask && place + mask < request.world) {
      plan.send(to_rank(request, place + mask), {place == 0 ? Place::input : Place::output, 0});
    } else if (place >= mask && place < 2 * mask) {
      plan.receive(to_rank(request, place - mask), {Place::output, 0}, Place::output);
    }
    plan.next_round();
  }
  return plan.done();
}

Plan binomial_reduce(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "binomial_tree", 1);
  const int place = from_root(request, rank);
  const auto has_children = [&](int of, int mask) { return mask > 1 && of + 1 < request.world; };
  At own{Place::input, 0};
  for (int mask = 1; mask < request.world; mask *= 2) {
    if (place % (2 * mask) == mask) {
      plan.send(to_rank(request, place - mask), own);
      return plan.done();
    }
    const int child = place + mask;
    if (child < request.world) {
      const Place payload = has_children(child, mask) ? Place::partial : Place::input;
      plan.receive_reduce(to_rank(request, child), {Place::partial, 0}, own, payload, false);
      own.place = Place::partial;
    }
    plan.next_round();
  }
  if (own.place == Place::input) plan.copy(own, {Place::partial, 0});
  plan.next_round();
  plan.finish(0);
  return plan.done();
}

// A rank of place p hands on the blocks of the places p, … p + mask - 1, counted from the root; those of
// others pass through scratch.
Plan binomial_gather(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "binomial_tree", request.world);
  const int place = from_root(request, rank);
  const bool is_root = place == 0;
  if (is_root) plan.copy({Place::input, rank}, {Place::output, rank});
  for (int mask = 1; mask < request.world; mask *= 2, plan.next_round()) {
    const bool gives = (place & mask) != 0;
    const int first = gives ? place : place + mask;
    for (int of = first; of < std::min(first + mask, request.world); ++of) {
      const int block = to_rank(request, of);
      const Place held = of == first ? Place::input : Place::scratch;  // by who gives it
      if (gives) {
        plan.send(to_rank(request, place - mask), {held, block});
      } else {
        if (!is_root) plan.scratch(request.world);
        plan.receive(to_rank(request, first), {is_root ? Place::output : Place::scratch, block}, held);
      }
    }
    if (gives) break;
  }
  return plan.done();
}

Plan binomial_scatter(const PlanRequest& request, int rank) {
  PlanWriter plan(request, rank, "binomial_tree", request.world);
  const int place = from_root(request, rank);
  const bool is_root = place == 0;
  if (is_root) plan.copy({Place::input, rank}, {Place::output, rank});
  for (int mask = static_cast<int>(std::bit_floor(static_cast<unsigned>(request.world))); mask > 0;
       mask /= 2) {
    const bool gets = place % (2 * mask) == mask;
    const bool gives = place % (2 * mask) == 0;
    const int first = gets ? place : place + mask;
    for (int of = first; (gets || gives) && of < std::min(first + mask, request.world); ++of) {
      const int block = to_rank(request, of);
      if (gives) {
        plan.send(to_rank(request, first), {is_root ? Place::input : Place::scratch, block});
      } else {
        const int parent = place - mask;
        if (of > first) plan.scratch(request.world);
        plan.receive(to_rank(request, parent), {of == first ? Place::output : Place::scratch, block},
                     parent == 0 ? Place::input : Place::scratch);
      }
    }
    plan.next_round();
  }
  return plan.done();
}

}  // namespace diji::collective
