#pragma once

#include <cstddef>
#include <vector>

#include "assignment/arc_costs.h"
#include "assignment/row_classes.h"

namespace autopar::assignment {

/// The matrices of ArcCosts with equal rows and columns merged into classes: many strategies of an
/// operator treat one of its tensors alike, and messages need only be computed by class.
class ArcClasses {
 public:
  /// The classes of strategies that have equal costs over an arc, at this end and at the other.
  struct Arc {
    const RowClasses* own = nullptr;
    const RowClasses* others = nullptr;
    std::vector<double> costs;  ///< rows by the class of the other end
  };

  explicit ArcClasses(const ArcCosts& costs);
  ArcClasses(const ArcClasses&) = delete;
  ArcClasses& operator=(const ArcClasses&) = delete;

  /// The k-th arc.
  const Arc& arc(std::size_t k) const { return matrices_[matrix_of_[k]]; }
  /// The costs that one message over every edge looks at.
  double work() const { return work_; }

 private:
  std::vector<RowClasses> classes_;  ///< by matrix, of its rows
  std::vector<Arc> matrices_;
  std::vector<std::size_t> matrix_of_;  ///< by arc
  double work_ = 0;
};

}  // namespace autopar::assignment
