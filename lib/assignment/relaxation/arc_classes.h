#pragma once

#include <cstddef>
#include <vector>

#include "assignment/arc_costs.h"

namespace autopar::assignment {

/// The matrices of ArcCosts with equal rows and columns once: an operator has many strategies that
/// treat one of its tensors alike. What goes over an edge is a matter of such classes.
class ArcClasses {
 public:
  /// Which strategies of a node are alike for an arc.
  struct Classes {
    std::vector<int> of;                       ///< by strategy
    std::vector<std::size_t> representatives;  ///< by class, a strategy
  };
  struct Arc {
    const Classes* own = nullptr;
    const Classes* others = nullptr;
    std::vector<double> costs;  ///< rows by the others' class
  };

  explicit ArcClasses(const ArcCosts& costs);
  ArcClasses(const ArcClasses&) = delete;
  ArcClasses& operator=(const ArcClasses&) = delete;

  /// Of the k-th arc.
  const Arc& arc(std::size_t k) const { return matrices_[matrix_of_[k]]; }
  /// What a step over every edge in one direction looks at.
  double work() const { return work_; }

 private:
  std::vector<Classes> classes_;  ///< by matrix, of its rows
  std::vector<Arc> matrices_;
  std::vector<std::size_t> matrix_of_;  ///< by arc
  double work_ = 0;
};

}  // namespace autopar::assignment
