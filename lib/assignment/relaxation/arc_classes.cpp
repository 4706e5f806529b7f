#include "assignment/relaxation/arc_classes.h"

#include <map>
#include <span>
#include <utility>

namespace autopar::assignment {

namespace {

/// The work of an entry of a matrix of classes, or of a strategy, in costs that a search looks at:
/// entries stand side by side and are looked at many at once.
constexpr double work_of_entry = 0.25;

}  // namespace

ArcClasses::ArcClasses(const ArcCosts& costs) {
  std::vector<std::size_t> firsts;                                      // by matrix, an arc
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> matrices;  // by place of both arcs'
  for (std::size_t k = 0; k < costs.first_arc(costs.nodes()); ++k) {
    const ArcCosts::Arc& arc = costs.arc(k);
    const auto [entry, is_new] =
        matrices.try_emplace({arc.costs, costs.arc(arc.reverse).costs}, firsts.size());
    if (is_new) firsts.push_back(k);
    matrix_of_.push_back(entry->second);
  }
  for (const std::size_t k : firsts) {
    const ArcCosts::Arc& arc = costs.arc(k);
    const std::size_t columns = costs.strategies(arc.node);
    classes_.push_back(
        row_classes(std::span(costs.row(arc, 0), costs.strategies(arc.other) * columns), columns));
  }
  for (std::size_t m = 0; m < firsts.size(); ++m) {
    const ArcCosts::Arc& arc = costs.arc(firsts[m]);
    Arc& matrix = matrices_.emplace_back();
    matrix.own = &classes_[matrix_of_[arc.reverse]];
    matrix.others = &classes_[m];
    for (const std::size_t t : matrix.others->representatives) {
      const double* row = costs.row(arc, t);
      for (const std::size_t s : matrix.own->representatives) matrix.costs.push_back(row[s]);
    }
  }
  for (const std::size_t m : matrix_of_) {
    const Arc& matrix = matrices_[m];
    work_ += work_of_entry * static_cast<double>(matrix.costs.size() + matrix.own->of.size() +
                                                 matrix.others->of.size());
  }
}

}  // namespace autopar::assignment
