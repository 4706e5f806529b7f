// Dynamic programming over stages with the slowest one's time enumerated (Alpa, OSDI 22, section
// 5.2), with the transfers between stages as slots of their own.
//
// rest(j, p, a): the least sum of all that follows, where layers [0, j) are on devices [0, p) and
// the last of their stages has size a: the transfer at cut j, a stage of layers [j, k) on the next
// devices, and rest(k, p + b, b). So the rest begins at layer k with the devices that are left.
// A transfer depends on the smaller of two stages alone, so that
//   rest(j, p, a) = min(min over b <= a of transfer(b) + next(b), transfer(a) + min over b > a)
// with next(b) = min over k of stage(b, j, k) + rest(k, p + b, b): two running minima, and the
// size of the last stage costs no more than to be told apart.
//
// The limit on the slowest slot is lowered from no limit at all. What is found under a limit has
// the least sum of all that keep to it. So what is slower than its own slowest slot is no better,
// and what is faster has no smaller sum: below the limit under which that sum alone would still
// lead to a better cost, or to one better by more than epsilon, is where the next is looked for.

#include "search/stages/stage_sequence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "assignment/saturating.h"
#include "base/error.h"

namespace autopar::search {

namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

class SequenceSearch {
 public:
  explicit SequenceSearch(const SequenceProblem& problem)
      : problem_(problem),
        num_sizes_(static_cast<int>(problem.sizes.size())),
        width_(problem.layers + 1),
        fixes_count_(problem.stage_count > 0) {
    find_places();
    rest_.resize(at(fixes_count_ ? problem.stage_count : 1) * num_slots_ * width_);
    next_.resize(at(num_sizes_) * width_);
  }

  std::optional<StageSequence> run() {
    return problem_.objective == plan::Objective::latency ? least_latency() : most_throughput();
  }

 private:
  std::optional<StageSequence> least_latency() {
    std::optional<StageSequence> best;
    const assignment::Cost further = problem_.microbatches - 1;
    assignment::Cost missed =
        assignment::impossible;  // no sequence that was passed over costs less
    assignment::Cost limit = assignment::impossible - 1;
    while (auto found = least_sum(limit)) {
      found->cost =
          assignment::saturated(static_cast<assignment::WideCost>(found->sum) +
                                static_cast<assignment::WideCost>(further) * found->slowest);
      const assignment::Cost sum = found->sum;
      const assignment::Cost slowest = found->slowest;
      if (!best || found->cost < best->cost) best = std::move(found);
      if (further == 0) break;
      const assignment::Cost goal =
          std::min(best->cost - 1, static_cast<assignment::Cost>(std::floor(
                                       static_cast<double>(best->cost) / (1 + problem_.epsilon))));
      if (goal < sum) {
        missed = std::min(missed, sum);
        break;
      }
      limit = std::min(slowest - 1, (goal - sum) / further);
      if (limit < slowest - 1) {
        missed = std::min(missed, assignment::saturated(static_cast<assignment::WideCost>(sum) +
                                                        static_cast<assignment::WideCost>(further) *
                                                            (limit + 1)));
      }
    }
    if (best) best->lower_bound = std::min(best->cost, missed);
    return best;
  }

  std::optional<StageSequence> most_throughput() {
    const assignment::Cost slowest =
        fill(assignment::impossible - 1,
             [](assignment::Cost a, assignment::Cost b) { return std::max(a, b); });
    if (slowest >= assignment::impossible) return std::nullopt;
    auto best = least_sum(slowest);
    require(best.has_value(), "a sequence keeps to the limit that it was found under");
    best->cost = assignment::saturated(static_cast<assignment::WideCost>(best->slowest) *
                                       problem_.microbatches);
    best->lower_bound = best->cost;
    return best;
  }

  std::optional<StageSequence> least_sum(assignment::Cost limit) {
    const assignment::Cost sum =
        fill(limit, [](assignment::Cost a, assignment::Cost b) { return a + b; });
    if (sum >= assignment::impossible) return std::nullopt;
    return trace(sum);
  }

  /// Which devices a stage of each size may end before.
  void find_places() {
    slots_.assign(at(problem_.devices + 1) * at(num_sizes_), -1);
    begins_.resize(problem_.devices + 1);
    std::vector<bool> is_reached(problem_.devices + 1, false);
    is_reached[0] = true;
    int slots = 0;
    for (int p = 0; p < problem_.devices; ++p) {
      if (!is_reached[p]) continue;
      for (int b = 0; b < num_sizes_; ++b) {
        const int end = p + problem_.sizes[b];
        if (end > problem_.devices || !problem_.has_place(b, p)) continue;
        begins_[p].push_back(b);
        is_reached[end] = true;
        if (slot(end, b) < 0) slots_[at(end) * at(num_sizes_) + at(b)] = slots++;
      }
    }
    num_slots_ = at(slots);
  }

  int slot(int p, int size) const { return slots_[at(p) * at(num_sizes_) + at(size)]; }
  /// By layer. `left`: stages that follow, 0 where their number is open.
  assignment::Cost* rest(int left, int p, int size) {
    return rest_.data() + (at(left) * num_slots_ + at(slot(p, size))) * width_;
  }
  bool node_begins(int p) const { return p % problem_.devices_per_node == 0; }
  /// The cost, where it is within the limit of the last fill.
  assignment::Cost limited(assignment::Cost cost) const {
    return cost <= limit_ ? cost : assignment::impossible;
  }
  assignment::Cost stage(int size, int begin, int end) const {
    return limited(problem_.stage(size, begin, end));
  }
  assignment::Cost transfer(int p, int cut, int smaller) const {
    return limited(problem_.transfer(node_begins(p), cut, smaller));
  }

  /// Fills in `rest` for all that keeps to the limit; returns what the best of it comes to.
  template <typename Combine>
  assignment::Cost fill(assignment::Cost limit, Combine combine) {
    limit_ = limit;
    stages_ = problem_.stages;
    for (assignment::Cost& cost : stages_) cost = limited(cost);
    std::ranges::fill(rest_, assignment::impossible);
    for (int b = 0; b < num_sizes_; ++b) {
      if (slot(problem_.devices, b) >= 0) rest(0, problem_.devices, b)[problem_.layers] = 0;
    }
    if (!fixes_count_) {
      for (int p = problem_.devices - 1; p > 0; --p) {
        find_next(0, p, combine);
        find_rest(0, p, combine);
      }
      find_next(0, 0, combine);
    } else {
      for (int left = 1; left < problem_.stage_count; ++left) {
        for (int p = problem_.devices - left; p > 0; --p) {
          find_next(left - 1, p, combine);
          find_rest(left, p, combine);
        }
      }
      find_next(problem_.stage_count - 1, 0, combine);
    }
    assignment::Cost best = assignment::impossible;
    for (const int b : begins_.front()) best = std::min(best, next_[at(b) * width_]);
    return best;
  }

  /// A stage of each size that begins at device p, at each layer, with all behind it.
  template <typename Combine>
  void find_next(int left_behind, int p, Combine combine) {
    const int layers = problem_.layers;
    for (const int b : begins_[p]) {
      const assignment::Cost* behind = rest(left_behind, p + problem_.sizes[b], b);
      assignment::Cost* found = next_.data() + at(b) * width_;
      for (int j = 0; j < layers; ++j) {
        const assignment::Cost* stage = stages_.data() + problem_.stage_place(b, j, 0);
        assignment::Cost least = assignment::impossible;
        for (int k = j + 1; k <= layers; ++k) least = std::min(least, combine(stage[k], behind[k]));
        found[j] = least;
      }
    }
  }

  template <typename Combine>
  void find_rest(int left, int p, Combine combine) {
    const std::vector<int>& begins = begins_[p];
    if (begins.empty()) return;
    for (int j = 1; j < problem_.layers; ++j) {
      assignment::Cost of_larger = assignment::impossible;
      for (const int b : begins) of_larger = std::min(of_larger, next_[at(b) * width_ + at(j)]);
      if (of_larger >= assignment::impossible) continue;
      suffix_.assign(num_sizes_ + 1, assignment::impossible);  // from a size on
      auto b = begins.rbegin();
      for (int a = num_sizes_ - 1; a >= 0; --a) {
        suffix_[a] = suffix_[a + 1];
        if (b != begins.rend() && *b == a) {
          suffix_[a] = std::min(suffix_[a], next_[at(a) * width_ + at(j)]);
          ++b;
        }
      }
      assignment::Cost of_smaller = assignment::impossible;  // with their transfers
      auto smaller = begins.begin();
      for (int a = 0; a < num_sizes_; ++a) {
        const assignment::Cost crossing = transfer(p, j, a);
        if (smaller != begins.end() && *smaller == a) {
          of_smaller = std::min(of_smaller, combine(crossing, next_[at(a) * width_ + at(j)]));
          ++smaller;
        }
        if (slot(p, a) < 0) continue;
        rest(left, p, a)[j] =
            std::min({assignment::impossible, of_smaller, combine(crossing, suffix_[a + 1])});
      }
    }
  }

  /// A sequence of that sum, by what the last fill has left. Longer stages on more devices first.
  StageSequence trace(assignment::Cost sum) {
    StageSequence found{.stages = {}, .sum = sum};
    int left = fixes_count_ ? problem_.stage_count : 0;
    for (int j = 0, p = 0, last = -1; j < problem_.layers;) {
      if (fixes_count_) --left;
      const auto [stage, crossing] = step(left, j, p, last, sum);
      const assignment::Cost cost = problem_.stage(stage.size, stage.begin, stage.end);
      found.slowest = std::max({found.slowest, cost, crossing});
      sum -= cost + crossing;
      j = stage.end;
      p += problem_.sizes[stage.size];
      last = stage.size;
      found.stages.push_back(stage);
    }
    return found;
  }

  std::pair<StageChoice, assignment::Cost> step(int left_behind, int j, int p, int last,
                                                assignment::Cost sum) {
    const std::vector<int>& begins = begins_[p];
    for (auto b = begins.rbegin(); b != begins.rend(); ++b) {
      const assignment::Cost crossing = last < 0 ? 0 : transfer(p, j, std::min(last, *b));
      const assignment::Cost* behind = rest(left_behind, p + problem_.sizes[*b], *b);
      for (int k = problem_.layers; k > j; --k) {
        if (assignment::plus(assignment::plus(crossing, stage(*b, j, k)), behind[k]) == sum)
          return {{j, k, *b, p}, crossing};
      }
    }
    throw InternalError("internal error: a sequence leads to the sum that was found");
  }

  const SequenceProblem& problem_;
  const int num_sizes_;
  const std::size_t width_;
  const bool fixes_count_;
  std::vector<std::vector<int>> begins_;  ///< by device: the sizes of stages that may begin there
  std::vector<int> slots_;                ///< by device and size of the stage that ends before it
  std::size_t num_slots_ = 0;
  assignment::Cost limit_ = assignment::impossible;
  std::vector<assignment::Cost> stages_;  ///< within the limit
  std::vector<assignment::Cost> rest_;    ///< by stages left, slot and layer
  std::vector<assignment::Cost> next_;    ///< by size and layer
  std::vector<assignment::Cost> suffix_;
};

}  // namespace

std::size_t SequenceProblem::stage_place(int size, int begin, int end) const {
  return (at(size) * at(layers + 1) + at(begin)) * at(layers + 1) + at(end);
}

std::size_t SequenceProblem::transfer_place(bool node_begins, int cut, int smaller_size) const {
  return (at(node_begins ? 1 : 0) * at(layers + 1) + at(cut)) * sizes.size() + at(smaller_size);
}

void SequenceProblem::allocate() {
  stages.assign(sizes.size() * at(layers + 1) * at(layers + 1), assignment::impossible);
  transfers.assign(2 * at(layers + 1) * sizes.size(), 0);
}

bool SequenceProblem::has_place(int size, int first_rank) const {
  const int place = first_rank % devices_per_node;
  const int needed = sizes[size];
  return needed % devices_per_node == 0 ? place == 0 : place + needed <= devices_per_node;
}

std::optional<StageSequence> best_sequence(const SequenceProblem& problem) {
  require(problem.layers > 0 && problem.devices > 0 && problem.microbatches > 0,
          "a pipeline has layers, devices and microbatches");
  if (problem.stage_count > problem.layers) return std::nullopt;
  return SequenceSearch(problem).run();
}

std::vector<int> possible_stage_counts(const SequenceProblem& problem) {
  std::vector<std::vector<bool>> counts(problem.devices + 1,
                                        std::vector<bool>(problem.layers + 1, false));
  counts[0][0] = true;
  for (int p = 0; p < problem.devices; ++p) {
    for (int b = 0; b < static_cast<int>(problem.sizes.size()); ++b) {
      const int end = p + problem.sizes[b];
      if (end > problem.devices || !problem.has_place(b, p)) continue;
      for (int count = 0; count < problem.layers; ++count) {
        if (counts[p][count]) counts[end][count + 1] = true;
      }
    }
  }
  std::vector<int> possible;
  for (int count = 1; count <= problem.layers; ++count) {
    if (counts[problem.devices][count]) possible.push_back(count);
  }
  return possible;
}

}  // namespace autopar::search
