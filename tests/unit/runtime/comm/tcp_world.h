#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/comm/tcp_communicator.h"
#include "runtime/session.h"

namespace autopar {

/// A place on this machine where nobody listens, another one each time.
runtime::Endpoint free_endpoint(const std::string& host = "127.0.0.1");

/// What all ranks of a world are told, by rank.
std::vector<runtime::Rendezvous> rendezvous_of(
    int ranks, std::chrono::milliseconds timeout = std::chrono::minutes(1));

/// The same for ranks whose runs have a timeout that a test waits for: they meet in peace.
std::vector<runtime::Rendezvous> impatient_ranks(int ranks, std::chrono::milliseconds run_timeout);

/// Meets as each of the given ranks, a thread each, and does the work. What they threw, by place in
/// the list; empty where nothing.
std::vector<std::string> errors_of(const std::vector<runtime::Rendezvous>& ranks,
                                   const std::function<void(runtime::HostCommunicator&)>& work);

/// The same with a session of the bundle for each of its ranks.
std::vector<std::string> errors_of_sessions(const std::filesystem::path& bundle_dir, int ranks,
                                            const std::function<void(runtime::Session&)>& work,
                                            const runtime::SessionOptions& options = {});

}  // namespace autopar
