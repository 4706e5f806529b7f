#pragma once

#include <cstddef>
#include <string>

namespace autopar::emulation {

/// What the compiler has left of a kernel in its program's or library's file.
struct KernelInfo {
  std::string name;                     ///< as the source has it, with its template's arguments
  const char* symbol = nullptr;         ///< as the compiler has it; null where no table names it
  unsigned launch_bound = 0;            ///< threads of a block by __launch_bounds__; 0: it has none
  std::size_t static_shared_bytes = 0;  ///< of the kernel itself, not of functions that it calls
};

/// Read once and kept.
const KernelInfo& kernel_info(const void* kernel);

}  // namespace autopar::emulation
