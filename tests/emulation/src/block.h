#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "vector_types.h"

namespace autopar::emulation {

/// Executes a grid in the calling host thread, block by block; `thread` is called for each of its
/// threads. Returns what went wrong, or an empty string.
std::string run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes,
                     const std::function<void()>& thread);

}  // namespace autopar::emulation
