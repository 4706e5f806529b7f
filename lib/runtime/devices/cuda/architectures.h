#pragma once

#include <string>
#include <string_view>

namespace autopar::runtime::cuda {

/// Whether code for `architectures` runs on a GPU of this compute capability, 90 for 9.0. The list
/// is CMAKE_CUDA_ARCHITECTURES with commas: "80-real,90" has machine code for 8.0 and 9.0, which
/// runs on the same major version from that minor one on, and for 9.0 also PTX, which the driver
/// compiles for any newer one. Where it names none ("native"), it is taken to be made for this
/// machine.
bool has_code_for(std::string_view architectures, int capability);

/// For messages: "8.0, 9.0 and newer", or "8.0, 9.0" without PTX of the last one.
std::string served_capabilities(std::string_view architectures);

}  // namespace autopar::runtime::cuda
