#include "assignment/elimination/elimination.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "assignment/elimination/bucket_tree.h"
#include "assignment/memo.h"
#include "base/simd_clones.h"

namespace autopar::assignment {

namespace {

/// Sums between two looks at the deadline.
constexpr double sums_between_looks = 1e7;

/// By bucket, the least cost of its subtree by the strategies of its separator. Which strategy of
/// its node has it is found again where it is asked for: that is one cell of each table.
using Tables = std::vector<std::shared_ptr<const CostTable>>;

AUTOPAR_SIMD_CLONES
void add(const Cost* costs, const Cost* more, std::size_t count, Cost* sums) {
  for (std::size_t s = 0; s < count; ++s) {
    const Cost sum = costs[s] + more[s];  // of two that are at most `impossible`
    sums[s] = sum < impossible ? sum : impossible;
  }
}

AUTOPAR_SIMD_CLONES
Cost least_sum(const Cost* costs, const Cost* more, std::size_t count) {
  Cost least = impossible;
  for (std::size_t s = 0; s < count; ++s) {
    const Cost sum = costs[s] + more[s];
    least = sum < least ? sum : least;
  }
  return least;
}

/// By row and column, the least sum of their costs side by side, `count` of each. Rows stand
/// together, columns `stride` apart. Eight at a time, so that each cost is loaded for several.
AUTOPAR_SIMD_CLONES
void least_sums(const Cost* rows, std::size_t row_count, const Cost* columns,
                std::size_t column_count, std::size_t stride, std::size_t count, Cost* least) {
  const auto lower = [](Cost& a, Cost b) { a = b < a ? b : a; };
  for (std::size_t c = 0; c < column_count; c += 2) {
    const Cost* const left = columns + c * stride;
    const Cost* const right = c + 1 < column_count ? left + stride : left;
    for (std::size_t r = 0; r < row_count; r += 4) {
      const auto row = [&](std::size_t k) { return rows + std::min(r + k, row_count - 1) * count; };
      const Cost* const a = row(0);
      const Cost* const b = row(1);
      const Cost* const d = row(2);
      const Cost* const e = row(3);
      Cost al = impossible, bl = impossible, dl = impossible, el = impossible;
      Cost ar = impossible, br = impossible, dr = impossible, er = impossible;
      for (std::size_t s = 0; s < count; ++s) {
        const Cost l = left[s];
        const Cost m = right[s];
        lower(al, a[s] + l);
        lower(ar, a[s] + m);
        lower(bl, b[s] + l);
        lower(br, b[s] + m);
        lower(dl, d[s] + l);
        lower(dr, d[s] + m);
        lower(el, e[s] + l);
        lower(er, e[s] + m);
      }
      const Cost tile[4][2] = {{al, ar}, {bl, br}, {dl, dr}, {el, er}};
      for (std::size_t k = 0; k < 4 && r + k < row_count; ++k)
        for (std::size_t m = 0; m < 2 && c + m < column_count; ++m)
          least[(r + k) * column_count + c + m] = tile[k][m];
    }
  }
}

/// One of the tables that a bucket sums: costs with its node's strategies side by side.
struct Summand {
  CostTable costs;
  std::vector<std::size_t> steps;  ///< by the separator's nodes
};

/// The table of an edge with the strategies of `node`, one of its two, in its rows.
CostTable in_rows(const AssignmentProblem& problem, const AssignmentProblem::Edge& edge, int node) {
  if (edge.b == node) return edge.costs;
  const std::size_t own = problem.nodes[edge.a].costs.size();
  const std::size_t others = problem.nodes[edge.b].costs.size();
  std::vector<Cost> turned(edge.costs.size());
  for (std::size_t s = 0; s < own; ++s)
    for (std::size_t t = 0; t < others; ++t) turned[t * own + s] = edge.costs[s * others + t];
  return turned;
}

/// Sums a bucket's tables from one node of the separator to the next, so that a sum over the first
/// few serves all strategies of the others.
class BucketSum {
 public:
  BucketSum(const AssignmentProblem& problem, const BucketTree& tree, const Bucket& bucket,
            const Tables& tables, const Deadline& deadline)
      : deadline_(deadline), own_(tree.strategies(bucket.node)) {
    for (const int i : bucket.separator()) strategies_.push_back(tree.strategies(i));
    digits_.resize(strategies_.size());
    levels_.resize(strategies_.size() + 1);
    sums_.assign(levels_.size(), std::vector<Cost>(own_));
    costs_.reserve(tree.cells(bucket));
    const auto strides = tree.strides(bucket);
    std::size_t table = 0;
    for (const std::size_t k : bucket.edges) {
      const AssignmentProblem::Edge& edge = problem.edges[k];
      add_summand(in_rows(problem, edge, bucket.node), strides, table++,
                  edge.b == bucket.node ? 1 : own_);
    }
    for (const std::size_t child : bucket.children) {
      // Another component's table, at the root, is one number.
      const bool is_number = tree.buckets()[child].separator().empty();
      add_summand(is_number ? std::vector(own_, (*tables[child])[0]) : *tables[child], strides,
                  table++, 1);
    }
    join_last_summands();
    sums_[0] = problem.nodes[bucket.node].costs;
    for (const Summand& summand : levels_[0]) add_to(sums_[0], summand, 0, sums_[0]);
  }

  /// nullopt where the deadline came.
  std::optional<CostTable> run() {
    if (strategies_.empty())
      costs_.push_back(std::ranges::min(sums_[0]));
    else
      descend(0);
    if (is_over_) return std::nullopt;
    return CostTable(std::move(costs_));
  }

 private:
  /// `strides` are BucketTree's, by node and table; `row` is what one of them counts for: the
  /// length of a row where the table was turned, whose rows were its columns.
  void add_summand(CostTable costs, const std::vector<std::vector<std::size_t>>& strides,
                   std::size_t table, std::size_t row) {
    Summand summand{std::move(costs), {}};
    std::size_t level = 0;
    for (std::size_t k = 0; k < strategies_.size(); ++k) {
      summand.steps.push_back(strides[k][table] * row);
      if (summand.steps.back() > 0) level = k + 1;
    }
    levels_[level].push_back(std::move(summand));
  }

  /// The row of own strategies at the digits of the first so many levels.
  const Cost* row_of(const Summand& summand, std::size_t level) const {
    std::size_t place = 0;
    for (std::size_t k = 0; k < level; ++k) place += digits_[k] * summand.steps[k];
    return summand.costs.begin() + place;
  }

  void add_to(const std::vector<Cost>& costs, const Summand& summand, std::size_t level,
              std::vector<Cost>& sums) const {
    add(costs.data(), row_of(summand, level), own_, sums.data());
  }

  /// Whether it depends on the separator's last node alone.
  bool is_of_last(const Summand& summand) const {
    return std::all_of(summand.steps.begin(), summand.steps.end() - 1,
                       [](std::size_t step) { return step == 0; });
  }

  /// Sums that serve all strategies of the other nodes are made once.
  void join_last_summands() {
    std::vector<Summand>& summands = levels_.back();
    if (strategies_.empty() || summands.size() < 2 ||
        !std::ranges::all_of(summands, [&](const Summand& summand) { return is_of_last(summand); }))
      return;
    std::vector<Cost> joined(strategies_.back() * own_, 0);
    for (const Summand& summand : summands)
      for (std::size_t digit = 0; digit < strategies_.back(); ++digit) {
        Cost* const sums = joined.data() + digit * own_;
        add(sums, summand.costs.begin() + digit * summand.steps.back(), own_, sums);
      }
    std::vector<std::size_t> steps(strategies_.size(), 0);
    steps.back() = own_;
    summands.clear();
    summands.push_back({CostTable(std::move(joined)), std::move(steps)});
  }

  void descend(std::size_t level) {
    if (level + 1 == strategies_.size()) return fill_cells(level);
    if (level + 2 == strategies_.size() && levels_.back().size() == 1 &&
        is_of_last(levels_.back().front()))
      return fill_rows(level);
    const auto& summands = levels_[level + 1];
    for (std::size_t digit = 0; digit < strategies_[level] && !is_over_; ++digit) {
      digits_[level] = digit;
      if (summands.empty()) sums_[level + 1] = sums_[level];
      for (std::size_t k = 0; k < summands.size(); ++k)
        add_to(sums_[k == 0 ? level : level + 1], summands[k], level + 1, sums_[level + 1]);
      descend(level + 1);
    }
  }

  /// The cells along the last two nodes of the separator, some strategies of the one at a time, so
  /// that what depends on the last node alone is read once for them.
  void fill_rows(std::size_t level) {
    constexpr std::size_t most_rows = 8;
    const Summand& last = levels_.back().front();
    std::vector<Cost> rows(most_rows * own_);
    for (std::size_t first = 0; first < strategies_[level] && !is_over_; first += most_rows) {
      const std::size_t count = std::min(most_rows, strategies_[level] - first);
      for (std::size_t r = 0; r < count; ++r) {
        digits_[level] = first + r;
        Cost* const sums = rows.data() + r * own_;
        std::ranges::copy(sums_[level], sums);
        for (const Summand& summand : levels_[level + 1])
          add(sums, row_of(summand, level + 1), own_, sums);
      }
      const std::size_t filled = costs_.size();
      costs_.resize(filled + count * strategies_.back());
      least_sums(rows.data(), count, last.costs.begin(), strategies_.back(), last.steps.back(),
                 own_, costs_.data() + filled);
      look_after(static_cast<double>(own_ * count * strategies_.back()));
    }
  }

  /// The cells along the last node of the separator: its last summand is added on the way.
  void fill_cells(std::size_t level) {
    const auto& summands = levels_[level + 1];
    if (summands.empty()) {
      costs_.insert(costs_.end(), strategies_[level], std::ranges::min(sums_[level]));
    } else {
      for (std::size_t digit = 0; digit < strategies_[level]; ++digit) {
        digits_[level] = digit;
        std::size_t from = level;
        for (std::size_t k = 0; k + 1 < summands.size(); ++k, from = level + 1)
          add_to(sums_[from], summands[k], level + 1, sums_[level + 1]);
        costs_.push_back(least_sum(sums_[from].data(), row_of(summands.back(), level + 1), own_));
      }
    }
    look_after(static_cast<double>(own_ * strategies_[level]));
  }

  /// Looks at the deadline after some more sums.
  void look_after(double sums) {
    since_look_ += sums;
    if (since_look_ < sums_between_looks) return;
    since_look_ = 0;
    is_over_ = deadline_.is_over();
  }

  const Deadline& deadline_;
  const std::size_t own_;                     ///< strategies of the bucket's node
  std::vector<std::size_t> strategies_;       ///< of the separator's nodes
  std::vector<std::vector<Summand>> levels_;  ///< by the number of nodes that decide their place
  std::vector<std::vector<Cost>> sums_;       ///< by level and own strategy
  std::vector<std::size_t> digits_;           ///< the separator's nodes' strategies at present
  std::vector<Cost> costs_;
  double since_look_ = 0;
  bool is_over_ = false;
};

/// Everything that the bucket's table depends on, but for the tables of its children.
MemoKey key_of(const AssignmentProblem& problem, const BucketTree& tree, const Bucket& bucket) {
  MemoKey key;
  key.add(problem.nodes[bucket.node].costs);
  for (const int i : bucket.separator()) key.add(tree.strategies(i));
  for (const auto& steps : tree.strides(bucket)) key.add(steps);
  for (const std::size_t edge : bucket.edges) key.add(problem.edges[edge].costs);
  return key;
}

/// Chooses the node's first strategy that costs least with what is chosen of its separator.
void choose_strategy(const AssignmentProblem& problem, const BucketTree& tree, const Bucket& bucket,
                     const Tables& tables, Choice& choice) {
  const std::vector<Cost>& own = problem.nodes[bucket.node].costs;
  int best = 0;
  Cost least = impossible;
  for (int s = 0; s < std::ssize(own); ++s) {
    choice[bucket.node] = s;
    Cost cost = own[s];
    for (const std::size_t k : bucket.edges) {
      const auto& [a, b, costs] = problem.edges[k];
      cost = plus(cost, costs[choice[a] * tree.strategies(b) + choice[b]]);
    }
    for (const std::size_t child : bucket.children) {
      std::size_t cell = 0;
      for (const int i : tree.buckets()[child].separator())
        cell = cell * tree.strategies(i) + choice[i];
      cost = plus(cost, (*tables[child])[cell]);
    }
    if (cost >= least) continue;
    least = cost;
    best = s;
  }
  choice[bucket.node] = best;
}

double cells_of(const BucketTree& tree, const Bucket& bucket) {
  return static_cast<double>(tree.cells(bucket)) *
         static_cast<double>(tree.strategies(bucket.node));
}

}  // namespace

std::optional<double> cells_to_eliminate(const AssignmentProblem& problem, double most_cells,
                                         EliminationOrder order) {
  auto tree = BucketTree::make(problem, {.order = order, .most_cells = most_cells});
  if (!tree) return std::nullopt;
  tree->put_parents_last();
  double cells = 0;
  Memo<std::size_t> memo;  // a number for each table
  std::vector<std::size_t> numbers;
  for (const Bucket& bucket : tree->buckets()) {
    MemoKey key = key_of(problem, *tree, bucket);
    for (const std::size_t child : bucket.children) key.add(numbers[child]);
    numbers.push_back(*memo.get(key, [&] {
      cells += cells_of(*tree, bucket);
      return numbers.size();
    }));
  }
  return cells;
}

std::optional<Choice> choose_by_elimination(const AssignmentProblem& problem,
                                            const EliminationLimits& limits, double* looked_at) {
  auto tree = BucketTree::make(problem, {.order = limits.order,
                                         .most_cells_of_a_table = limits.most_cells_of_a_table,
                                         .deadline = limits.deadline});
  if (!tree) return std::nullopt;
  tree->put_parents_last();
  // Isomorphic parts have the same tables.
  Memo<CostTable> memo;
  Tables tables;
  for (const Bucket& bucket : tree->buckets()) {
    bool is_over = false;
    MemoKey key = key_of(problem, *tree, bucket);
    for (const std::size_t child : bucket.children) key.add(*tables[child]);
    tables.push_back(memo.get(key, [&] {
      if (looked_at) *looked_at += cells_of(*tree, bucket);
      auto table = BucketSum(problem, *tree, bucket, tables, limits.deadline).run();
      is_over = !table;
      return table.value_or(CostTable());
    }));
    if (is_over) return std::nullopt;
  }
  if (!tables.empty() && (*tables.back())[0] >= impossible) return std::nullopt;
  Choice choice(problem.nodes.size(), 0);
  for (std::size_t k = tables.size(); k-- > 0;)
    choose_strategy(problem, *tree, tree->buckets()[k], tables, choice);
  return choice;
}

}  // namespace autopar::assignment
