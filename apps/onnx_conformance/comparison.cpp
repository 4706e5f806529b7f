#include "comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/kernels/common/element_types.h"

namespace autopar::conformance {
namespace {

using graph::DataType;
using graph::Tensor;

constexpr double two_ulps_of_bfloat16 = 0x1p-6;

/// Elements as doubles; nullopt for types that no kernel computes in, which are compared by bytes.
/// 64-bit integers beyond 2^53 lose digits here, no more than the tolerance allows.
std::optional<std::vector<double>> numbers(const Tensor& tensor) {
  const Tensor data = tensor.contiguous_copy();
  std::vector<double> result;
  const auto read = [&]<typename T>(T) {
    for (const T& value : data.values<T>())
      result.push_back(static_cast<double>(runtime::widened(value)));
  };
  using All = runtime::Joined<runtime::Numbers, runtime::Halves>;
  if (!runtime::visit_type(runtime::stored_type(tensor.type()), All{}, read)) return std::nullopt;
  return result;
}

bool is_close(double expected, double found, double relative, double absolute) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) return expected == found;
  return std::fabs(expected - found) <= absolute + relative * std::fabs(expected);
}

}  // namespace

std::optional<std::string> difference(const Tensor& expected, const Tensor& found, double relative,
                                      double absolute) {
  if (expected.type() != found.type())
    return fmt::format("it is {}, not {}", name_of(found.type()), name_of(expected.type()));
  if (expected.shape() != found.shape())
    return fmt::format("its shape is {}, not {}", graph::to_string(found.shape()),
                       graph::to_string(expected.shape()));
  if (expected.type() == DataType::bfloat16) relative = std::max(relative, two_ulps_of_bfloat16);
  const auto wanted = numbers(expected);
  const auto given = numbers(found);
  if (!wanted) {
    const Tensor other = found.contiguous_copy();
    const bool same = std::ranges::equal(expected.contiguous_copy().bytes(), other.bytes());
    return same ? std::nullopt : std::optional<std::string>("its bytes differ");
  }
  for (std::size_t i = 0; i < wanted->size(); ++i)
    if (!is_close((*wanted)[i], (*given)[i], relative, absolute))
      return fmt::format("element {} is {}, not {}", i, (*given)[i], (*wanted)[i]);
  return std::nullopt;
}

}  // namespace autopar::conformance
