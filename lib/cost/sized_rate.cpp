#include "cost/sized_rate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"

namespace autopar::cost {

SizedRate::SizedRate(std::vector<Point> points) : points_(std::move(points)) {
  require(!points_.empty(), "a rate is known at some size");
  require(std::ranges::is_sorted(points_, std::ranges::less_equal{}, &Point::size),
          "a rate's sizes rise");
  require(std::ranges::all_of(points_, [](const Point& p) { return p.size > 0 && p.rate > 0; }),
          "sizes and rates are positive");
}

double SizedRate::at(double size) const {
  if (size <= points_.front().size) return points_.front().rate;
  if (size >= points_.back().size) return points_.back().rate;
  const auto above = std::ranges::upper_bound(points_, size, {}, &Point::size);
  const auto below = above - 1;
  const double part = std::log(size / below->size) / std::log(above->size / below->size);
  return below->rate * std::pow(above->rate / below->rate, part);
}

double SizedRate::highest() const { return std::ranges::max(points_, {}, &Point::rate).rate; }

bool SizedRate::takes_longer_for_more() const {
  return std::ranges::is_sorted(points_, {}, [](const Point& p) { return p.size / p.rate; });
}

}  // namespace autopar::cost
