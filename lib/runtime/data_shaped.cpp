#include "runtime/data_shaped.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {
namespace {

using graph::DataType;
using graph::Shape;
using graph::Tensor;
using Integers64 = std::vector<std::int64_t>;
/// What a node has for each of its outputs, also for those that are left out.
using Results = std::vector<Tensor>;

struct DataShapedNode {
  const graph::Graph& graph;
  const graph::Node& node;

  /// Contiguous and aligned.
  Tensor input(std::size_t i) const {
    return graph.value(node.inputs.at(i)).constant->contiguous_copy();
  }
  /// Absent where it is left out or empty.
  std::optional<Tensor> element(std::size_t i) const {
    if (i >= node.inputs.size() || node.inputs[i] == graph::no_value) return std::nullopt;
    const Tensor tensor = input(i);
    return tensor.elements() > 0 ? std::optional(tensor) : std::nullopt;
  }
};

Tensor vector_of(const Integers64& values) {
  return Tensor::of_int64({std::ssize(values)}, values);
}

void require_numbers(const DataShapedNode& use, const Tensor& tensor) {
  if (!visit_type(stored_type(tensor.type()), Joined<Numbers, Halves>{}, [](auto) {}))
    fail("node '{}': {} of {} is not supported", use.node.name, use.node.op_type,
         name_of(tensor.type()));
}

/// Whether each element is something else than 0; NaN is.
std::vector<bool> truths(const DataShapedNode& use, const Tensor& tensor) {
  require_numbers(use, tensor);
  std::vector<bool> result;
  visit_type(stored_type(tensor.type()), Joined<Numbers, Halves>{}, [&]<typename T>(T) {
    for (const T& value : tensor.values<T>()) result.push_back(widened(value) != 0);
  });
  return result;
}

/// Input 0, of one dimension where the node has no axis.
Tensor flat_without_axis(const DataShapedNode& use) {
  const Tensor data = use.input(0);
  return use.node.has_attribute("axis") ? data : data.reshaped({data.elements()});
}

/// An axis attribute, counted from the front.
std::size_t axis_of(const DataShapedNode& use, const Shape& shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t axis = use.node.int_attribute("axis", 0);
  if (axis < -rank || axis >= rank)
    fail("node '{}': axis {} is outside a tensor of {} dimensions", use.node.name, axis, rank);
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

/// A tensor's slices along an axis, as bytes that can be put together anew.
class Slices {
 public:
  Slices(const Tensor& tensor, std::size_t axis)
      : tensor_(tensor), axis_(axis), around_(extents_around(tensor.shape(), axis)) {
    require(graph::bits_of(tensor.type()) >= 8, "slices are of whole bytes");
  }

  std::int64_t count() const { return around_.extent; }
  Tensor picked(const Integers64& places) const {
    const auto run = static_cast<std::size_t>(around_.inner * graph::bits_of(tensor_.type()) / 8);
    Shape shape = tensor_.shape();
    shape[axis_] = std::ssize(places);
    Tensor result = Tensor::zeros(tensor_.type(), shape);
    std::byte* to = result.mutable_bytes().data();
    for (std::int64_t outer = 0; outer < around_.outer && run > 0; ++outer)
      for (const std::int64_t place : places) {
        const auto from = static_cast<std::size_t>(outer * around_.extent + place);
        std::memcpy(to, tensor_.data() + from * run, run);
        to += run;
      }
    return result;
  }
  /// The order of two slices, element after element: -1, 0 or 1. NaN comes last.
  int compare(std::int64_t x, std::int64_t y) const {
    int order = 0;
    visit_type(stored_type(tensor_.type()), Joined<Numbers, Halves>{}, [&]<typename T>(T) {
      const T* data = reinterpret_cast<const T*>(tensor_.data());
      for (std::int64_t outer = 0; outer < around_.outer; ++outer)
        for (std::int64_t inner = 0; inner < around_.inner; ++inner) {
          const auto at = [&](std::int64_t place) {
            return widened(data[(outer * around_.extent + place) * around_.inner + inner]);
          };
          const auto a = at(x);
          const auto b = at(y);
          if (a == b || (a != a && b != b)) continue;
          order = a < b || (b != b && a == a) ? -1 : 1;
          return;
        }
    });
    return order;
  }

 private:
  const Tensor& tensor_;
  std::size_t axis_;
  AxisExtents around_;
};

Results non_zero(const DataShapedNode& use) {
  const Tensor data = use.input(0);
  const std::vector<bool> is_there = truths(use, data);
  const auto found = std::ranges::count(is_there, true);
  const Shape strides = graph::row_major_strides(data.shape());
  Integers64 places;
  for (std::size_t d = 0; d < strides.size(); ++d)
    for (std::size_t i = 0; i < is_there.size(); ++i)
      if (is_there[i])
        places.push_back(static_cast<std::int64_t>(i) / strides[d] % data.shape()[d]);
  const auto rank = static_cast<std::int64_t>(strides.size());
  return {Tensor::of_int64({rank, found}, places)};
}

Results compress(const DataShapedNode& use) {
  const Tensor data = flat_without_axis(use);
  const Slices slices(data, axis_of(use, data.shape()));
  const std::vector<bool> keeps = truths(use, use.input(1));
  if (std::ssize(keeps) > slices.count())
    fail("node '{}': the condition of Compress is longer than the data", use.node.name);
  Integers64 places;
  for (std::size_t i = 0; i < keeps.size(); ++i)
    if (keeps[i]) places.push_back(static_cast<std::int64_t>(i));
  return {slices.picked(places)};
}

Results unique(const DataShapedNode& use) {
  const Tensor data = flat_without_axis(use);
  require_numbers(use, data);
  const Slices slices(data, axis_of(use, data.shape()));
  Integers64 order(static_cast<std::size_t>(slices.count()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](std::int64_t x, std::int64_t y) { return slices.compare(x, y) < 0; });
  // Equal ones follow one another, the first of them first.
  std::vector<Integers64> groups;
  for (const std::int64_t place : order) {
    if (groups.empty() || slices.compare(groups.back().front(), place) != 0) groups.emplace_back();
    groups.back().push_back(place);
  }
  const auto first_of = [](const Integers64& group) { return group.front(); };
  if (use.node.int_attribute("sorted", 1) == 0) std::ranges::sort(groups, {}, first_of);
  Integers64 first;
  Integers64 counts;
  Integers64 inverse(order.size());
  for (const Integers64& group : groups) {
    for (const std::int64_t member : group)
      inverse[static_cast<std::size_t>(member)] = std::ssize(first);
    first.push_back(group.front());
    counts.push_back(std::ssize(group));
  }
  return {slices.picked(first), vector_of(first), vector_of(inverse), vector_of(counts)};
}

/// The corners of a box, lower before higher.
struct Box {
  float x0, y0, x1, y1;

  Box(const float* box, bool has_centre) {
    if (has_centre) {
      x0 = box[0] - box[2] / 2, x1 = box[0] + box[2] / 2;
      y0 = box[1] - box[3] / 2, y1 = box[1] + box[3] / 2;
    } else {
      y0 = std::min(box[0], box[2]), y1 = std::max(box[0], box[2]);
      x0 = std::min(box[1], box[3]), x1 = std::max(box[1], box[3]);
    }
  }
  float area() const { return (x1 - x0) * (y1 - y0); }
  /// Intersection over union.
  bool overlaps(const Box& other, float threshold) const {
    const float width = std::min(x1, other.x1) - std::max(x0, other.x0);
    const float height = std::min(y1, other.y1) - std::max(y0, other.y0);
    if (width <= 0 || height <= 0 || area() <= 0 || other.area() <= 0) return false;
    const float common = width * height;
    return common / (area() + other.area() - common) > threshold;
  }
};

Results non_max_suppression(const DataShapedNode& use) {
  const Tensor boxes = use.input(0);
  const Tensor scores = use.input(1);
  const Shape& b = boxes.shape();
  const Shape& s = scores.shape();
  if (b.size() != 3 || s.size() != 3 || b[2] != 4 || b[0] != s[0] || b[1] != s[2] ||
      boxes.type() != DataType::float32 || scores.type() != DataType::float32)
    fail("node '{}': boxes {} and scores {} of NonMaxSuppression do not fit", use.node.name,
         graph::to_string(b), graph::to_string(s));
  if (scores.elements() == 0) return {Tensor::of_int64({0, 3}, {})};
  const auto limit = use.element(2);
  const std::int64_t most = limit ? limit->to_int64s()[0] : 0;
  const auto overlap = use.element(3);
  const float threshold = overlap ? overlap->values<float>()[0] : 0;
  const auto least = use.element(4);
  const float lowest = least ? least->values<float>()[0] : 0;
  const bool has_centre = use.node.int_attribute("center_point_box", 0) != 0;
  Integers64 selected;
  for (std::int64_t batch = 0; batch < s[0]; ++batch)
    for (std::int64_t type = 0; type < s[1]; ++type) {
      const float* score = scores.values<float>().data() + (batch * s[1] + type) * s[2];
      const float* box = boxes.values<float>().data() + batch * b[1] * 4;
      Integers64 candidates;
      for (std::int64_t i = 0; i < s[2]; ++i)
        if (!least || score[i] > lowest) candidates.push_back(i);
      std::ranges::stable_sort(candidates,
                               [&](std::int64_t x, std::int64_t y) { return score[x] > score[y]; });
      std::vector<Box> kept;
      for (const std::int64_t i : candidates) {
        if (std::ssize(kept) >= most) break;
        const Box candidate(box + i * 4, has_centre);
        if (std::ranges::any_of(
                kept, [&](const Box& other) { return candidate.overlaps(other, threshold); }))
          continue;
        kept.push_back(candidate);
        selected.insert(selected.end(), {batch, type, i});
      }
    }
  return {Tensor::of_int64({std::ssize(selected) / 3, 3}, selected)};
}

}  // namespace

std::optional<std::vector<Tensor>> evaluate_data_shaped(const graph::Graph& graph) {
  if (graph.nodes.size() != 1 || !graph.nodes[0].domain.empty()) return std::nullopt;
  const graph::Node& node = graph.nodes[0];
  static const std::map<std::string_view, Results (*)(const DataShapedNode&)> operators = {
      {"Compress", compress},
      {"NonMaxSuppression", non_max_suppression},
      {"NonZero", non_zero},
      {"Unique", unique}};
  const auto found = operators.find(node.op_type);
  if (found == operators.end()) return std::nullopt;
  for (const graph::ValueId input : node.inputs)
    if (input != graph::no_value && !graph.is_constant(input)) return std::nullopt;
  const Results results = found->second({graph, node});
  std::vector<Tensor> wanted;
  for (std::size_t o = 0; o < node.outputs.size(); ++o)
    if (node.outputs[o] != graph::no_value) wanted.push_back(results.at(o));
  return wanted;
}

}  // namespace autopar::runtime
