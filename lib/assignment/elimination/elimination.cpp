#include "assignment/elimination/elimination.h"

#include <algorithm>
#include <cstring>
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

/// Columns that are summed at a time: as many costs as a vector of AVX-512 holds.
constexpr std::size_t columns_a_block = 8;

/// By row and column, the least of `count` sums of a row's and a column's costs. Each row's costs
/// stand together; of each block of columns, those of one sum do. Rows of `least` are `stride`
/// apart.
AUTOPAR_SIMD_CLONES
void least_sums(const Cost* rows, std::size_t row_count, const Cost* blocks,
                std::size_t column_count, std::size_t count, Cost* least, std::size_t stride) {
  using Lanes [[gnu::vector_size(columns_a_block * sizeof(Cost))]] = Cost;
  for (std::size_t c = 0; c < column_count; c += columns_a_block) {
    const Cost* const block = blocks + c * count;
    const std::size_t filled = std::min(columns_a_block, column_count - c);
    for (std::size_t r = 0; r < row_count; r += 4) {
      const Cost* const first = rows + r * count;
      const Cost* const second = rows + std::min(r + 1, row_count - 1) * count;
      const Cost* const third = rows + std::min(r + 2, row_count - 1) * count;
      const Cost* const fourth = rows + std::min(r + 3, row_count - 1) * count;
      Lanes least_of[4];
      for (Lanes& each : least_of) each = Lanes{} + impossible;
      for (std::size_t s = 0; s < count; ++s) {
        Lanes costs;
        std::memcpy(&costs, block + s * columns_a_block, sizeof costs);
        const Lanes sums[] = {costs + first[s], costs + second[s], costs + third[s],
                              costs + fourth[s]};
        for (std::size_t k = 0; k < 4; ++k)
          least_of[k] = sums[k] < least_of[k] ? sums[k] : least_of[k];
      }
      for (std::size_t k = 0; k < 4 && r + k < row_count; ++k)
        for (std::size_t m = 0; m < filled; ++m) least[(r + k) * stride + c + m] = least_of[k][m];
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

/// The tables of the bucket's edges and children.
std::vector<Summand> summands_of(const AssignmentProblem& problem, const BucketTree& tree,
                                 const Bucket& bucket, const BucketTree::Strides& strides,
                                 const Tables& tables) {
  std::vector<Summand> summands;
  // `row`: the places that a step of 1 is, more than one in a table whose columns became rows.
  const auto add = [&](CostTable costs, std::size_t row) {
    std::vector<std::size_t> steps;
    for (std::size_t k = 0; k < bucket.separator().size(); ++k)
      steps.push_back(strides[k][summands.size()] * row);
    summands.push_back({std::move(costs), std::move(steps)});
  };
  const std::size_t own = tree.strategies(bucket.node);
  for (const std::size_t k : bucket.edges) {
    const AssignmentProblem::Edge& edge = problem.edges[k];
    add(in_rows(problem, edge, bucket.node), edge.b == bucket.node ? 1 : own);
  }
  for (const std::size_t child : bucket.children) {
    // Another component's table, at the root, is one number.
    const bool is_number = tree.buckets()[child].separator().empty();
    add(is_number ? std::vector(own, (*tables[child])[0]) : *tables[child], 1);
  }
  return summands;
}

/// The place of the node of most strategies, if many, that no summand depends on together with the
/// separator's last node.
std::optional<std::size_t> find_rows(const std::vector<Summand>& summands,
                                     const std::vector<std::size_t>& strategies) {
  constexpr std::size_t fewest_rows = 8;
  std::optional<std::size_t> rows;
  for (std::size_t k = 0; k + 1 < strategies.size(); ++k) {
    const auto joins = [&](const Summand& summand) {
      return summand.steps[k] > 0 && summand.steps.back() > 0;
    };
    if (strategies[k] >= (rows ? strategies[*rows] + 1 : fewest_rows) &&
        std::ranges::none_of(summands, joins))
      rows = k;
  }
  return rows;
}

/// Sums a bucket's tables from one node of the separator to the next, so that a sum over the first
/// few serves all strategies of the others. Where there is a node that no summand joins with the
/// last one, its strategies and those of the last are rows and columns of sums of two.
class BucketSum {
 public:
  BucketSum(const AssignmentProblem& problem, const BucketTree& tree, const Bucket& bucket,
            const BucketTree::Strides& strides, const Tables& tables, const Deadline& deadline)
      : deadline_(deadline), own_(tree.strategies(bucket.node)) {
    for (const int i : bucket.separator()) strategies_.push_back(tree.strategies(i));
    const std::size_t levels = strategies_.size();
    cell_steps_.assign(levels, 1);
    for (std::size_t k = levels; k-- > 1;) cell_steps_[k - 1] = cell_steps_[k] * strategies_[k];
    std::vector<Summand> summands = summands_of(problem, tree, bucket, strides, tables);
    if (const auto rows = find_rows(summands, strategies_)) {
      has_rows_ = true;
      const auto move_behind_others = [&](std::vector<std::size_t>& by_level) {
        std::rotate(by_level.begin() + *rows, by_level.begin() + *rows + 1, by_level.end() - 1);
      };
      for (Summand& summand : summands) move_behind_others(summand.steps);
      move_behind_others(strategies_);
      move_behind_others(cell_steps_);
    }
    levels_.resize(levels + 1);
    for (Summand& summand : summands) {
      std::size_t level = levels;
      while (level > 0 && summand.steps[level - 1] == 0) --level;
      levels_[level].push_back(std::move(summand));
    }
    digits_.resize(levels);
    sums_.assign(levels + 1, std::vector<Cost>(own_));
    costs_.resize(tree.cells(bucket));
    sums_[0] = problem.nodes[bucket.node].costs;
    for (const Summand& summand : levels_[0]) add_to(sums_[0], summand, 0, sums_[0]);
  }

  /// nullopt where the deadline came.
  std::optional<CostTable> run() {
    if (strategies_.empty())
      costs_[0] = std::ranges::min(sums_[0]);
    else
      descend(0, 0);
    if (is_over_) return std::nullopt;
    return CostTable(std::move(costs_));
  }

 private:
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

  /// `cell`: the place in the table at the digits of the levels before.
  void descend(std::size_t level, std::size_t cell) {
    if (level + 1 == strategies_.size()) return fill_cells(level, cell);
    if (level + 2 == strategies_.size() && has_rows_) return fill_rows(level, cell);
    const auto& summands = levels_[level + 1];
    for (std::size_t digit = 0; digit < strategies_[level] && !is_over_; ++digit) {
      digits_[level] = digit;
      if (summands.empty()) sums_[level + 1] = sums_[level];
      for (std::size_t k = 0; k < summands.size(); ++k)
        add_to(sums_[k == 0 ? level : level + 1], summands[k], level + 1, sums_[level + 1]);
      descend(level + 1, cell + digit * cell_steps_[level]);
    }
  }

  /// Makes blocks of the columns at the present digits, if they are not made yet.
  void make_columns() {
    const std::vector<Summand>& summands = levels_.back();
    const auto is_of_last = [](const Summand& summand) {
      return std::all_of(summand.steps.begin(), summand.steps.end() - 1,
                         [](std::size_t step) { return step == 0; });
    };
    if (!columns_.empty() && std::ranges::all_of(summands, is_of_last)) return;
    const std::size_t count = strategies_.back();
    columns_.resize((count + columns_a_block - 1) / columns_a_block * columns_a_block * own_);
    std::vector<Cost> sums(own_);
    for (std::size_t digit = 0; digit < count; ++digit) {
      digits_.back() = digit;
      std::ranges::fill(sums, 0);
      for (const Summand& summand : summands) add_to(sums, summand, digits_.size(), sums);
      const std::size_t in_block = digit % columns_a_block;
      Cost* const column = columns_.data() + (digit - in_block) * own_ + in_block;
      for (std::size_t s = 0; s < own_; ++s) column[s * columns_a_block] = sums[s];
    }
  }

  /// The cells along the last two levels, some rows at a time.
  void fill_rows(std::size_t level, std::size_t cell) {
    constexpr std::size_t most_rows = 16;
    digits_[level] = 0;  // columns do not depend on it
    make_columns();
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
      least_sums(rows.data(), count, columns_.data(), strategies_.back(), own_,
                 costs_.data() + cell + first * cell_steps_[level], cell_steps_[level]);
      look_after(static_cast<double>(own_ * count * strategies_.back()));
    }
  }

  /// The cells along the last level: its last summand is added on the way.
  void fill_cells(std::size_t level, std::size_t cell) {
    const auto& summands = levels_[level + 1];
    Cost* const cells = costs_.data() + cell;
    if (summands.empty()) {
      std::fill_n(cells, strategies_[level], std::ranges::min(sums_[level]));
    } else {
      for (std::size_t digit = 0; digit < strategies_[level]; ++digit) {
        digits_[level] = digit;
        std::size_t from = level;
        for (std::size_t k = 0; k + 1 < summands.size(); ++k, from = level + 1)
          add_to(sums_[from], summands[k], level + 1, sums_[level + 1]);
        cells[digit] = least_sum(sums_[from].data(), row_of(summands.back(), level + 1), own_);
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
  bool has_rows_ = false;                     ///< whether the last two levels are rows and columns
  std::vector<std::size_t> strategies_;       ///< by level, one for each node of the separator
  std::vector<std::size_t> cell_steps_;       ///< by level
  std::vector<std::vector<Summand>> levels_;  ///< by the number of levels that decide their place
  std::vector<std::vector<Cost>> sums_;       ///< by level and own strategy
  std::vector<std::size_t> digits_;           ///< by level, the strategies at present
  std::vector<Cost> columns_;                 ///< blocks of the last level's sums
  std::vector<Cost> costs_;
  double since_look_ = 0;
  bool is_over_ = false;
};

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

}  // namespace

Elimination::Elimination(BucketTree tree) : tree_(std::move(tree)) {
  tree_.put_parents_last();
  Memo<std::size_t> memo;
  for (const Bucket& bucket : tree_.buckets()) {
    strides_.push_back(tree_.strides(bucket));
    MemoKey key;
    for (const int i : bucket.separator()) key.add(tree_.strategies(i));
    for (const auto& steps : strides_.back()) key.add(steps);
    shapes_.push_back(*memo.get(key, [&] { return shapes_.size(); }));
  }
}

std::optional<Elimination> Elimination::make(const AssignmentProblem& problem,
                                             const BucketTree::Limits& limits) {
  auto tree = BucketTree::make(problem, limits);
  if (!tree) return std::nullopt;
  return Elimination(std::move(*tree));
}

double Elimination::cells_of(std::size_t bucket) const {
  const Bucket& of = tree_.buckets()[bucket];
  return static_cast<double>(tree_.cells(of)) * static_cast<double>(tree_.strategies(of.node));
}

/// Everything that the bucket's table depends on, but for the tables of its children.
MemoKey Elimination::key_of(const AssignmentProblem& problem, std::size_t bucket) const {
  const Bucket& of = tree_.buckets()[bucket];
  MemoKey key;
  key.add(shapes_[bucket]).add(problem.nodes[of.node].costs);
  for (const std::size_t edge : of.edges) key.add(problem.edges[edge].costs);
  return key;
}

double Elimination::cells(const AssignmentProblem& problem) const {
  double cells = 0;
  Memo<std::size_t> memo;  // a number for each table
  std::vector<std::size_t> numbers;
  for (std::size_t k = 0; k < tree_.buckets().size(); ++k) {
    MemoKey key = key_of(problem, k);
    for (const std::size_t child : tree_.buckets()[k].children) key.add(numbers[child]);
    numbers.push_back(*memo.get(key, [&] {
      cells += cells_of(k);
      return k;
    }));
  }
  return cells;
}

std::optional<Choice> Elimination::choose(const AssignmentProblem& problem,
                                          const Deadline& deadline, double& looked_at) const {
  // Isomorphic parts have the same tables.
  Memo<CostTable> memo;
  Tables tables;
  for (std::size_t k = 0; k < tree_.buckets().size(); ++k) {
    const Bucket& bucket = tree_.buckets()[k];
    if (deadline.is_over()) return std::nullopt;
    bool is_over = false;
    MemoKey key = key_of(problem, k);
    for (const std::size_t child : bucket.children) key.add(*tables[child]);
    tables.push_back(memo.get(key, [&] {
      looked_at += cells_of(k);
      auto table = BucketSum(problem, tree_, bucket, strides_[k], tables, deadline).run();
      is_over = !table;
      return table.value_or(CostTable());
    }));
    if (is_over) return std::nullopt;
  }
  if (!tables.empty() && (*tables.back())[0] >= impossible) return std::nullopt;
  Choice choice(problem.nodes.size(), 0);
  for (std::size_t k = tables.size(); k-- > 0;)
    choose_strategy(problem, tree_, tree_.buckets()[k], tables, choice);
  return choice;
}

std::optional<Choice> choose_by_elimination(const AssignmentProblem& problem,
                                            const BucketTree::Limits& limits) {
  const auto elimination = Elimination::make(problem, limits);
  double looked_at = 0;
  return elimination ? elimination->choose(problem, limits.deadline, looked_at) : std::nullopt;
}

}  // namespace autopar::assignment
