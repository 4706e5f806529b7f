#pragma once

#include "runtime/kernel.h"

namespace autopar::runtime {

// The collectives of the domain "autopar", for all devices: the device packs and unpacks, the
// communicators of the request's CollectiveContext move its memory.

MakeKernel make_all_reduce, make_all_gather, make_reduce_scatter, make_all_to_all, make_broadcast;
/// Messages of a pipeline stage to the next one, and from the one before.
MakeKernel make_send, make_recv;
/// autopar.internal's CollectiveGroup, of any of the above.
MakeKernel make_collective_group;

}  // namespace autopar::runtime
