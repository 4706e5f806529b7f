#include "runtime/kernels/cpu/onednn_reordering.h"

#include "graph/arena.h"

namespace autopar::runtime::cpu {

Reordering::Reordering(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  if (from == to) return;
  bytes_ = graph::aligned(static_cast<std::int64_t>(to.get_size()));
  const dnnl::reorder::primitive_desc description(onednn_engine(), from, onednn_engine(), to,
                                                  user_scratchpad());
  primitive_.emplace(description, std::vector<int>{DNNL_ARG_FROM, DNNL_ARG_TO});
}

void Reordering::run(const void* from, void* to, std::byte* scratch) {
  primitive_->bind(DNNL_ARG_FROM, from);
  primitive_->bind(DNNL_ARG_TO, to);
  primitive_->run(scratch);
}

std::shared_ptr<std::byte> reordered_copy(Device& device, const dnnl::memory::desc& from,
                                          const void* data, const dnnl::memory::desc& to) {
  Reordering reordering(from, to);
  if (!reordering.is_needed()) return nullptr;
  auto copy = device.allocate(reordering.bytes());
  const auto scratch = device.allocate(reordering.scratch_bytes());
  reordering.run(data, copy.get(), scratch.get());
  return copy;
}

}  // namespace autopar::runtime::cpu
