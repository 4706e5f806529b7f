#include "runtime/kernels/product/kernels.h"

#include <algorithm>
#include <array>

#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/product/product.h"

namespace autopar::runtime {
namespace cpu {

bool serves_fused_matmul(const graph::Node& node, std::span<const TensorView>,
                         std::span<const TensorView>) {
  constexpr std::array<const char*, 4> others = {"a_perm", "b_perm", "out_perm", "activation"};
  return std::ranges::none_of(others, [&](const char* name) { return node.has_attribute(name); });
}

bool serves_gathered_matmul(const graph::Node&, std::span<const TensorView> inputs,
                            std::span<const TensorView>) {
  const auto is_served = [](const TensorView& view) {
    return view.type == DataType::float32 && view.elements() > 0;
  };
  return is_served(inputs[0]) && is_served(inputs[1]) && inputs[2].elements() > 0;
}

}  // namespace cpu

namespace cuda {

bool serves_fused_matmul(const graph::Node& node, std::span<const TensorView>,
                         std::span<const TensorView> outputs) {
  return is_wide_float(outputs[0].type) && known_activation(node).has_value();
}

bool serves_gathered_matmul(const graph::Node&, std::span<const TensorView> inputs,
                            std::span<const TensorView>) {
  return inputs[0].type == inputs[1].type && is_wide_float(inputs[0].type) &&
         inputs[0].elements() > 0 && inputs[1].elements() > 0 && inputs[2].elements() > 0;
}

}  // namespace cuda
}  // namespace autopar::runtime
