// Bucket elimination with sets of labels in place of costs (Rollon and Larrosa 2006): by the
// strategies of a bucket's separator, a table has all undominated pairs of cost and usage of the
// bucket's subtree. Labels are pruned as in constrained shortest paths (Dumitrescu and Boland
// 2003): under prices on usage, elimination without labels gives the exact bound on a label's
// completion, and a label that cannot lead below the goal is dropped. Where labels are still too
// many, those of the least priced cost are kept, and the least priced cost of the others is a
// bound.

#include "assignment/elimination/limited_elimination.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>

namespace autopar::assignment {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
/// Relative rounding error of sums.
constexpr double rounding = 1e-11;
/// What a label costs under one limit.
constexpr std::size_t comparisons_of_label = 6;

double as_double(Cost cost) { return cost >= impossible ? infinite : static_cast<double>(cost); }

}  // namespace

/// Thrown where labels take too many comparisons, or the deadline comes.
struct LabelBudgetSpent {};

/// Choices for the nodes of a bucket's subtree, sorted by priced cost.
struct Labels {
  struct Label {
    double priced;  ///< cost, and what the usage pays
    Cost cost;
    int trace;  ///< where its strategies are recorded
  };
  std::vector<Label> list;
  std::vector<std::int64_t> usages;  ///< by label and slot, or sum (usage_slots.h)

  std::size_t size() const { return list.size(); }
  void reserve(std::size_t count, std::size_t usages_of_each) {
    list.reserve(count);
    usages.reserve(count * usages_of_each);
  }
  void add(const Label& label, std::span<const std::int64_t> usage) {
    list.push_back(label);
    usages.insert(usages.end(), usage.begin(), usage.end());
  }
  /// Whether one of them costs and uses no more.
  bool dominate(Cost cost, std::span<const std::int64_t> usage) const {
    const std::int64_t* other = usages.data();
    for (std::size_t k = 0; k < size(); ++k, other += usage.size()) {
      if (list[k].cost > cost) continue;
      std::size_t slot = 0;
      while (slot < usage.size() && other[slot] <= usage[slot]) ++slot;
      if (slot == usage.size()) return true;
    }
    return false;
  }
};

/// The undominated pairs of cost and usage of labels with one usage each.
class Staircase {
 public:
  void clear() { steps_.clear(); }
  /// False where one of them costs and uses no more.
  bool add(Cost cost, std::int64_t usage) {
    const auto dearer = std::ranges::upper_bound(steps_, cost, {}, &Step::first);
    if (dearer != steps_.begin() && std::prev(dearer)->second <= usage) return false;
    const auto kept =
        std::find_if(dearer, steps_.end(), [&](const Step& step) { return step.second < usage; });
    steps_.insert(steps_.erase(dearer, kept), {cost, usage});
    return true;
  }

 private:
  using Step = std::pair<Cost, std::int64_t>;
  std::vector<Step> steps_;  ///< costs ascend, usages descend
};

/// Makes lists of undominated labels and records their strategies. What makes lists may throw
/// LabelBudgetSpent. `options` must outlive it.
class LabelMaker {
 public:
  /// A label that costs and pays more than `priced_goal` with its completion is dropped.
  LabelMaker(const LabelOptions& options, double priced_goal)
      : options_(options), priced_goal_(priced_goal) {}

  bool is_promising(double priced) const {
    return priced - rounding * std::abs(priced) <= priced_goal_;
  }
  /// Throws LabelBudgetSpent where there are too many, or the deadline has come.
  void note_comparisons(std::size_t count) {
    comparisons_ += static_cast<double>(count);
    if (comparisons_ > options_.most_comparisons) throw LabelBudgetSpent();
    if (comparisons_ - comparisons_at_look_ < options_.comparisons_between_looks) return;
    comparisons_at_look_ = comparisons_;
    if (options_.deadline.is_over()) throw LabelBudgetSpent();
  }

  /// The trace of a node's strategy.
  int trace_of_strategy(int node, int strategy) { return trace_of(-1 - node, strategy); }
  /// The sums of labels with those of a child that keep the limits and may lead below the goal, at
  /// most as many as the width. `rest` is a lower bound on what their completion pays.
  Labels merge(const Labels& sums, const Labels& child, const std::vector<int>& child_slots,
               const UsageSlots& slots, double rest);
  /// The lists merged, with usages by slot.
  Labels unite(const std::vector<Labels>& lists, const UsageSlots& slots, double rest);

  /// Writes the strategies of a trace into the choice.
  void follow(int trace, Choice& choice) const;
  double comparisons() const { return comparisons_; }
  /// A lower bound on what the labels dropped because of the width pay with their completion.
  double least_dropped() const { return least_dropped_; }

 private:
  /// One more label is to join these. Under several limits it is compared with all; where it need
  /// not be, it counts as if it were, so that budgets of comparisons end the same searches.
  void note_label(const Labels& labels) {
    note_comparisons(usage_.size() == 1 ? comparisons_of_label : 1 + labels.size());
  }
  /// Whether a label of `usage_` is dominated by none of those met since the staircase was cleared,
  /// which are the labels.
  bool is_undominated(Cost cost, const Labels& labels) {
    return usage_.size() == 1 ? staircase_.add(cost, usage_.front())
                              : !labels.dominate(cost, usage_);
  }
  int trace_of(int a, int b) {
    traces_.emplace_back(a, b);
    return static_cast<int>(traces_.size()) - 1;
  }

  const LabelOptions& options_;
  const double priced_goal_;
  double least_dropped_ = infinite;
  /// Two traces, or a node's strategy, the node n as -1 - n.
  std::vector<std::pair<int, int>> traces_;
  double comparisons_ = 0;
  double comparisons_at_look_ = 0;

  // Kept from one list to the next, which are many and small.
  using Entry = std::tuple<double, std::size_t, std::size_t>;  ///< priced, and which label
  std::vector<Entry> queue_;
  std::vector<Entry> order_;
  std::vector<std::int64_t> usage_;
  Staircase staircase_;
};

Labels LabelMaker::merge(const Labels& sums, const Labels& child,
                         const std::vector<int>& child_slots, const UsageSlots& slots,
                         double rest) {
  Labels result;
  if (sums.size() == 0 || child.size() == 0) return result;
  const std::size_t count = child_slots.size();
  const std::size_t stride = child.usages.size() / child.size();
  result.reserve(sums.size() + child.size(), count);
  usage_.resize(count);
  /// Whether the sum of label x of the sums and y of the child is within limits; sets its usage.
  const auto is_within = [&](std::size_t x, std::size_t y) {
    for (std::size_t k = 0; k < count; ++k) {
      usage_[k] = sums.usages[x * count + k];
      if (child_slots[k] >= 0) usage_[k] += child.usages[y * stride + child_slots[k]];
      if (usage_[k] > slots.limits[k]) return false;
    }
    return true;
  };
  /// False where the label leads to nothing, and with it all that pay more.
  const auto is_needed = [&](double priced) {
    if (!is_promising(priced + rest)) return false;
    if (result.size() < options_.width) return true;
    least_dropped_ = std::min(least_dropped_, priced + rest);
    return false;
  };
  const auto add = [&](double priced, Cost cost, std::size_t x, std::size_t y) {
    result.add({priced, cost, trace_of(sums.list[x].trace, child.list[y].trace)}, usage_);
  };
  if (sums.size() == 1 || child.size() == 1) {  // as sorted, and undominated, as the others are
    for (std::size_t k = 0; k < std::max(sums.size(), child.size()); ++k) {
      note_label(result);
      const std::size_t x = sums.size() == 1 ? 0 : k;
      const std::size_t y = child.size() == 1 ? 0 : k;
      const double priced = sums.list[x].priced + child.list[y].priced;
      if (!is_needed(priced)) break;
      if (is_within(x, y)) add(priced, sums.list[x].cost + child.list[y].cost, x, y);
    }
    return result;
  }
  queue_.clear();
  staircase_.clear();
  for (std::size_t x = 0; x < sums.size(); ++x) {  // sorted, so that it is a heap
    queue_.emplace_back(sums.list[x].priced + child.list.front().priced, x, 0);
  }
  while (!queue_.empty()) {
    const auto [priced, x, y] = queue_.front();
    if (!is_needed(priced)) break;
    std::ranges::pop_heap(queue_, std::greater<>());
    queue_.pop_back();
    if (y + 1 < child.size()) {
      queue_.emplace_back(sums.list[x].priced + child.list[y + 1].priced, x, y + 1);
      std::ranges::push_heap(queue_, std::greater<>());
    }
    note_label(result);
    if (!is_within(x, y)) continue;
    const Cost cost = sums.list[x].cost + child.list[y].cost;
    if (is_undominated(cost, result)) add(priced, cost, x, y);
  }
  return result;
}

Labels LabelMaker::unite(const std::vector<Labels>& lists, const UsageSlots& slots, double rest) {
  order_.clear();
  for (std::size_t list = 0; list < lists.size(); ++list) {
    for (std::size_t k = 0; k < lists[list].size(); ++k) {
      order_.emplace_back(lists[list].list[k].priced, list, k);
    }
  }
  std::ranges::sort(order_);
  Labels result;
  const std::size_t count = slots.limits.size();
  usage_.resize(slots.slots.size());
  result.reserve(order_.size(), usage_.size());
  staircase_.clear();
  for (const auto& [priced, list, k] : order_) {
    const std::int64_t* sums = lists[list].usages.data() + k * count;
    for (std::size_t slot = 0; slot < usage_.size(); ++slot) {
      usage_[slot] = std::numeric_limits<std::int64_t>::min();
      for (const auto& [sum, more] : slots.slots[slot]) {
        usage_[slot] = std::max(usage_[slot], sums[sum] + more);
      }
    }
    const Labels::Label& label = lists[list].list[k];
    note_label(result);
    if (!is_undominated(label.cost, result)) continue;
    if (result.size() >= options_.width) {
      least_dropped_ = std::min(least_dropped_, priced + rest);
      break;
    }
    result.add(label, usage_);
  }
  return result;
}

void LabelMaker::follow(int trace, Choice& choice) const {
  std::vector<int> open{trace};
  while (!open.empty()) {
    const auto [a, b] = traces_[open.back()];
    open.pop_back();
    if (a < 0) {
      choice[-1 - a] = b;
      continue;
    }
    open.push_back(a);
    open.push_back(b);
  }
}

std::optional<LimitedElimination> LimitedElimination::make(const AssignmentProblem& problem,
                                                           std::vector<double> prices,
                                                           double most_cells,
                                                           const Deadline& deadline,
                                                           const SolverParameters::Work& rates) {
  auto tree = BucketTree::make(problem, {.most_cells = most_cells, .deadline = deadline});
  if (!tree) return std::nullopt;
  // Slots distinguish times, bucket by bucket.
  deadline.count(static_cast<double>(tree->buckets().size() * problem.usage_limits.size()) /
                 rates.cells_a_second);
  if (deadline.is_over()) return std::nullopt;
  LimitedElimination result(problem, std::move(prices), std::move(*tree));
  if (!result.bound_priced(deadline, rates.cells_a_second)) return std::nullopt;
  return result;
}

LimitedElimination::LimitedElimination(const AssignmentProblem& problem, std::vector<double> prices,
                                       BucketTree tree)
    : problem_(&problem),
      prices_(std::move(prices)),
      tree_(std::move(tree)),
      slots_(usage_slots(problem, tree_)),
      tables_(tree_.buckets().size()) {}

double LimitedElimination::limits_price() const {
  return std::inner_product(prices_.begin(), prices_.end(), problem_->usage_limits.begin(), 0.0);
}

double LimitedElimination::price_of_usage(int i, std::size_t s) const {
  const auto& node = problem_->nodes[i];
  double sum = 0;
  for (int t = node.first; t < node.end; ++t) {
    sum += prices_[t] * static_cast<double>(node.usages[s]);
  }
  return sum;
}

Cost LimitedElimination::bound_of(double priced) const {
  if (priced == infinite) return impossible;
  const double limits = limits_price();
  const double sum = std::ceil(priced - limits - rounding * (std::abs(priced) + limits));
  return static_cast<Cost>(std::clamp(sum, 0.0, static_cast<double>(impossible)));
}

/// False where the deadline came.
bool LimitedElimination::bound_priced(const Deadline& deadline, double cells_a_second) {
  for (std::size_t k = 0; k < tables_.size(); ++k) {
    if (deadline.is_over()) return false;
    const Bucket& bucket = tree_.buckets()[k];
    Table& table = tables_[k];
    const auto& costs = problem_->nodes[bucket.node].costs;
    const std::size_t cells = tree_.cells(bucket) * costs.size();
    deadline.count(static_cast<double>(cells) / cells_a_second);
    std::vector<double> own_costs;
    for (std::size_t s = 0; s < costs.size(); ++s) {
      own_costs.push_back(as_double(costs[s]) + price_of_usage(bucket.node, s));
    }
    table.joint.reserve(cells);
    tree_.for_each_cell(bucket, [&](std::size_t, const auto& places, const auto& digits) {
      double sum = own_costs[digits.back()];
      std::size_t place = 0;
      for (const std::size_t edge : bucket.edges) {
        sum += as_double(problem_->edges[edge].costs[places[place++]]);
      }
      for (const std::size_t child : bucket.children) {
        sum += tables_[child].message[places[place++]];
      }
      table.joint.push_back(sum);
    });
    const auto own = static_cast<std::ptrdiff_t>(costs.size());
    for (auto cell = table.joint.begin(); cell != table.joint.end(); cell += own) {
      table.message.push_back(*std::min_element(cell, cell + own));
    }
  }
  if (tables_.empty()) return true;
  total_ = tables_.back().message.front();
  tables_.back().completion = {0};
  for (std::size_t k = tables_.size(); k-- > 0;) complete_children(k);
  return true;
}

void LimitedElimination::complete_children(std::size_t k) {
  const Bucket& bucket = tree_.buckets()[k];
  for (const std::size_t child : bucket.children) {
    tables_[child].completion.assign(tables_[child].message.size(), infinite);
  }
  const std::size_t own = tree_.strategies(bucket.node);
  tree_.for_each_cell(bucket, [&](std::size_t cell, const auto& places, const auto&) {
    const double sum = tables_[k].joint[cell] + tables_[k].completion[cell / own];
    if (sum == infinite) return;
    std::size_t place = bucket.edges.size();
    for (const std::size_t child : bucket.children) {
      const std::size_t index = places[place++];
      double& least = tables_[child].completion[index];
      least = std::min(least, sum - tables_[child].message[index]);
    }
  });
}

std::vector<Labels> LimitedElimination::labels_of_bucket(std::size_t k, const LabelTables& labels,
                                                         LabelMaker& maker) const {
  const Bucket& bucket = tree_.buckets()[k];
  const Table& table = tables_[k];
  const std::size_t own = tree_.strategies(bucket.node);
  std::vector<int> traces(own, -1);
  std::vector<Labels> lists;
  std::vector<Labels> result(table.message.size());
  tree_.for_each_cell(bucket, [&](std::size_t cell, const auto& places, const auto& digits) {
    maker.note_comparisons(1);
    const double completion = table.completion[cell / own];
    const double paid = table.joint[cell] + completion;
    const std::size_t s = digits.back();
    if (maker.is_promising(paid)) {
      if (traces[s] < 0) traces[s] = maker.trace_of_strategy(bucket.node, static_cast<int>(s));
      lists.push_back(labels_of_cell(k, places, s, traces[s], paid, labels, maker));
    }
    if (s + 1 < own || lists.empty()) return;
    result[cell / own] = maker.unite(lists, slots_[k], completion);
    lists.clear();
  });
  return result;
}

/// `paid` is the least priced cost of a whole choice in the cell.
Labels LimitedElimination::labels_of_cell(std::size_t k, const std::vector<std::size_t>& places,
                                          std::size_t s, int trace, double paid,
                                          const LabelTables& tables, LabelMaker& maker) const {
  const Bucket& bucket = tree_.buckets()[k];
  const UsageSlots& slots = slots_[k];
  const auto& node = problem_->nodes[bucket.node];
  Cost cost = node.costs[s];
  std::size_t place = 0;
  for (const std::size_t edge : bucket.edges) {
    cost = plus(cost, problem_->edges[edge].costs[places[place++]]);
  }
  Labels labels;
  labels.list = {{as_double(cost) + price_of_usage(bucket.node, s), cost, trace}};
  for (std::size_t sum = 0; sum < slots.limits.size(); ++sum) {
    labels.usages.push_back(slots.has_node[sum] ? node.usages[s] : 0);
    if (labels.usages.back() > slots.limits[sum]) return {};
  }
  double rest = paid - labels.list.front().priced;
  for (std::size_t c = 0; c < bucket.children.size(); ++c) {
    const std::size_t child = bucket.children[c];
    const std::size_t index = places[place++];
    rest -= tables_[child].message[index];
    labels = maker.merge(labels, tables[child][index], slots.child_slots[c], slots, rest);
  }
  return labels;
}

LabelAnswer LimitedElimination::run(const LabelOptions& options) const {
  LabelAnswer answer;
  answer.bound = std::min(options.goal, bound_of(total_));
  answer.is_exact = answer.bound >= options.goal;
  if (answer.is_exact) return answer;
  if (tables_.empty()) {
    answer.is_exact = true;
    answer.choice.emplace();
    return answer;
  }
  LabelMaker maker(options, static_cast<double>(options.goal - 1) + limits_price());
  LabelTables labels(tables_.size());
  try {
    for (std::size_t k = 0; k < labels.size(); ++k) {  // children before parents
      labels[k] = labels_of_bucket(k, labels, maker);
      for (const std::size_t child : tree_.buckets()[k].children) labels[child] = {};
    }
  } catch (const LabelBudgetSpent&) {
    answer.comparisons = maker.comparisons();
    return answer;
  }
  answer.comparisons = maker.comparisons();
  answer.is_exact = maker.least_dropped() == infinite;
  answer.bound = std::min(options.goal, bound_of(maker.least_dropped()));
  const Labels& finals = labels.back().front();
  if (finals.size() == 0) return answer;
  const auto best = std::ranges::min_element(finals.list, {}, &Labels::Label::cost);
  answer.bound = std::min(answer.bound, best->cost);
  Choice choice(problem_->nodes.size(), 0);
  maker.follow(best->trace, choice);
  if (cost_of(*problem_, choice) < options.goal) answer.choice = std::move(choice);
  return answer;
}

}  // namespace autopar::assignment
