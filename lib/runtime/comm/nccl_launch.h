#pragma once

#include <chrono>
#include <memory>

#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// The world of `host`, on memory of GPUs: NCCL, by the plugin 'nccl'. Every rank of `host` calls
/// it, with its GPU current in the calling thread. `stream`, a cudaStream_t of that GPU, gets all
/// collectives; a call returns when its work has joined the stream, and may be captured. `host` and
/// `stream` outlive the communicator, and CUDA graphs with its collectives do not.
///
/// subgroup() is a collective of all ranks: in each call the ranks' groups must partition the
/// world, as those of a mesh axis do. Barriers, check_members and progress are the host's; a
/// barrier does not wait for the stream.
///
/// What NCCL does on the host (connecting, splitting) may take `timeout`. Throws Error naming what
/// failed, and NCCL's reason; the plugin or libnccl that is missing.
std::unique_ptr<DeviceCommunicator> make_nccl_communicator(HostCommunicator& host, void* stream,
                                                           std::chrono::milliseconds timeout);

}  // namespace autopar::runtime

/// What the plugin 'nccl' exports: make_nccl_communicator. The caller owns the world.
extern "C" autopar::runtime::DeviceCommunicator* autopar_make_nccl_communicator(
    autopar::runtime::HostCommunicator* host, void* stream, std::int64_t timeout_milliseconds);
