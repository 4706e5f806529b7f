#include "runtime/kernels/movement/indexing.h"

#include <algorithm>
#include <map>

#include "runtime/device.h"

namespace autopar::runtime {
namespace {

/// ONNX's inference lets tensors through that do not belong together; kernels would read beyond.
void require_fit(const KernelRequest& request, bool fit) {
  if (fit) return;
  std::string shapes;
  for (const TensorView& input : request.inputs) shapes += ' ' + graph::to_string(input.shape);
  fail("node '{}': the inputs of {} do not fit together:{}", request.node.name,
       qualified_op_type(request.node), shapes);
}

/// The updates of a scatter.
bool has_updates_of(const KernelRequest& request, const Shape& shape) {
  return request.node.op_type.starts_with("Gather") ||
         (request.inputs.size() > 2 && request.inputs[2].shape == shape &&
          request.inputs[2].type == request.inputs[0].type);
}

}  // namespace

AxisExtents gathered_extents(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  require_indices(request, 1);
  return extents_around_axis(request, shape, 0);
}

ElementIndexing element_indexing(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  require_indices(request, 1);
  const auto axis = checked_axis(request, request.node.int_attribute("axis", 0), shape.size());
  const Shape& indices = request.inputs[1].shape;
  bool fit = indices.size() == shape.size() && has_updates_of(request, indices);
  for (std::size_t d = 0; fit && d < shape.size(); ++d) {
    fit = d == axis || indices[d] <= shape[d];
  }
  require_fit(request, fit);
  return {axis, shape[axis], row_major_strides(shape), indices};
}

std::int64_t ElementIndexing::target(const TensorView& indices, std::int64_t i,
                                     const std::string& node) const {
  std::int64_t offset = checked_index(integer_at(indices, i), extent, node) * strides[axis];
  std::int64_t rest = i;
  for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d])
    if (d != axis) offset += rest % shape[d] * strides[d];
  return offset;
}

SliceIndexing slice_indexing(const KernelRequest& request) {
  const Shape& data = request.inputs.at(0).shape;
  const Shape& indices = request.inputs.at(1).shape;
  const std::string op_type = qualified_op_type(request.node);
  if (request.inputs[1].type != DataType::int64)
    fail("node '{}': the indices of {} must be int64", request.node.name, op_type);
  const std::int64_t batch_dims = request.node.int_attribute("batch_dims", 0);
  const std::int64_t depth = indices.empty() ? 0 : indices.back();
  if (batch_dims < 0 || batch_dims >= std::ssize(indices) || batch_dims + depth > std::ssize(data))
    fail("node '{}': the indices of {} name more dimensions than the data has", request.node.name,
         op_type);
  const auto batch_end = data.begin() + batch_dims;
  const auto kept = batch_end + depth;
  Shape slices(indices.begin(), indices.end() - 1);
  slices.insert(slices.end(), kept, data.end());
  require_fit(request, std::equal(data.begin(), batch_end, indices.begin()) &&
                           has_updates_of(request, slices));
  SliceIndexing indexing;
  indexing.extents.assign(batch_end, kept);
  indexing.batches = graph::num_elements(Shape(data.begin(), batch_end));
  indexing.indices = graph::num_elements(Shape(indices.begin() + batch_dims, indices.end() - 1));
  indexing.slices = graph::num_elements(indexing.extents);
  indexing.elements = graph::num_elements(Shape(kept, data.end()));
  return indexing;
}

std::int64_t SliceIndexing::target(const TensorView& named, std::int64_t i,
                                   const std::string& node) const {
  const auto depth = static_cast<std::int64_t>(extents.size());
  const std::int64_t* index = named.as<const std::int64_t>() + i * depth;
  std::int64_t slice = 0;
  for (const std::int64_t extent : extents)
    slice = slice * extent + checked_index(*index++, extent, node);
  return i / indices * slices + slice;
}

ScatterReduction scatter_reduction(const KernelRequest& request) {
  static const std::map<std::string, ScatterReduction> by_name = {{"none", ScatterReduction::none},
                                                                  {"add", ScatterReduction::add},
                                                                  {"mul", ScatterReduction::mul},
                                                                  {"max", ScatterReduction::max},
                                                                  {"min", ScatterReduction::min}};
  const std::string name = request.node.string_attribute("reduction", "none");
  const DataType type = request.inputs.at(0).type;
  const auto found = by_name.find(name);
  const bool is_number = visit_type(type, Joined<Numbers, Halves>{}, [](auto) {});
  if (found == by_name.end() || (found->second != ScatterReduction::none && !is_number))
    fail("node '{}': {} with reduction '{}' on {} has no {} kernel", request.node.name,
         qualified_op_type(request.node), name, name_of(type), request.device.kernels().device);
  return found->second;
}

CacheUpdate cache_update(const KernelRequest& request) {
  const Shape& cache = request.inputs.at(0).shape;
  const std::size_t axis =
      checked_axis(request, request.node.int_attribute("axis", -2), cache.size());
  const AxisExtents extents = extents_around(cache, axis);
  CacheUpdate update;
  update.outer = extents.outer;
  update.outer_of_batch = axis == 0 ? 1 : extents.outer / std::max<std::int64_t>(1, cache[0]);
  update.length = extents.extent;
  update.inner_bytes = extents.inner * element_bytes_of(request, request.inputs[0]);
  Shape expected = cache;
  const Shape& given = request.inputs.at(1).shape;
  if (given.size() == cache.size()) expected[axis] = update.updates = given[axis];
  const std::string mode = request.node.string_attribute("mode", "linear");
  update.circular = mode == "circular";
  update.has_indices = is_given(request.inputs, 2);
  const bool fits = axis > 0 && given == expected && update.updates <= update.length &&
                    (update.circular || mode == "linear") &&
                    (!update.has_indices || (request.inputs[2].shape == Shape{cache[0]} &&
                                             request.inputs[2].type == DataType::int64));
  if (!fits)
    fail("node '{}': TensorScatter cannot write {} into {} along dimension {}, mode '{}'",
         request.node.name, graph::to_string(given), graph::to_string(cache), axis, mode);
  return update;
}

}  // namespace autopar::runtime
