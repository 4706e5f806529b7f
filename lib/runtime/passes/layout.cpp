#include "runtime/passes/layout.h"

#include <array>
#include <numeric>
#include <string_view>

namespace autopar::runtime::passes {

namespace {

using Dimension = Layout::Dimension;

constexpr std::array<std::string_view, 5> reshapes = {"Reshape", "Squeeze", "Unsqueeze", "Flatten",
                                                      "Identity"};
/// More dimensions than this are not permuted: their orders are tried one by one.
constexpr std::size_t most_dimensions = 6;

/// Factors that are walked in one stride become one.
Dimension merged(const Dimension& factors) {
  Dimension result;
  for (const auto& factor : factors) {
    if (factor.extent == 1) continue;
    if (!result.empty() && result.back().stride == factor.stride * factor.extent)
      result.back() = {result.back().extent * factor.extent, factor.stride};
    else
      result.push_back(factor);
  }
  return result;
}

/// All factors, as one dimension.
Dimension joined(const std::vector<Dimension>& dimensions) {
  Dimension all;
  for (const Dimension& each : dimensions) all.insert(all.end(), each.begin(), each.end());
  return merged(all);
}

std::optional<std::vector<Dimension>> taken_apart(const std::vector<Dimension>& from,
                                                  const Shape& to) {
  if (graph::num_elements(to) == 0) return std::nullopt;
  Dimension left = joined(from);
  std::ranges::reverse(left);  // the next one at the back
  std::vector<Dimension> result;
  for (std::int64_t extent : to) {
    Dimension& dimension = result.emplace_back();
    while (extent > 1) {
      Layout::Factor& next = left.back();
      if (extent % next.extent == 0) {
        extent /= next.extent;
        dimension.push_back(next);
        left.pop_back();
      } else if (next.extent % extent == 0) {
        next.extent /= extent;
        dimension.push_back({extent, next.stride * next.extent});
        extent = 1;
      } else {
        return std::nullopt;
      }
    }
  }
  return result;
}

std::optional<std::vector<Dimension>> expanded(std::vector<Dimension> from, const Shape& to) {
  if (from.size() > to.size()) return std::nullopt;
  from.insert(from.begin(), to.size() - from.size(), Dimension{});
  for (std::size_t d = 0; d < to.size(); ++d)
    if (from[d].empty() && to[d] > 1) from[d] = {{to[d], 0}};
  return from;
}

std::int64_t extent_of(const Dimension& dimension) {
  return std::accumulate(dimension.begin(), dimension.end(), std::int64_t{1},
                         [](std::int64_t n, const auto& factor) { return n * factor.extent; });
}

}  // namespace

Permutation permutation_of(const Node& transpose, std::size_t rank) {
  Permutation reversed(rank);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return transpose.ints_attribute("perm", reversed);
}

Layout::Layout(const Shape& source) {
  const Shape strides = graph::row_major_strides(source);
  for (std::size_t d = 0; d < source.size(); ++d)
    dimensions_.push_back(merged({{source[d], strides[d]}}));
}

std::optional<Layout> Layout::after(const Matcher& matcher, const Node& node) const {
  const Shape& to = matcher.shape(node.outputs[0]);
  std::optional<std::vector<Dimension>> dimensions;
  if (is_onnx(node, "Transpose")) {
    dimensions.emplace();
    for (const std::int64_t d : permutation_of(node, dimensions_.size()))
      dimensions->push_back(dimensions_[static_cast<std::size_t>(d)]);
  } else if (is_onnx(node, "Expand")) {
    dimensions = expanded(dimensions_, to);
  } else if (node.domain.empty() && std::ranges::find(reshapes, node.op_type) != reshapes.end()) {
    dimensions = taken_apart(dimensions_, to);
  }
  if (!dimensions) return std::nullopt;
  Layout result = *this;
  result.dimensions_ = std::move(*dimensions);
  return result;
}

void Layout::swap_last_two() {
  std::swap(dimensions_[dimensions_.size() - 1], dimensions_[dimensions_.size() - 2]);
}

std::optional<Layout> Layout::reshaped(const Shape& to) const {
  auto dimensions = taken_apart(dimensions_, to);
  if (!dimensions) return std::nullopt;
  Layout result = *this;
  result.dimensions_ = std::move(*dimensions);
  return result;
}

std::optional<std::int64_t> Layout::major_extent(std::size_t d) const {
  const Dimension factors = merged(dimensions_[d]);
  return factors.size() > 1 ? std::optional(factors.front().extent) : std::nullopt;
}

Layout::Stored stored_as_it_is(const Shape& shape) {
  Permutation identity(shape.size());
  std::iota(identity.begin(), identity.end(), 0);
  return {shape, identity};
}

std::optional<Layout::Stored> Layout::stored(const Shape& source) const {
  if (dimensions_.size() > most_dimensions) return std::nullopt;
  const std::size_t rank = dimensions_.size();
  std::int64_t elements = 1;
  for (const Dimension& dimension : dimensions_) elements *= extent_of(dimension);
  if (elements != graph::num_elements(source)) return std::nullopt;
  std::vector<std::size_t> order(rank);  // the dimension that is stored at each place
  std::iota(order.begin(), order.end(), 0U);
  std::optional<Stored> found;
  do {
    Stored candidate{Shape(rank), Permutation(rank)};
    for (std::size_t place = 0; place < rank; ++place) {
      candidate.shape[place] = extent_of(dimensions_[order[place]]);
      candidate.permutation[order[place]] = static_cast<std::int64_t>(place);
    }
    const Layout contiguous(candidate.shape);
    bool fits = true;
    for (std::size_t place = 0; place < rank; ++place)
      fits = fits && merged(dimensions_[order[place]]) == contiguous.dimensions_[place];
    if (!fits) continue;
    if (candidate.shape == source) return candidate;
    if (!found) found = std::move(candidate);
  } while (std::ranges::next_permutation(order).found);
  return found;
}

std::optional<Layout::Stored> Layout::storing(const Shape& source, const Shape& to) const {
  if (source.size() > most_dimensions) return std::nullopt;
  const Layout before(source);
  const Dimension wanted = joined(dimensions_);
  Permutation order = stored_as_it_is(source).permutation;
  std::optional<Stored> found;
  do {
    Stored candidate{{}, order};
    std::vector<Dimension> permuted;
    for (const std::int64_t d : order) {
      candidate.shape.push_back(source[static_cast<std::size_t>(d)]);
      permuted.push_back(before.dimensions_[static_cast<std::size_t>(d)]);
    }
    if (joined(permuted) != wanted) continue;
    if (candidate.shape == to) return candidate;
    if (!found) found = std::move(candidate);
  } while (std::ranges::next_permutation(order).found);
  return found;
}

std::pair<Layout, std::int64_t> Layout::without_repeats(std::size_t d) const {
  Layout single = *this;
  Dimension& dimension = single.dimensions_[d];
  dimension = merged(dimension);
  std::int64_t repeats = 1;
  if (!dimension.empty() && dimension.back().stride == 0) {
    repeats = dimension.back().extent;
    dimension.pop_back();
  }
  return {std::move(single), repeats};
}

std::vector<TracedOperand> trace(const Matcher& matcher, ValueId operand, bool through_casts) {
  std::vector<TracedOperand> found = {{operand, 1, Layout(matcher.shape(operand)), false}};
  if (graph::num_elements(matcher.shape(operand)) == 0) return found;
  std::vector<const Node*> moves;  // from the operand back
  double factor = 1;
  for (ValueId at = operand;;) {
    const Node* node = matcher.maker(at);
    if (node == nullptr) return found;
    const ValueId before = node->inputs.empty() ? at : node->inputs[0];
    const auto [of, times] = matcher.multiple(at);
    const bool widens = through_casts && is_onnx(*node, "Cast") &&
                        holds_all_of(matcher.type(at), matcher.type(before));
    if (of != at) {
      factor *= times;
      at = of;
    } else if (widens) {
      at = before;
    } else if (Layout(matcher.shape(before)).after(matcher, *node)) {
      moves.push_back(node);
      at = before;
    } else {
      return found;
    }
    std::optional<Layout> layout = Layout(matcher.shape(at));
    for (auto move = moves.rbegin(); move != moves.rend() && layout; ++move)
      layout = layout->after(matcher, **move);
    if (!layout) return found;
    const bool is_moved = std::ranges::any_of(moves, [](const Node* move) {
      return move->op_type == "Transpose" || move->op_type == "Expand";
    });
    found.push_back({at, factor, std::move(*layout), is_moved});
  }
}

Tail find_tail(const Matcher& matcher, ValueId result, const Shape& shape, DataType type) {
  Layout layout(matcher.shape(result));
  Tail tail{result, stored_as_it_is(shape)};
  for (ValueId at = result; matcher.is_read_once(at);) {
    const Node& reader = matcher.reader(at);
    if (reader.outputs.size() != 1 || reader.op_type == "Expand") break;
    const bool narrows = is_onnx(reader, "Cast") && matcher.type(reader.outputs[0]) == type;
    const auto next = narrows ? std::optional(layout) : layout.after(matcher, reader);
    if (!next) break;
    layout = *next;
    at = reader.outputs[0];
    if (!narrows && reader.op_type != "Transpose") continue;
    if (auto stored = layout.storing(shape, matcher.shape(at))) tail = {at, *stored};
  }
  return tail;
}

bool put(Pass& pass, Node node, const Tail& tail, Insertions inserted) {
  const NodeId root = pass.producer(tail.value);
  const std::string name = pass.graph.node(root).name;
  const graph::Value& wanted = pass.graph.value(tail.value);
  const bool is_wanted = wanted.shape == tail.stored.shape;
  node.name = is_wanted ? name : name + ":product";
  node.outputs = {
      is_wanted ? tail.value
                : pass.graph.add_value({node.name, wanted.type, tail.stored.shape, std::nullopt})};
  if (!pass.can_run(node)) return false;
  pass.insertions.append(std::move(inserted));
  Node last = node;
  if (!is_wanted) {
    pass.insertions.before(root, node);
    last = reshape_node(pass.graph, name, node.outputs[0], tail.value);
  }
  pass.graph.node(root) = std::move(last);
  return true;
}

void set_permutation(Node& node, const char* name, const Layout::Stored& stored) {
  if (!stored.is_identity()) node.attributes[name] = stored.permutation;
}

}  // namespace autopar::runtime::passes
