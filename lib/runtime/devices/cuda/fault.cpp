#include "runtime/devices/cuda/fault.h"

#include "base/error.h"

namespace autopar::runtime::cuda {

FaultSlot Faults::slot(const std::string& node) {
  nodes_.push_back(node);
  return {fault_.device(), static_cast<unsigned>(nodes_.size())};
}

void Faults::throw_if_any() {
  const Fault fault = *fault_;
  if (fault.node == 0) return;
  *fault_ = {};
  fail("node '{}': index {} is out of range for {} elements", nodes_.at(fault.node - 1),
       fault.index, fault.extent);
}

}  // namespace autopar::runtime::cuda
