#include "runtime/kernels/image/regions.h"

#include <string>

#include "base/error.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {
namespace {

/// `numbers` is how many a region is told by.
RegionSizes region_sizes_of(const KernelRequest& request, std::int64_t numbers) {
  const TensorView& in = request.inputs.at(0);
  const TensorView& rois = request.inputs.at(1);
  const Shape& out = request.outputs.at(0).shape;
  if (!visit_type(in.type, Joined<Floats, Halves>{}, [](auto) {})) fail_type(request, in.type);
  if (rois.type != in.type) fail_type(request, rois.type);
  const bool fits = in.shape.size() == 4 && out.size() == 4 && rois.shape.size() == 2 &&
                    rois.shape[1] == numbers && rois.shape[0] == out[0] && in.shape[1] == out[1] &&
                    (in.elements() > 0 || request.outputs[0].elements() == 0);
  if (!fits)
    fail("node '{}': {} wants images of two dimensions and {} numbers a region", request.node.name,
         request.node.op_type, numbers);
  RegionSizes sizes;
  sizes.images = in.shape[0];
  sizes.channels = in.shape[1];
  sizes.regions = rois.shape[0];
  sizes.height = static_cast<int>(in.shape[2]);
  sizes.width = static_cast<int>(in.shape[3]);
  sizes.pooled_height = static_cast<int>(out[2]);
  sizes.pooled_width = static_cast<int>(out[3]);
  sizes.scale = static_cast<double>(request.node.float_attribute("spatial_scale", 1.0F));
  return sizes;
}

/// Whether a string attribute has the first of two values; Error where it has neither.
bool is_first_of(const KernelRequest& request, const char* name, const std::string& value,
                 const char* first, const char* second) {
  if (value != first && value != second)
    fail("node '{}': {} has no {} '{}'", request.node.name, request.node.op_type, name, value);
  return value == first;
}

}  // namespace

RoiAlign::RoiAlign(const KernelRequest& request)
    : sizes_(region_sizes_of(request, 4)),
      sampling_ratio_(static_cast<int>(request.node.int_attribute("sampling_ratio", 0))),
      is_half_pixel_(
          is_first_of(request, "coordinate_transformation_mode",
                      request.node.string_attribute("coordinate_transformation_mode", "half_pixel"),
                      "half_pixel", "output_half_pixel")),
      takes_max_(is_first_of(request, "mode", request.node.string_attribute("mode", "avg"), "max",
                             "avg")) {
  if (request.inputs.at(2).type != DataType::int64 ||
      request.inputs[2].elements() != sizes_.regions)
    fail("node '{}': RoiAlign wants an int64 index of its image for each region",
         request.node.name);
}

MaxRoiPool::MaxRoiPool(const KernelRequest& request) : sizes_(region_sizes_of(request, 5)) {}

}  // namespace autopar::runtime
