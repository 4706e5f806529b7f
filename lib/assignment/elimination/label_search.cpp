#include "assignment/elimination/label_search.h"

#include <algorithm>

#include "assignment/presolve/presolve.h"

namespace autopar::assignment {

std::optional<LabelAnswer> search_labels(AssignmentProblem problem, std::vector<double> prices,
                                         const LabelSearchOptions& options,
                                         const SolverParameters& parameters) {
  const SolverParameters::Labels& labels = parameters.labels;
  LabelAnswer result;
  options.deadline.count(size_of(problem) / parameters.work.presolved_a_second);
  const auto presolved =
      presolve(std::move(problem), std::move(prices), parameters.presolve, options.deadline);
  if (!presolved || presolved->constant >= options.goal) {
    return LabelAnswer{.bound = options.goal, .is_exact = true};
  }
  result.bound = saturated(presolved->constant);
  const auto elimination = LimitedElimination::make(presolved->core, presolved->prices,
                                                    options.most_cells.value_or(labels.most_cells),
                                                    options.deadline, parameters.work);
  if (!elimination) return std::nullopt;
  LabelOptions pass{.goal = saturated(options.goal - presolved->constant),
                    .width = labels.first_width,
                    .comparisons_between_looks = labels.comparisons_between_looks,
                    .deadline = options.deadline};
  double comparisons = options.most_comparisons.value_or(labels.most_comparisons);
  for (; !result.is_exact && comparisons > 0 && !options.deadline.is_over();
       pass.width *= labels.growth_of_width) {
    pass.most_comparisons =
        std::min(comparisons, options.deadline.work_left() * parameters.work.comparisons_a_second);
    const auto answer = elimination->run(pass);
    options.deadline.count(answer.comparisons / parameters.work.comparisons_a_second);
    result.bound = std::max(result.bound, saturated(answer.bound + presolved->constant));
    result.is_exact = answer.is_exact;
    result.comparisons += answer.comparisons;
    comparisons -= answer.comparisons;
    if (!answer.choice) continue;
    result.choice = presolved->original(*answer.choice);
    pass.goal = cost_of(presolved->core, *answer.choice);
  }
  return result;
}

}  // namespace autopar::assignment
