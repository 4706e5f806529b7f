#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime::cuda {

/// Attention of every form and floating type: a block of threads a query.
std::unique_ptr<Kernel> make_plain_attention(const KernelRequest& request);

}  // namespace autopar::runtime::cuda
