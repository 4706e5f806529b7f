#include "runtime/kernels/movement/kernels.h"
#include "runtime/kernels/tables.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> movement_operators() {
  static constexpr OperatorLine lines[] = {
      // Views run nothing; where the output must have bytes of its own, their factory makes a copy.
      {"", "Reshape", make_copy, true},
      {"", "Flatten", make_copy, true},
      {"", "Squeeze", make_copy, true},
      {"", "Unsqueeze", make_copy, true},
      {"", "Identity", make_copy, true},
      {"", "BitCast", make_copy, true},
      {"", "Dropout", make_dropout, true},
      // The same for all devices
      {"", "Transpose", make_transpose},
      {"", "Slice", make_slice},
      {"", "Split", make_split},
      {"", "Concat", make_concat},
      {"", "Expand", make_expand},
      {"", "Tile", make_tile},
      {"", "DepthToSpace", make_depth_to_space},
      {"", "SpaceToDepth", make_space_to_depth},
      {"", "Compress", make_compress},
      // By each device
      {"", "Pad", make_pad},
      {"", "Gather", make_gather},
      {"", "GatherElements", make_gather_elements},
      {"", "GatherND", make_gather_nd},
      {"", "ScatterElements", make_scatter_elements},
      {"", "ScatterND", make_scatter_nd},
      {"", "TensorScatter", make_tensor_scatter},
      {"", "ReverseSequence", make_reverse_sequence},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
