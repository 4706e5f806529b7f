#include "sharding/tensor_shard_spec.h"

#include <algorithm>
#include <array>
#include <bitset>

namespace autopar::sharding {
namespace {

/// By Reduce.
constexpr std::array<std::string_view, 4> reduce_names{"sum", "max", "min", "mean"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_axes(std::string& text, const std::vector<int>& axes) {
  for (const int axis : axes) text += static_cast<char>('0' + axis);
}

}  // namespace

std::string_view name_of(Reduce reduce) {
  return reduce_names.at(static_cast<std::size_t>(reduce));
}

TensorShardSpec TensorShardSpec::replicated(std::size_t num_dims) {
  return {.dims = std::vector<std::vector<int>>(num_dims), .partial = {}};
}

TensorShardSpec TensorShardSpec::parse(std::string_view text) {
  const auto check = [text](bool holds) {
    if (holds) return;
    fail(
        "sharding spec '{}' is not of the form RS0, S01R or RR+P0max (a dimension is R or S with "
        "mesh axes, no axis stands twice, partial axes ascend)",
        text);
  };
  std::string_view rest = text;
  const auto consume = [&rest](std::string_view prefix) {
    if (!rest.starts_with(prefix)) return false;
    rest.remove_prefix(prefix.size());
    return true;
  };
  std::bitset<10> seen;
  const auto consume_axes = [&] {
    std::vector<int> axes;
    for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1)) {
      axes.push_back(rest.front() - '0');
      check(!seen[axes.back()]);
      seen.set(axes.back());
    }
    check(!axes.empty());
    return axes;
  };

  TensorShardSpec spec;
  const bool is_scalar = consume(".");
  while (!is_scalar && !rest.empty() && rest.front() != '+') {
    const bool is_whole = consume("R");
    check(is_whole || consume("S"));
    spec.dims.push_back(is_whole ? std::vector<int>{} : consume_axes());
  }
  check(is_scalar || !spec.dims.empty());
  if (consume("+P")) {
    spec.partial = consume_axes();
    check(std::ranges::is_sorted(spec.partial));
    // A sum has no name in the text, so that parse and print are inverse.
    for (const Reduce reduce : {Reduce::max, Reduce::min, Reduce::mean}) {
      if (!consume(name_of(reduce))) continue;
      spec.reduce = reduce;
      break;
    }
  }
  check(rest.empty());
  return spec;
}

bool TensorShardSpec::uses(int axis) const {
  const auto has = [axis](const std::vector<int>& axes) {
    return std::ranges::find(axes, axis) != axes.end();
  };
  return has(partial) || std::ranges::any_of(dims, has);
}

std::string to_string(const TensorShardSpec& spec) {
  std::string text = spec.dims.empty() ? "." : "";
  for (const std::vector<int>& axes : spec.dims) {
    text += axes.empty() ? 'R' : 'S';
    append_axes(text, axes);
  }
  if (spec.is_partial()) {
    text += "+P";
    append_axes(text, spec.partial);
    if (spec.reduce != Reduce::sum) text += name_of(spec.reduce);
  }
  return text;
}

TensorShardSpec without_idle_axes(TensorShardSpec spec, const DeviceMesh& mesh) {
  const auto is_idle = [&mesh](int axis) { return mesh.axis_size(axis) == 1; };
  for (std::vector<int>& axes : spec.dims) std::erase_if(axes, is_idle);
  std::erase_if(spec.partial, is_idle);
  if (!spec.is_partial()) spec.reduce = Reduce::sum;
  return spec;
}

Range shard_range(std::int64_t size, int parts, int index) {
  const std::int64_t share = (size + parts - 1) / parts;
  return {std::min(index * share, size), std::min((index + 1) * share, size)};
}

Range shard_range(Range whole, std::span<const int> axes, const DeviceMesh& mesh,
                  std::span<const int> coordinates) {
  for (const int axis : axes) {
    require(axis >= 0 && axis < mesh.num_axes(), "a spec names axes of its mesh");
    const Range share = shard_range(whole.size(), mesh.axis_size(axis), coordinates[axis]);
    whole = {whole.begin + share.begin, whole.begin + share.end};
  }
  return whole;
}

std::vector<Range> local_ranges(const TensorShardSpec& spec, const Shape& shape,
                                const DeviceMesh& mesh, int rank) {
  require(spec.dims.size() == shape.size(), "a spec has one entry a dimension");
  const std::vector<int> coordinates = mesh.coordinates(rank);
  std::vector<Range> ranges;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    ranges.push_back(shard_range({0, shape[d]}, spec.dims[d], mesh, coordinates));
  }
  return ranges;
}

Shape local_shape(const TensorShardSpec& spec, const Shape& shape, const DeviceMesh& mesh,
                  int rank) {
  Shape local;
  for (const Range& range : local_ranges(spec, shape, mesh, rank)) local.push_back(range.size());
  return local;
}

Shape largest_local_shape(const TensorShardSpec& spec, const Shape& shape, const DeviceMesh& mesh) {
  return local_shape(spec, shape, mesh, 0);
}

}  // namespace autopar::sharding
