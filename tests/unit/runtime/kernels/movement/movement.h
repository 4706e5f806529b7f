#pragma once

#include <cmath>
#include <functional>
#include <numeric>

#include "unit/runtime/loops.h"

/// What tests of operators that move elements have in common.
namespace autopar::runtime::testing {

/// Counts from 0, and in types of one or two bytes from time to time anew.
inline Tensor counting(DataType type, const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(graph::num_elements(shape)));
  std::iota(values.begin(), values.end(), 0.0);
  const int bits = graph::bits_of(type);
  if (bits <= 16)
    for (double& value : values) value = std::fmod(value, bits == 8 ? 251 : 32749);
  return tensor_of(type, shape, values);
}

inline Tensor ints(const std::vector<std::int64_t>& values) {
  return Tensor::of_int64({static_cast<std::int64_t>(values.size())}, values);
}

/// The reference of any movement: output element by output element.
inline void check_movement(const Tensor& output, const std::function<double(const Shape&)>& truth) {
  const std::vector<double> values = doubles(output);
  std::size_t i = 0;
  for_each_index(output.shape(), [&](const Shape& index) {
    const double expected = truth(index);
    if (values[i] != expected)
      FAIL("at " << graph::to_string(index) << ": " << values[i] << ", not " << expected);
    ++i;
  });
}

inline const std::vector<DataType> one_of_each_size = {DataType::boolean, DataType::float16,
                                                       DataType::float32, DataType::int64};

/// An index counted from the front.
inline std::int64_t wrapped(double index, std::int64_t extent) {
  return static_cast<std::int64_t>(index) + (index < 0 ? extent : 0);
}

}  // namespace autopar::runtime::testing
