#pragma once

#include <span>

#include "graph/graph.h"

namespace autopar::runtime {

/// Collectives as attributes of a node of type CollectiveGroup, and back, without inputs and
/// outputs, of which each has one:
///
///   operators  the members' operator types
///   names      their nodes' names
///   J.NAME     attribute NAME of member J
std::map<std::string, graph::Attribute> encode_group(std::span<const graph::Node> members);
std::vector<graph::Node> members_of(const graph::Node& group);

}  // namespace autopar::runtime
