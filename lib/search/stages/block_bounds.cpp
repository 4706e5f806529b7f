#include "search/stages/block_bounds.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "assignment/cost_table.h"
#include "base/in_parallel.h"
#include "base/interruption.h"
#include "search/fair_limit.h"
#include "search/plan_builder.h"

namespace autopar::search {

namespace {

using assignment::AssignmentProblem;
using assignment::Cost;
using assignment::impossible;

/// Blocks of a length are solved where no more than so many differ, besides single layers.
constexpr int most_kinds_of_blocks = 8;
/// For the bound of a block alone.
constexpr double most_seconds_a_block = 10;
constexpr int most_price_steps = 8;

/// The problem of a run of layers on one view.
struct Block {
  int begin;
  int end;
  int view;
  bool is_first;  ///< of its stage: what arrives is priced
};

SharedFlags shared_flags(const StageFacts& facts, int begin, int end) {
  const graph::StageGraph stage = facts.cut(begin, end);
  SharedFlags flags(stage.graph.values.size(), false);
  for (std::size_t v = 0; v < flags.size(); ++v) {
    const auto readers = facts.readers.find(stage.graph.values[v].name);
    if (readers == facts.readers.end()) continue;
    flags[v] = readers->second.first < begin || readers->second.second >= end;
  }
  return flags;
}

/// A block's problem.
struct Relaxation {
  AssignmentProblem problem;
  std::vector<int> weights;  ///< nodes of the problem: those that no other block reads
  std::int64_t fair = 0;     ///< bytes that these may take by the stage's limit on weights
  std::int64_t slack = 0;    ///< bytes above the least that those may take which others read, too
};

/// Adds the price of what strategies take to what they cost, rounded down.
void set_price(AssignmentProblem& problem, const std::vector<int>& nodes, double price) {
  if (price == 0) return;
  for (const int id : nodes) {
    AssignmentProblem::Node& node = problem.nodes[id];
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      const double paid = price * static_cast<double>(node.usages[s]);
      node.costs[s] = assignment::plus(
          node.costs[s], static_cast<Cost>(std::min(paid, static_cast<double>(impossible))));
    }
  }
}

Relaxation relaxation(const StageFacts& facts, const Block& block) {
  const graph::StageGraph stage = facts.cut(block.begin, block.end);
  const std::span<const graph::ValueId> received(stage.received);
  SearchOptions options;
  options.keep_partial = facts.options.keep_partial;
  options.memory = MemoryPolicy::unlimited();
  const cost::CostModel& model = facts.views[block.view].model;
  PlanProblem built = build_plan_problem(stage.graph, model, options,
                                         block.is_first ? received : received.first(0));
  Relaxation made{.problem = std::move(built.problem), .weights = {}};
  made.problem.usage_limits.clear();
  const SharedFlags shared = shared_flags(facts, block.begin, block.end);
  std::set<int> free_nodes;
  for (const auto& [value, index] : built.parts.front().stored) {
    const PlanProblem::Stored& stored = built.stored[index];
    if (shared[value]) free_nodes.insert(stored.node);
    if (!stage.graph.is_constant(value)) continue;
    const std::int64_t least = std::ranges::min(made.problem.nodes[stored.node].usages);
    const std::int64_t fair = fair_share(stage.graph.value(value).constant->size_bytes(),
                                         model.mesh().num_devices(), least);
    if (shared[value]) {
      made.slack += fair - least;
    } else {
      made.fair += fair;
      made.weights.push_back(stored.node);
    }
  }
  if (!block.is_first) {
    for (const graph::ValueId value : received) free_nodes.insert(built.stored_of(value).node);
  }
  std::erase_if(made.problem.edges, [&](const AssignmentProblem::Edge& edge) {
    return free_nodes.contains(edge.a) || free_nodes.contains(edge.b);
  });
  return made;
}

/// A value of the bound as a concave function of the price, and its slope there.
struct Point {
  double price;
  double bound;
  double slope;  ///< bytes above what may be taken
};

Point point_at(const Relaxation& relaxed, double price, const assignment::Deadline& deadline) {
  AssignmentProblem problem = relaxed.problem;
  set_price(problem, relaxed.weights, price);
  const assignment::Solution solution = solve(
      problem,
      {.time_limit_seconds = std::max(0.0, deadline.left()), .patience_seconds = 1, .threads = 1});
  Point point{price, -price * static_cast<double>(relaxed.fair), 0};
  if (solution.choice.empty()) return point;
  point.bound += static_cast<double>(solution.cost);
  std::int64_t taken = 0;
  for (const int node : relaxed.weights) taken += problem.nodes[node].usages[solution.choice[node]];
  point.slope = static_cast<double>(taken - relaxed.fair);
  return point;
}

/// A layer of the most frequent kind.
int typical_layer(const StageFacts& facts) {
  std::map<int, std::pair<int, int>> kinds;  // how many, and one of them
  for (int layer = 0; layer < facts.layers(); ++layer) {
    auto& [count, one] = kinds[facts.classes.of(layer, layer + 1)];
    ++count;
    one = layer;
  }
  const auto by_count = [](const auto& kind) { return kind.second.first; };
  return std::ranges::max_element(kinds, {}, by_count)->second.second;
}

/// No part of a stage's plan that falls to the block costs less, where a byte of weights costs
/// `price`; `-impossible` where nothing is known.
Cost relaxed_bound(const StageFacts& facts, const Block& block, double price, double seconds_left) {
  if (seconds_left <= 0 || was_interrupted()) return price > 0 ? -impossible : 0;
  Relaxation relaxed = relaxation(facts, block);
  set_price(relaxed.problem, relaxed.weights, price);
  const assignment::Solution solution =
      solve(relaxed.problem, {.time_limit_seconds = std::min(seconds_left, most_seconds_a_block),
                              .patience_seconds = 1,
                              .threads = 1});
  // What a price makes impossible may be possible all the same.
  if (solution.status == assignment::Status::infeasible)
    return price > 0 ? -impossible : impossible;
  const double allowed = price * static_cast<double>(relaxed.fair + relaxed.slack);
  if (allowed >= static_cast<double>(impossible)) return -impossible;
  return solution.lower_bound - static_cast<Cost>(std::ceil(allowed));
}

/// The price of a byte of weights under which a layer of the most frequent kind has the greatest
/// bound; 0 where weights are not limited. The bound's maximum is where two of its tangents meet,
/// one of either sign: the point there takes the place of one of them until it lies on both.
double price_of_weights(const StageFacts& facts, int view, double seconds_left) {
  if (facts.options.memory.kind != MemoryPolicy::Kind::fair) return 0;
  if (seconds_left <= 0 || was_interrupted()) return 0;
  const assignment::Deadline deadline(std::min(seconds_left, most_seconds_a_block));
  const int layer = typical_layer(facts);
  const Relaxation relaxed = relaxation(facts, {layer, layer + 1, view, false});
  const auto at_price = [&](double price) { return point_at(relaxed, price, deadline); };
  Point low = at_price(0);
  if (low.slope <= 0 || relaxed.fair == 0) return 0;
  Point high = at_price(std::max(1.0, low.bound) / static_cast<double>(relaxed.fair));
  for (int k = 0; k < most_price_steps && high.slope > 0 && !deadline.is_over(); ++k) {
    low = high;
    high = at_price(8 * high.price);
  }
  for (int k = 0; k < most_price_steps && high.slope < 0 && !deadline.is_over(); ++k) {
    const double price =
        (high.bound - low.bound + low.slope * low.price - high.slope * high.price) /
        (low.slope - high.slope);
    if (!(price > low.price && price < high.price)) break;
    const Point between = at_price(price);
    const double tangents = low.bound + low.slope * (price - low.price);
    (between.slope > 0 ? low : high) = between;
    if (between.bound >= tangents - 1) break;
  }
  return low.bound > high.bound ? low.price : high.price;
}

Cost sum_of_bounds(Cost a, Cost b) {
  return a <= -impossible || b <= -impossible ? -impossible : assignment::plus(a, b);
}

}  // namespace

Cost BlockBounds::of(int view, int begin, int end) const {
  const View& on = views_[view];
  return on.first.empty() ? -impossible : on.first[facts_.place(begin, end)];
}

bool BlockBounds::is_worth_refining(int view, int level) const {
  if (facts_.options.method != SearchMethod::ilp ||
      facts_.views[view].model.mesh().num_devices() == 1)
    return false;
  if (level == 0) return true;
  std::set<int> kinds;
  const int length = 1 << level;
  for (int begin = 0; begin + length <= facts_.layers(); ++begin)
    kinds.insert(facts_.classes.of(begin, begin + length));
  return static_cast<int>(kinds.size()) <= most_kinds_of_blocks;
}

void BlockBounds::refine(const std::map<int, int>& levels, const assignment::Deadline& deadline) {
  std::vector<int> fresh;
  for (const auto& [view, level] : levels) {
    if (views_[view].inner.empty()) fresh.push_back(view);
  }
  in_parallel(fresh.size(),
              [&](std::size_t i) { views_[fresh[i]] = begun(fresh[i], deadline.left()); });
  std::map<Key, Block> wanted;
  std::map<std::pair<int, int>, SharedFlags> flags;
  std::vector<std::pair<Block, Key>> blocks;
  for (const auto& [view, level] : levels) {
    const int length = 1 << level;
    for (int begin = 0; begin + length <= facts_.layers(); ++begin) {
      const int kind = facts_.classes.of(begin, begin + length);
      if (!facts_.flows_alike[kind]) continue;
      auto& shared = flags[{begin, length}];
      if (shared.empty()) shared = shared_flags(facts_, begin, begin + length);
      for (const bool is_first : {false, true}) {
        const Block block{begin, begin + length, view, is_first};
        Key key{kind, view, is_first, shared};
        if (!solved_.contains(key)) wanted.try_emplace(key, block);
        blocks.emplace_back(block, std::move(key));
      }
    }
  }
  const std::vector<std::pair<Key, Block>> jobs(wanted.begin(), wanted.end());
  std::vector<Cost> bounds(jobs.size(), 0);
  in_parallel(jobs.size(), [&](std::size_t i) {
    const Block& block = jobs[i].second;
    bounds[i] = relaxed_bound(facts_, block, views_[block.view].price, deadline.left());
  });
  for (std::size_t i = 0; i < jobs.size(); ++i) solved_.emplace(jobs[i].first, bounds[i]);
  for (const auto& [block, key] : blocks) {
    View& on = views_[block.view];
    Cost& bound = (block.is_first ? on.first : on.inner)[facts_.place(block.begin, block.end)];
    bound = std::max(bound, solved_.at(key));
  }
  for (const auto& [view, level] : levels) {
    views_[view].level = std::max(views_[view].level, level);
    compose(views_[view]);
  }
}

/// A view's bounds by operators alone.
BlockBounds::View BlockBounds::begun(int view, double seconds_left) const {
  View begun;
  begun.price = price_of_weights(facts_, view, seconds_left);
  begun.inner.assign(facts_.cuts.size() * facts_.cuts.size(), -impossible);
  if (begun.price == 0) {
    const std::vector<Cost>& operators = facts_.operator_bounds[facts_.views[view].size];
    for (int layer = 0; layer < facts_.layers(); ++layer)
      begun.inner[facts_.place(layer, layer + 1)] = operators[layer + 1] - operators[layer];
  }
  begun.first = begun.inner;
  return begun;
}

/// The best partition of every run into blocks that are known.
void BlockBounds::compose(View& view) const {
  for (int length = 2; length <= facts_.layers(); ++length) {
    for (int begin = 0; begin + length <= facts_.layers(); ++begin) {
      const int end = begin + length;
      if (!facts_.flows_alike[facts_.classes.of(begin, end)]) continue;
      Cost& inner = view.inner[facts_.place(begin, end)];
      Cost& first = view.first[facts_.place(begin, end)];
      for (int between = begin + 1; between < end; ++between) {
        const Cost rest = view.inner[facts_.place(between, end)];
        inner = std::max(inner, sum_of_bounds(view.inner[facts_.place(begin, between)], rest));
        first = std::max(first, sum_of_bounds(view.first[facts_.place(begin, between)], rest));
      }
    }
  }
}

}  // namespace autopar::search
