#include "serving/joined_tensors.h"

#include <algorithm>
#include <numeric>

namespace autopar::serving {
namespace {

using graph::Range;
using graph::Shape;
using graph::Tensor;

/// Bytes from one index of the dimensions in front of `dim` to the next.
std::int64_t bytes_behind(const Tensor& tensor, std::size_t dim) {
  const Shape behind(tensor.shape().begin() + static_cast<std::ptrdiff_t>(dim),
                     tensor.shape().end());
  return graph::bytes_of(tensor.type(), graph::num_elements(behind));
}

Tensor part_of(const Tensor& whole, std::size_t dim, const Range& range) {
  std::vector<Range> ranges;
  for (const std::int64_t extent : whole.shape()) ranges.push_back({0, extent});
  ranges[dim] = range;
  return whole.slice(ranges);
}

}  // namespace

Tensor joined(std::span<const Tensor* const> parts, int dim) {
  const auto at = static_cast<std::size_t>(dim);
  Shape shape = parts.front()->shape();
  shape[at] = 0;
  for (const Tensor* part : parts) shape[at] += part->shape()[at];
  Tensor whole = Tensor::zeros(parts.front()->type(), shape);
  const std::int64_t stride = bytes_behind(whole, at);
  std::byte* begin = whole.mutable_bytes().data();
  for (const Tensor* part : parts) {
    const Tensor own = part->is_contiguous() ? *part : part->contiguous_copy();
    const std::int64_t run = bytes_behind(own, at);
    const std::int64_t runs = run == 0 ? 0 : own.size_bytes() / run;
    for (std::int64_t i = 0; i < runs; ++i)
      std::copy_n(own.bytes().data() + i * run, run, begin + i * stride);
    begin += run;
  }
  return whole;
}

std::optional<std::vector<Tensor>> parted(const Tensor& whole, int dim,
                                          std::span<const std::int64_t> rows) {
  const auto at = static_cast<std::size_t>(dim);
  const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (at >= whole.shape().size() || all == 0 || whole.shape()[at] % all != 0) return std::nullopt;
  const std::int64_t extent = whole.shape()[at] / all;  // of a row
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t count : rows) {
    parts.push_back(part_of(whole, at, {begin * extent, (begin + count) * extent}));
    begin += count;
  }
  return parts;
}

}  // namespace autopar::serving
