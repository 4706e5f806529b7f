#pragma once

#include <memory>

#include "onnx_runtime/member.h"
#include "onnx_runtime/session_entries.h"

namespace autopar::onnx_runtime {

/// The member for a rank whose shard a session of this process has: one, as long as anybody holds
/// it. Waits for the other processes where there are such, that is, where the entries tell a
/// rendezvous or mpirun or srun started this one; else all ranks are this process' threads. Throws
/// Error where the ranks do not find together.
std::shared_ptr<Member> join_world(const SessionEntries& entries, int rank);

}  // namespace autopar::onnx_runtime
