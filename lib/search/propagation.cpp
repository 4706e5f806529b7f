#include "search/propagation.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "assignment/local_search/forest_descent.h"
#include "assignment/local_search/partial_choice.h"
#include "search/fair_places.h"

namespace autopar::search {

namespace {

int least(const std::vector<assignment::WideCost>& costs) {
  return static_cast<int>(std::ranges::min_element(costs) - costs.begin());
}

class Propagation {
 public:
  Propagation(const assignment::AssignmentProblem& problem, int num_operators)
      : problem_(problem), partial_(problem, num_operators) {}

  void decide_seed(graph::NodeId op) {
    if (!partial_.is_decided(op)) partial_.decide(op, least(partial_.estimate(op)));
    queue_.push_back(op);
  }

  /// Until nothing that the decided operators reach is open.
  void run() {
    for (; !queue_.empty(); queue_.pop_front()) {
      for (const graph::NodeId op : partial_.take_open_neighbours(queue_.front())) {
        if (partial_.is_decided(op)) continue;  // it reads two tensors of the same operator
        partial_.decide(op, with_least_resharding(op));
        queue_.push_back(op);
      }
    }
  }

  bool is_decided(graph::NodeId op) const { return partial_.is_decided(op); }
  const std::vector<int>& choice() const { return partial_.choice(); }

 private:
  int with_least_resharding(graph::NodeId op) const {
    const std::vector<assignment::WideCost> resharding = partial_.resharding(op);
    const std::vector<assignment::Cost>& own = problem_.nodes[op].costs;
    std::size_t best = 0;
    for (std::size_t s = 1; s < own.size(); ++s) {
      if (std::pair(resharding[s], own[s]) < std::pair(resharding[best], own[best])) best = s;
    }
    return static_cast<int>(best);
  }

  const assignment::AssignmentProblem& problem_;
  assignment::PartialChoice partial_;
  std::deque<graph::NodeId> queue_;
};

}  // namespace

std::vector<graph::NodeId> heaviest_first(const PlanProblem& built) {
  std::vector<graph::NodeId> order(built.operators.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](graph::NodeId op) {
    return std::ranges::max(built.operators[op]->costs);
  });
  return order;
}

std::optional<std::vector<int>> choose_by_propagation(const PlanProblem& built,
                                                      const assignment::AssignmentProblem& limited,
                                                      const sharding::DeviceMesh& mesh,
                                                      const std::vector<graph::NodeId>& seeds) {
  assignment::AssignmentProblem fair = limited;
  forbid_unfair_places(built, mesh, static_cast<int>(mesh.axis_sizes().size()), fair);
  const int num_operators = static_cast<int>(built.operators.size());
  Propagation propagation(fair, num_operators);
  for (const graph::NodeId op : seeds) propagation.decide_seed(op);
  propagation.run();
  for (const graph::NodeId op : heaviest_first(built)) {
    if (propagation.is_decided(op)) continue;
    propagation.decide_seed(op);
    propagation.run();
  }
  return assignment::settle(limited, fair, propagation.choice(), num_operators);
}

}  // namespace autopar::search
