#pragma once

#include <vector>

namespace autopar::cost {

/// A device's rate by the size of the work: arithmetic by the operations of a product, memory
/// traffic by the bytes of an operator. The rate is given at some sizes; between two of them it is
/// a power of the size (a line in logarithms), beyond the first and the last it is theirs. So the
/// time, size over rate, never falls with the size if it does not fall from one given size to the
/// next.
class SizedRate {
 public:
  struct Point {
    double size = 0;
    double rate = 0;
    friend bool operator==(const Point&, const Point&) = default;
  };

  /// The same at every size.
  SizedRate(double rate = 0) : points_{{1, rate}} {}  // NOLINT: a number is a rate
  /// Throws InternalError where there is no point, sizes do not rise or a number is not positive.
  explicit SizedRate(std::vector<Point> points);

  double at(double size) const;
  double seconds(double size) const { return size / at(size); }
  /// The greatest rate of all sizes.
  double highest() const;

  const std::vector<Point>& points() const { return points_; }
  bool is_constant() const { return points_.size() == 1; }
  /// More takes no less time, whatever the rate.
  bool takes_longer_for_more() const;

  friend bool operator==(const SizedRate&, const SizedRate&) = default;

 private:
  std::vector<Point> points_;
};

}  // namespace autopar::cost
