#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime::cpu {

/// oneDNN's LRN, of float32 images with as many channels counted before a channel as behind it;
/// null for all others.
std::unique_ptr<Kernel> make_onednn_lrn(const KernelRequest& request);

}  // namespace autopar::runtime::cpu
