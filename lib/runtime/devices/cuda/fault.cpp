#include "runtime/devices/cuda/fault.h"

#include "base/error.h"

namespace autopar::runtime::cuda {

Faults::Faults() {
  Fault* host = nullptr;
  check(cudaHostAlloc(reinterpret_cast<void**>(&host), sizeof(Fault), cudaHostAllocMapped),
        "memory for faults");
  host_.reset(new (host) Fault);
  check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device_), host, 0), "memory for faults");
}

FaultSlot Faults::slot(const std::string& node) {
  nodes_.push_back(node);
  return {device_, static_cast<unsigned>(nodes_.size())};
}

void Faults::throw_if_any() {
  const Fault fault = *host_;
  if (fault.node == 0) return;
  *host_ = {};
  fail("node '{}': index {} is out of range for {} elements", nodes_.at(fault.node - 1),
       fault.index, fault.extent);
}

}  // namespace autopar::runtime::cuda
