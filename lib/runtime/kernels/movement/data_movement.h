#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime {

// Operators that only move elements from place to place, for all devices.

std::unique_ptr<Kernel> make_copy(const KernelRequest& request);
std::unique_ptr<Kernel> make_dropout(const KernelRequest& request);
std::unique_ptr<Kernel> make_transpose(const KernelRequest& request);
std::unique_ptr<Kernel> make_slice(const KernelRequest& request);
std::unique_ptr<Kernel> make_split(const KernelRequest& request);
std::unique_ptr<Kernel> make_concat(const KernelRequest& request);
std::unique_ptr<Kernel> make_expand(const KernelRequest& request);
std::unique_ptr<Kernel> make_tile(const KernelRequest& request);
std::unique_ptr<Kernel> make_depth_to_space(const KernelRequest& request);
/// Compress by a constant condition: a Gather of what it keeps.
std::unique_ptr<Kernel> make_compress(const KernelRequest& request);
std::unique_ptr<Kernel> make_space_to_depth(const KernelRequest& request);

}  // namespace autopar::runtime
