#pragma once

#include <cstdint>

namespace autopar::emulation {

/// A random number below `bound`, from the calling thread's generator.
std::uint64_t random_below(std::uint64_t bound);

}  // namespace autopar::emulation
