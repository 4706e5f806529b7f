#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "bundle/meta_info.h"
#include "runtime/comm/communicator.h"

/// What ranks tell each other about a run; every rank of the world calls each function.
namespace autopar::runtime {

/// Every rank's value, in the order of ranks, on every rank.
std::vector<nlohmann::json> gather_json(const nlohmann::json& mine, HostCommunicator& world);

/// Each of the times becomes the slowest rank's.
void take_slowest(std::span<double> seconds, HostCommunicator& world);

/// An output put together from the ranks' parts, on rank 0; an empty tensor on others. `part` reads
/// this rank's of a microbatch, and is asked where it has one.
graph::Tensor gather_output(const bundle::MetaInfo& info, const bundle::PortInfo& port,
                            const std::function<graph::Tensor(int microbatch)>& part,
                            HostCommunicator& world);

}  // namespace autopar::runtime
