#include "search/labels.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace autopar::search {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Sums in doubles may be off by this part.
constexpr double rounding = 1e-11;
/// Labels kept between two looks at the clock.
constexpr std::size_t kept_between_looks = 1024;

}  // namespace

Labels::Labels(const AssignmentProblem& problem, const LimitedEliminationOptions& options)
    : problem_(problem), options_(options), rows_(problem.usage_limits.size()) {}

bool Labels::is_promising(double priced) const {
  return priced - rounding * std::abs(priced) <= priced_goal_;
}

Label Labels::add(Cost cost, const std::int64_t* usage, std::pair<Label, int> parents) {
  if (static_cast<double>(costs_.size()) >= options_.most_labels) throw GaveUp();
  double priced = static_cast<double>(cost);
  for (std::size_t t = 0; t < rows_; ++t) {
    priced += options_.prices[t] * static_cast<double>(usage[t]);
    usages_.push_back(usage[t]);
  }
  costs_.push_back(cost);
  priced_.push_back(priced);
  parents_.push_back(parents);
  return static_cast<Label>(costs_.size()) - 1;
}

Label Labels::add_strategy(int node, int strategy) {
  const auto& n = problem_.nodes[at(node)];
  std::vector<std::int64_t> usage(rows_, 0);
  std::fill(usage.begin() + n.first, usage.begin() + n.end, n.usages[at(strategy)]);
  return add(n.costs[at(strategy)], usage.data(), {-1 - node, strategy});
}

Label Labels::add_cost(Label label, Cost cost) {
  if (cost == 0) return label;
  const auto first = usages_.begin() + static_cast<std::ptrdiff_t>(at(label) * rows_);
  const std::vector<std::int64_t> usage(first, first + static_cast<std::ptrdiff_t>(rows_));
  return add(costs_[at(label)] + cost, usage.data(), {label, -1});
}

std::vector<Label> Labels::merge(const std::vector<Label>& a, const std::vector<Label>& b,
                                 double rest) {
  if (options_.deadline.is_over()) throw GaveUp();
  candidates_.clear();
  candidate_usages_.clear();
  for (const Label x : a) {
    if (b.empty() || !is_promising(priced(x) + priced(b.front()) + rest)) break;
    for (const Label y : b) {
      if (!is_promising(priced(x) + priced(y) + rest)) break;
      const std::size_t usage = candidate_usages_.size();
      bool is_within = true;
      for (std::size_t t = 0; t < rows_; ++t) {
        const std::int64_t sum = usages_[at(x) * rows_ + t] + usages_[at(y) * rows_ + t];
        is_within = is_within && sum <= problem_.usage_limits[t];
        candidate_usages_.push_back(sum);
      }
      if (!is_within) {
        candidate_usages_.resize(usage);
        continue;
      }
      candidates_.push_back({rounded(cost(x) + cost(y)), usage, {x, y}});
    }
    if (static_cast<double>(candidates_.size()) > options_.most_labels) throw GaveUp();
  }
  return keep_undominated();
}

std::vector<Label> Labels::undominated(const std::vector<Label>& labels) {
  candidates_.clear();
  candidate_usages_.clear();
  for (const Label x : labels) {
    candidates_.push_back({cost(x), candidate_usages_.size(), {x, -1}});
    for (std::size_t t = 0; t < rows_; ++t) {
      candidate_usages_.push_back(usages_[at(x) * rows_ + t]);
    }
  }
  return keep_undominated();
}

void Labels::trace(Label label, std::vector<int>& choice) const {
  std::vector<Label> open{label};
  while (!open.empty()) {
    const auto [a, b] = parents_[at(open.back())];
    open.pop_back();
    if (a < 0) {
      choice[at(-1 - a)] = b;
      continue;
    }
    open.push_back(a);
    if (b >= 0) open.push_back(b);
  }
}

Cost Labels::rounded(Cost cost) const {
  return options_.tolerance > 1 ? cost / options_.tolerance * options_.tolerance : cost;
}

bool Labels::dominates(const Candidate& a, const Candidate& b) const {
  if (a.cost > b.cost) return false;
  for (std::size_t t = 0; t < rows_; ++t) {
    if (candidate_usages_[a.usage + t] > candidate_usages_[b.usage + t]) return false;
  }
  return true;
}

std::vector<Label> Labels::keep_undominated() {
  std::ranges::sort(candidates_, [&](const Candidate& a, const Candidate& b) {
    const auto usage = [&](const Candidate& c) {
      return std::span(candidate_usages_).subspan(c.usage, rows_);
    };
    if (a.cost != b.cost) return a.cost < b.cost;
    if (!std::ranges::equal(usage(a), usage(b))) {
      return std::ranges::lexicographical_compare(usage(a), usage(b));
    }
    return a.parents < b.parents;
  });
  std::vector<Candidate> kept;
  for (const Candidate& candidate : candidates_) {
    if (kept.size() % kept_between_looks == kept_between_looks - 1 && options_.deadline.is_over()) {
      throw GaveUp();
    }
    // Under one limit the last one kept has the least usage so far.
    const auto others =
        std::span(kept).last(rows_ <= 1 ? std::min<std::size_t>(1, kept.size()) : kept.size());
    if (std::ranges::none_of(others, [&](const auto& o) { return dominates(o, candidate); })) {
      kept.push_back(candidate);
    }
  }
  std::vector<Label> labels;
  for (const Candidate& candidate : kept) {
    const std::int64_t* usage = candidate_usages_.data() + candidate.usage;
    labels.push_back(add(candidate.cost, usage, candidate.parents));
  }
  std::ranges::stable_sort(labels, {}, [&](Label label) { return priced(label); });
  return labels;
}

}  // namespace autopar::search
