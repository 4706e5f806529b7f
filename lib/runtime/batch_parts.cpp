#include "runtime/batch_parts.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace autopar::runtime {
namespace {

using graph::Range;
using graph::Tensor;

/// Writes a contiguous part of a tensor to its place.
void place(const Tensor& part, const std::vector<Range>& ranges, Tensor& whole) {
  const std::byte* from = part.data();
  std::byte* const to = whole.mutable_bytes().data();
  whole.slice(ranges).for_each_run([&](std::span<const std::byte> run) {
    std::memcpy(to + (run.data() - whole.data()), from, run.size());
    from += run.size();
  });
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

InputParts parts_of(const bundle::MetaInfo& info, const bundle::ProfileInfo& profile,
                    const NamedTensors& inputs, int rank) {
  InputParts parts;
  for (const bundle::PortInfo& port : profile.inputs) {
    const auto& ranges = port.ranges[static_cast<std::size_t>(rank)];
    if (!ranges) continue;
    const auto input = inputs.find(port.name);
    if (input == inputs.end()) continue;
    const Tensor& whole = input->second;
    std::vector<Tensor>& of_port = parts[port.name];
    if (!port.batch) {
      of_port.push_back(whole.slice(*ranges));
      continue;
    }
    for (int m = 0; m < info.microbatches; ++m)
      of_port.push_back(microbatch_of(port, whole, m).slice(*ranges));
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
