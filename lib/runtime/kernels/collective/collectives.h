#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime {

// The collectives of the domain "autopar", for all devices: the device packs and unpacks, the
// communicators of the request's CollectiveContext move its memory.

std::unique_ptr<Kernel> make_all_reduce(const KernelRequest& request);
std::unique_ptr<Kernel> make_all_gather(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_scatter(const KernelRequest& request);
std::unique_ptr<Kernel> make_all_to_all(const KernelRequest& request);
std::unique_ptr<Kernel> make_broadcast(const KernelRequest& request);
/// Messages of a pipeline stage to the next one, and from the one before.
std::unique_ptr<Kernel> make_send(const KernelRequest& request);
std::unique_ptr<Kernel> make_recv(const KernelRequest& request);
/// autopar.internal's CollectiveGroup, of any of the above.
std::unique_ptr<Kernel> make_collective_group(const KernelRequest& request);

}  // namespace autopar::runtime
