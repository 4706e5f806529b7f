// Bucket elimination with sets of labels for costs (Rollon and Larrosa 2006): a table has, by the
// strategies of a node's neighbours, all undominated pairs of cost and usage of what was eliminated
// behind it. Labels go as in constrained shortest paths (Dumitrescu and Boland 2003): under prices
// on usage, elimination without labels tells exactly what a label's completion pays at least, and a
// label that cannot lead below the goal is dropped. Where labels are still too many, those that pay
// least are kept, and what the others pay is a bound.

#include "assignment/elimination/limited_elimination.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "assignment/elimination/labels.h"
#include "assignment/saturating.h"

namespace autopar::assignment {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
/// Bounds in doubles may be off by this part.
constexpr double rounding = 1e-11;

double as_double(Cost cost) { return cost >= impossible ? infinite : static_cast<double>(cost); }

}  // namespace

std::optional<LimitedElimination> LimitedElimination::make(const AssignmentProblem& problem,
                                                           std::vector<double> prices,
                                                           double most_cells,
                                                           const Deadline& deadline,
                                                           const SolverParameters::Work& rates) {
  auto tree = BucketTree::make(problem, {.most_cells = most_cells, .deadline = deadline});
  if (!tree) return std::nullopt;
  // Slots tell times apart, bucket by bucket.
  deadline.count(static_cast<double>(tree->buckets().size() * problem.usage_limits.size()) /
                 rates.cells_a_second);
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
  double sum = 0;
  for (std::size_t t = 0; t < prices_.size(); ++t) {
    sum += prices_[t] * static_cast<double>(problem_->usage_limits[t]);
  }
  return sum;
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

/// One pass of labels over the tables.
class LimitedElimination::Run {
 public:
  Run(const LimitedElimination& tables, const LabelOptions& options)
      : all_(tables),
        problem_(*tables.problem_),
        options_(options),
        maker_(options, static_cast<double>(options.goal - 1) + tables.limits_price()),
        labels_(tables.tables_.size()) {}

  Answer run() {
    Answer answer;
    answer.bound = std::min(options_.goal, all_.bound_of(all_.total_));
    answer.is_exact = answer.bound >= options_.goal;
    if (answer.is_exact) return answer;
    if (labels_.empty()) {
      answer.is_exact = true;
      answer.choice.emplace();
      return answer;
    }
    try {
      for (std::size_t k = 0; k < labels_.size(); ++k) {
        make_labels(k);
        for (const std::size_t child : all_.tree_.buckets()[k].children) labels_[child] = {};
      }
    } catch (const GaveUp&) {
      answer.comparisons = maker_.comparisons();
      return answer;
    }
    answer.comparisons = maker_.comparisons();
    answer.is_exact = maker_.least_dropped() == infinite;
    answer.bound = std::min(options_.goal, all_.bound_of(maker_.least_dropped()));
    const Labels& finals = labels_.back().front();
    if (finals.size() == 0) return answer;
    const auto best =
        static_cast<std::size_t>(std::ranges::min_element(finals.costs) - finals.costs.begin());
    answer.bound = std::min(answer.bound, finals.costs[best]);
    std::vector<int> choice(problem_.nodes.size(), 0);
    maker_.follow(finals.traces[best], choice);
    if (cost_of(problem_, choice) < options_.goal) answer.choice = std::move(choice);
    return answer;
  }

 private:
  void make_labels(std::size_t k) {
    const Bucket& bucket = all_.tree_.buckets()[k];
    const Table& table = all_.tables_[k];
    const std::size_t own = all_.tree_.strategies(bucket.node);
    std::vector<int> traces(own, -1);
    std::vector<Labels> lists;
    labels_[k].resize(table.message.size());
    all_.tree_.for_each_cell(bucket, [&](std::size_t cell, const auto& places, const auto& digits) {
      maker_.note_comparisons(1);
      const double completion = table.completion[cell / own];
      const double paid = table.joint[cell] + completion;
      const std::size_t s = digits.back();
      if (maker_.is_promising(paid)) {
        if (traces[s] < 0) {
          traces[s] = maker_.trace_of_strategy(bucket.node, static_cast<int>(s));
        }
        lists.push_back(labels_of_cell(k, places, s, traces[s], paid));
      }
      if (s + 1 < own || lists.empty()) return;
      labels_[k][cell / own] = maker_.unite(lists, all_.slots_[k], completion);
      lists.clear();
    });
  }

  /// `paid` is what the cell's cheapest choice and the rest pay.
  Labels labels_of_cell(std::size_t k, const std::vector<std::size_t>& places, std::size_t s,
                        int trace, double paid) {
    const Bucket& bucket = all_.tree_.buckets()[k];
    const UsageSlots& slots = all_.slots_[k];
    const auto& node = problem_.nodes[bucket.node];
    Cost cost = node.costs[s];
    std::size_t place = 0;
    for (const std::size_t edge : bucket.edges) {
      cost = plus(cost, problem_.edges[edge].costs[places[place++]]);
    }
    Labels labels;
    labels.costs = {cost};
    labels.priced = {as_double(cost) + all_.price_of_usage(bucket.node, s)};
    labels.traces = {trace};
    for (std::size_t sum = 0; sum < slots.limits.size(); ++sum) {
      labels.usages.push_back(slots.has_node[sum] ? node.usages[s] : 0);
      if (labels.usages.back() > slots.limits[sum]) return {};
    }
    double rest = paid - labels.priced.front();
    for (std::size_t c = 0; c < bucket.children.size(); ++c) {
      const std::size_t child = bucket.children[c];
      const std::size_t index = places[place++];
      rest -= all_.tables_[child].message[index];
      labels = maker_.merge(labels, labels_[child][index], slots.child_slots[c], slots, rest);
    }
    return labels;
  }

  const LimitedElimination& all_;
  const AssignmentProblem& problem_;
  const LabelOptions& options_;
  LabelMaker maker_;
  std::vector<std::vector<Labels>> labels_;  ///< by bucket and the strategies of its separator
};

LimitedElimination::Answer LimitedElimination::run(const LabelOptions& options) const {
  return Run(*this, options).run();
}

}  // namespace autopar::assignment
