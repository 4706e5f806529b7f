#include "runtime/batch_parts.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace autopar::runtime {
namespace {

using graph::Range;
using graph::Tensor;

/// Writes a contiguous part of a tensor to its place.
void place(const Tensor& part, const std::vector<Range>& ranges, Tensor& whole) {
  if (part.elements() == 0) return;
  // Elements of less than a byte are never split.
  if (graph::bits_of(part.type()) % 8 != 0) {
    require(part.shape() == whole.shape(), "a tensor of packed elements is placed whole");
    std::ranges::copy(part.bytes(), whole.mutable_bytes().begin());
    return;
  }
  const std::int64_t element = graph::bytes_of(part.type(), 1);
  const std::byte* from = part.data();
  std::byte* to = whole.mutable_bytes().data();
  // Odometer over all dimensions but the last, whose elements follow one another.
  const std::size_t rank = ranges.size();
  const std::int64_t row = (rank == 0 ? 1 : ranges.back().size()) * element;
  std::vector<std::int64_t> index;
  for (std::size_t d = 0; d + 1 < rank; ++d) index.push_back(ranges[d].begin);
  while (true) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      offset = offset * whole.shape()[d] + (d + 1 < rank ? index[d] : ranges[d].begin);
    }
    std::memcpy(to + offset * element, from, static_cast<std::size_t>(row));
    from += row;
    std::size_t d = index.size();
    while (d > 0 && ++index[d - 1] == ranges[d - 1].end) {
      index[d - 1] = ranges[d - 1].begin;
      --d;
    }
    if (d == 0) return;
  }
}

/// The rows of the whole batch that a microbatch has: fewer than BatchInfo::rows, or none, at the
/// end.
Range rows_of(const bundle::PortInfo& port, int microbatch) {
  const std::int64_t all = port.shape[static_cast<std::size_t>(port.batch->dim)];
  const std::int64_t rows = port.batch->rows;
  return {std::min(all, microbatch * rows), std::min(all, (microbatch + 1) * rows)};
}

std::vector<Range> whole_ranges(const graph::Shape& shape) {
  std::vector<Range> ranges;
  for (const std::int64_t extent : shape) ranges.push_back({0, extent});
  return ranges;
}

/// A microbatch's tensor. Where rows are missing, the last one is repeated.
Tensor microbatch_of(const bundle::PortInfo& port, const Tensor& whole, int microbatch) {
  const auto dim = static_cast<std::size_t>(port.batch->dim);
  const Range rows = rows_of(port, microbatch);
  std::vector<Range> taken = whole_ranges(port.shape);
  taken[dim] = rows;
  if (rows.size() == port.batch->rows) return whole.slice(taken);
  graph::Shape shape = port.shape;
  shape[dim] = port.batch->rows;
  Tensor filled = Tensor::zeros(port.type, shape);
  std::vector<Range> put = whole_ranges(shape);
  put[dim] = {0, rows.size()};
  place(whole.slice(taken).contiguous_copy(), put, filled);
  if (port.shape[dim] == 0) return filled;
  taken[dim] = {port.shape[dim] - 1, port.shape[dim]};
  const Tensor last = whole.slice(taken).contiguous_copy();
  for (std::int64_t row = rows.size(); row < shape[dim]; ++row) {
    put[dim] = {row, row + 1};
    place(last, put, filled);
  }
  return filled;
}

}  // namespace

InputParts parts_of(const bundle::MetaInfo& info, const NamedTensors& inputs, int rank) {
  InputParts parts;
  for (const bundle::PortInfo& port : info.inputs) {
    const auto& ranges = port.ranges[static_cast<std::size_t>(rank)];
    if (!ranges) continue;
    const auto input = inputs.find(port.name);
    if (input == inputs.end()) continue;
    const Tensor& whole = input->second;
    std::vector<Tensor>& of_port = parts[port.name];
    if (!port.batch) {
      of_port.push_back(whole.slice(*ranges).contiguous_copy());
      continue;
    }
    for (int m = 0; m < info.microbatches; ++m)
      of_port.push_back(microbatch_of(port, whole, m).slice(*ranges).contiguous_copy());
  }
  return parts;
}

std::vector<int> microbatches_read(const bundle::MetaInfo& info, const bundle::PortInfo& port) {
  if (!port.batch) return {info.microbatches - 1};
  std::vector<int> read;
  for (int m = 0; m < info.microbatches; ++m)
    if (rows_of(port, m).size() > 0) read.push_back(m);
  return read;
}

void place_output(const bundle::PortInfo& port, const std::vector<Range>& ranges, int microbatch,
                  const Tensor& part, Tensor& whole) {
  if (!port.batch) return place(part, ranges, whole);
  const auto dim = static_cast<std::size_t>(port.batch->dim);
  const Range rows = rows_of(port, microbatch);
  const std::int64_t kept = std::min(ranges[dim].end, rows.size());
  if (kept <= ranges[dim].begin) return;
  std::vector<Range> taken = whole_ranges(part.shape());
  taken[dim].end = kept - ranges[dim].begin;
  std::vector<Range> put = ranges;
  put[dim] = {rows.begin + ranges[dim].begin, rows.begin + kept};
  place(part.slice(taken).contiguous_copy(), put, whole);
}

}  // namespace autopar::runtime
