#pragma once

#include "runtime/kernel.h"

namespace autopar::runtime {

/// Makes an output without elements, as a rank has it whose share is empty.
class NoWork final : public Kernel {
 public:
  void run(const KernelIo&) override {}
};

}  // namespace autopar::runtime
