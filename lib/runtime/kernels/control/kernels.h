#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime::cpu {

/// A loop that only the run ends: its body is an Executable of its own.
std::unique_ptr<Kernel> make_loop(const KernelRequest& request);

}  // namespace autopar::runtime::cpu
