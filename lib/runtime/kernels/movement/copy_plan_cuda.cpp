#include "runtime/kernels/movement/copy_plan_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <ranges>
#include <utility>

#include "runtime/kernels/common/strides.h"

namespace autopar::runtime::cuda {
namespace {

/// Sides of a matrix below this are too short for tiles.
constexpr std::int64_t least_tiled = 16;

struct Dimension {
  std::int64_t extent = 1;
  std::int64_t in = 0;  ///< strides
  std::int64_t out = 0;
};
/// Innermost first.
using Dimensions = std::vector<Dimension>;

std::int64_t elements_of(const Dimensions& dimensions) {
  std::int64_t elements = 1;
  for (const Dimension& each : dimensions) elements *= each.extent;
  return elements;
}

/// In the output's order, and as few as can be.
Dimensions merged_dimensions(const CopyLayout& layout) {
  Dimensions all;
  for (std::size_t d = 0; d < layout.shape.size(); ++d)
    if (layout.shape[d] != 1)
      all.push_back({layout.shape[d], layout.in_strides[d], layout.out_strides[d]});
  std::ranges::stable_sort(all, std::greater{}, &Dimension::out);
  Shape shape;
  Shape in;
  Shape out;
  for (const Dimension& each : all) {
    shape.push_back(each.extent);
    in.push_back(each.in);
    out.push_back(each.out);
  }
  merge_dimensions(shape, {&in, &out});
  Dimensions merged;
  for (std::size_t d = shape.size(); d-- > 0;) merged.push_back({shape[d], in[d], out[d]});
  return merged;
}

/// Takes so many elements, which lie together along dimension 0 of the output, as one; those of the
/// input, too, if they lie together there (`in_both`), else they are all the same one. False, and
/// nothing done, where extents or strides do not allow it.
bool join_elements(Dimensions& dimensions, std::int64_t elements, bool in_both) {
  const auto outer = dimensions | std::views::drop(1);
  const bool fits = dimensions[0].extent % elements == 0 &&
                    std::ranges::all_of(outer, [&](const Dimension& each) {
                      return each.out % elements == 0 && (!in_both || each.in % elements == 0);
                    });
  if (!fits) return false;
  dimensions[0].extent /= elements;
  for (Dimension& each : outer) {
    each.out /= elements;
    if (in_both) each.in /= elements;
  }
  return true;
}

/// Elements as wider words, where dimension 0 lies together on both sides. Returns how many make
/// one.
std::int64_t widen(Dimensions& dimensions, std::int64_t most) {
  std::int64_t elements = most;
  while (!join_elements(dimensions, elements, true)) elements /= 2;
  if (dimensions[0].extent == 1) dimensions.erase(dimensions.begin());
  return elements;
}

/// The dimension along which the input lies together, if it is another one than the output's and
/// both are long enough for tiles; else 0.
std::size_t transposed_dimension(const Dimensions& dimensions) {
  if (dimensions.empty() || dimensions[0].extent < least_tiled || std::abs(dimensions[0].in) <= 1)
    return 0;
  const auto found = std::ranges::find_if(
      dimensions, [](const Dimension& each) { return std::abs(each.in) == 1; });
  const bool is_long = found != dimensions.end() && found->extent >= least_tiled;
  return is_long ? static_cast<std::size_t>(found - dimensions.begin()) : 0;
}

/// What all jobs of a copy have in common.
struct CopyRules {
  int element_bytes;
  int alignment;
  std::int64_t most_elements;

  /// A power of two that divides where the part begins.
  std::int64_t alignment_at(std::int64_t offset) const {
    return std::gcd(std::int64_t{alignment}, offset);
  }
};

/// Offsets are in bytes.
CopyJob make_job(const CopyRules& rules, Dimensions dimensions, std::int64_t in_offset,
                 std::int64_t out_offset) {
  CopyJob job;
  job.in_offset = in_offset;
  job.out_offset = out_offset;
  job.load_bytes = job.store_bytes = rules.element_bytes;
  if (!dimensions.empty() && dimensions[0].out == 1) {
    if (dimensions[0].in == 1) {
      const auto alignment =
          std::min(rules.alignment_at(in_offset), rules.alignment_at(out_offset));
      const auto elements = widen(dimensions, alignment / rules.element_bytes);
      job.load_bytes = job.store_bytes = static_cast<int>(elements) * rules.element_bytes;
    } else if (dimensions[0].in == 0 && rules.alignment_at(out_offset) == widest_word &&
               rules.element_bytes < widest_word &&
               join_elements(dimensions, widest_word / rules.element_bytes, false)) {
      job.form = CopyForm::repeated;
      job.store_bytes = widest_word;
    }
  }
  if (const std::size_t row = transposed_dimension(dimensions);
      row != 0 && job.load_bytes < widest_word) {
    job.form = CopyForm::tiles;
    const Dimension columns = dimensions[0];
    const Dimension rows = dimensions[row];
    job.matrix = {static_cast<std::uint32_t>(rows.extent),
                  static_cast<std::uint32_t>(columns.extent),
                  rows.in,
                  columns.in,
                  rows.out,
                  columns.out};
    dimensions.erase(dimensions.begin() + static_cast<std::ptrdiff_t>(row));
    dimensions.erase(dimensions.begin());
  }
  for (const Dimension& each : dimensions) job.layout.add(each.extent, each.in, each.out);
  return job;
}

/// Halves the outermost dimension until all fits into one launch. Offsets are in elements.
void add_jobs(const CopyRules& rules, Dimensions dimensions, std::int64_t in_offset,
              std::int64_t out_offset, std::vector<CopyJob>& jobs) {
  if (dimensions.size() <= WordLayout::max_dimensions &&
      elements_of(dimensions) <= rules.most_elements) {
    jobs.push_back(make_job(rules, std::move(dimensions), in_offset * rules.element_bytes,
                            out_offset * rules.element_bytes));
    return;
  }
  const Dimension outermost = dimensions.back();
  std::int64_t half = outermost.extent / 2;
  // Words stay wide where a row is cut.
  if (dimensions.size() == 1 && half > widest_word) half -= half % widest_word;
  const auto add_part = [&](std::int64_t begin, std::int64_t extent) {
    Dimensions part = dimensions;
    part.back().extent = extent;
    if (extent == 1) part.pop_back();
    add_jobs(rules, std::move(part), in_offset + begin * outermost.in,
             out_offset + begin * outermost.out, jobs);
  };
  add_part(0, half);
  add_part(half, outermost.extent - half);
}

}  // namespace

bool repeats_elements(const CopyLayout& layout) {
  const Dimensions dimensions = merged_dimensions(layout);
  return !dimensions.empty() && dimensions[0].in == 0;
}

std::vector<CopyJob> plan_copy(const CopyLayout& layout, int alignment,
                               std::int64_t most_elements) {
  std::vector<CopyJob> jobs;
  if (graph::num_elements(layout.shape) > 0)
    add_jobs({layout.element_bytes, alignment, most_elements}, merged_dimensions(layout), 0, 0,
             jobs);
  return jobs;
}

}  // namespace autopar::runtime::cuda
