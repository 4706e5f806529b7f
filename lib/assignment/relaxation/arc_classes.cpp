#include "assignment/relaxation/arc_classes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "assignment/memo.h"

namespace autopar::assignment {

namespace {

struct RowHash {
  std::size_t operator()(std::span<const double> row) const {
    std::size_t hash = 0;
    for (const double cost : row) hash = combined(hash, std::bit_cast<std::uint64_t>(cost));
    return hash;
  }
};
struct RowEqual {
  bool operator()(std::span<const double> a, std::span<const double> b) const {
    return std::ranges::equal(a, b);
  }
};

ArcClasses::Classes row_classes(const ArcCosts& costs, const ArcCosts::Arc& arc) {
  ArcClasses::Classes classes;
  std::unordered_map<std::span<const double>, int, RowHash, RowEqual> known;
  for (std::size_t t = 0; t < costs.strategies(arc.other); ++t) {
    const std::span row(costs.row(arc, t), costs.strategies(arc.node));
    const auto [entry, is_new] = known.try_emplace(row, static_cast<int>(known.size()));
    classes.of.push_back(entry->second);
    if (is_new) classes.representatives.push_back(t);
  }
  return classes;
}

}  // namespace

ArcClasses::ArcClasses(const ArcCosts& costs) {
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> matrices;  // by place of both arcs'
  const std::size_t arcs = costs.arcs_of_all_nodes();
  std::vector<std::size_t> firsts;  // by matrix, an arc
  for (std::size_t k = 0; k < arcs; ++k) {
    const ArcCosts::Arc& arc = costs.arc(k);
    const auto [entry, is_new] =
        matrices.try_emplace({arc.costs, costs.arc(arc.reverse).costs}, firsts.size());
    if (is_new) firsts.push_back(k);
    matrix_of_.push_back(entry->second);
  }
  for (const std::size_t k : firsts) classes_.push_back(row_classes(costs, costs.arc(k)));
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
    work_ += 0.5 * static_cast<double>(matrix.costs.size() + matrix.own->of.size() +
                                       matrix.others->of.size());
  }
}

}  // namespace autopar::assignment
