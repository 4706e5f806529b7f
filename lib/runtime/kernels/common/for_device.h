#pragma once

/// A portable source, *_portable.cpp, is compiled once for each device, into the device's
/// namespace; the build defines AUTOPAR_FOR_CUDA where that is CUDA (or its emulation).
#if defined(AUTOPAR_FOR_CUDA)
#define AUTOPAR_DEVICE cuda
#else
#define AUTOPAR_DEVICE cpu
#endif

namespace autopar::runtime {
namespace cpu {
inline constexpr bool on_cpu = true;
}
namespace cuda {
inline constexpr bool on_cpu = false;
}
}  // namespace autopar::runtime
