#pragma once

#include <catch2/catch.hpp>

#include "unit/runtime/run_node.h"

/// What tests against loops in double have in common.
namespace autopar::runtime::testing {

using Random = std::mt19937;

inline Tensor random_floats(Random& random, const Shape& shape, DataType type = DataType::float32) {
  std::vector<double> values(static_cast<std::size_t>(graph::num_elements(shape)));
  std::normal_distribution<> normal;
  for (double& value : values) value = normal(random);
  return tensor_of(type, shape, values);
}

inline std::vector<float> run_floats(const NodeRun& node) {
  const Tensor out = run_node(node).front();
  return {out.values<float>().begin(), out.values<float>().end()};
}

inline void check_close(const std::vector<float>& actual, const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    REQUIRE(actual[i] == Approx(expected[i]).epsilon(1e-4).margin(1e-4));
  }
}

/// To the precision of the tensor's type; `magnitude` is that of the numbers that were added up.
inline void check_close(const Tensor& actual, const std::vector<double>& expected,
                        double magnitude = 1) {
  const double tolerance = 4 * tolerance_of(actual.type());
  const std::vector<double> values = doubles(actual);
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(name_of(actual.type()), i);
    REQUIRE(values[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance * magnitude));
  }
}

/// The element of a tensor at an index of the result, right-aligned, extents of 1 broadcast.
inline double at(const Tensor& tensor, const Shape& index) {
  std::int64_t offset = 0;
  const std::size_t skip = index.size() - tensor.shape().size();
  for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
    offset = offset * tensor.shape()[d] + (tensor.shape()[d] == 1 ? 0 : index[d + skip]);
  }
  return number_at(tensor, static_cast<std::size_t>(offset));
}

template <typename Visit>
void for_each_index(const Shape& shape, Visit visit) {
  for (std::int64_t i = 0; i < graph::num_elements(shape); ++i) {
    Shape index(shape.size());
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0;) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    visit(index);
  }
}

}  // namespace autopar::runtime::testing
