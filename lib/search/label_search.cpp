#include "search/label_search.h"

#include <algorithm>

#include "search/limited_elimination.h"
#include "search/presolve.h"
#include "search/saturating.h"

namespace autopar::search {

namespace {

constexpr std::size_t first_width = 16;
constexpr std::size_t growth_of_width = 16;

}  // namespace

std::optional<LabelSearch> search_labels(AssignmentProblem problem, std::vector<double> prices,
                                         const LabelSearchOptions& options) {
  LabelSearch result;
  const auto presolved = presolve(std::move(problem), std::move(prices));
  if (!presolved || presolved->constant >= options.goal) {
    result.bound = options.goal;
    result.is_exact = true;
    return result;
  }
  result.bound = saturated(presolved->constant);
  const auto elimination = LimitedElimination::make(presolved->core, presolved->prices,
                                                    options.most_cells, options.deadline);
  if (!elimination) return std::nullopt;
  LabelOptions pass{.goal = saturated(options.goal - presolved->constant),
                    .width = first_width,
                    .most_comparisons = options.most_comparisons,
                    .deadline = options.deadline};
  for (; !result.is_exact && pass.most_comparisons > 0 && !options.deadline.is_over();
       pass.width *= growth_of_width) {
    const auto answer = elimination->run(pass);
    result.bound = std::max(result.bound, saturated(answer.bound + presolved->constant));
    result.is_exact = answer.is_exact;
    pass.most_comparisons -= answer.comparisons;
    if (!answer.choice) continue;
    result.choice = presolved->original(*answer.choice);
    pass.goal = cost_of(presolved->core, *answer.choice);
  }
  return result;
}

}  // namespace autopar::search
