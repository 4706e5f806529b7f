#include "sharding/tensor_shard_spec.h"

#include <algorithm>
#include <array>
#include <bitset>

namespace autopar::sharding {
namespace {

/// By Reduce.
constexpr std::array<std::string_view, 4> reduce_names{"sum", "max", "min", "mean"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Reads a spec's text from left to right; each function consumes what it names.
class SpecReader {
 public:
  explicit SpecReader(std::string_view text) : text_(text), rest_(text) {}

  TensorShardSpec read() {
    TensorShardSpec spec;
    if (!consume(".")) {
      while (!rest_.empty() && rest_.front() != '+') spec.dims.push_back(dimension());
      if (spec.dims.empty()) malformed();
    }
    if (consume("+P")) {
      spec.partial = axes();
      if (!std::ranges::is_sorted(spec.partial)) malformed();
      if (!rest_.empty()) spec.reduce = reduce();
    }
    if (!rest_.empty()) malformed();
    return spec;
  }

 private:
  [[noreturn]] void malformed() const {
    fail(
        "sharding spec '{}' is not of the form RS0, S01R or RR+P0max (a dimension is R or S with "
        "mesh axes, no axis stands twice, partial axes ascend)",
        text_);
  }

  bool consume(std::string_view prefix) {
    if (!rest_.starts_with(prefix)) return false;
    rest_.remove_prefix(prefix.size());
    return true;
  }

  std::vector<int> dimension() {
    if (consume("R")) return {};
    if (!consume("S")) malformed();
    return axes();
  }

  std::vector<int> axes() {
    std::vector<int> result;
    while (!rest_.empty() && is_digit(rest_.front())) {
      const int axis = rest_.front() - '0';
      if (seen_[axis]) malformed();
      seen_.set(axis);
      result.push_back(axis);
      rest_.remove_prefix(1);
    }
    if (result.empty()) malformed();
    return result;
  }

  /// A sum has no name in the text, so that parse and print are inverse.
  Reduce reduce() {
    for (const Reduce value : {Reduce::max, Reduce::min, Reduce::mean}) {
      if (consume(name_of(value))) return value;
    }
    malformed();
  }

  std::string_view text_;
  std::string_view rest_;
  std::bitset<10> seen_;
};

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

TensorShardSpec TensorShardSpec::parse(std::string_view text) { return SpecReader(text).read(); }

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
