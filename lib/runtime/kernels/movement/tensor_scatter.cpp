#include "runtime/kernels/movement/tensor_scatter.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {

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
  update.has_indices = request.inputs.size() > 2 && request.inputs[2].present();
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
