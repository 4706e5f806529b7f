#pragma once

#include <memory>

#include "runtime/kernel.h"

/// The operators of graph/own_operators.h.
namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_tree_sums(const KernelRequest& request);
std::unique_ptr<Kernel> make_expert_matmul_n_bits(const KernelRequest& request);

}  // namespace autopar::runtime::cpu
