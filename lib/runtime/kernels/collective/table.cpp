#include "runtime/kernels/collective/collectives.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> collective_operators() {
  static constexpr OperatorLine lines[] = {
      {graph::collective_domain, "AllReduce", make_all_reduce},
      {graph::collective_domain, "AllGather", make_all_gather},
      {graph::collective_domain, "ReduceScatter", make_reduce_scatter},
      {graph::collective_domain, "AllToAll", make_all_to_all},
      {graph::collective_domain, "Broadcast", make_broadcast},
      {graph::collective_domain, "Send", make_send},
      {graph::collective_domain, "Recv", make_recv},
      // Collectives that go out together pay on GPUs alone.
      {passes::internal_domain,
       "CollectiveGroup",
       make_collective_group,
       false,
       {},
       OperatorLine::Devices::cuda},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
