#pragma once

#include "graph/graph.h"

namespace autopar::runtime {

/// One element-wise operator of a chain, whose values are numbered: the chain's inputs, then the
/// links' results.
struct ChainLink {
  std::string op_type;
  std::map<std::string, graph::Attribute> attributes;
  std::vector<std::int64_t> operands;  ///< values; no_value for what is left out
  graph::DataType result = graph::DataType::undefined;
};

/// The links as attributes of a node of type ElementwiseChain, whose output is the last link's, and
/// back:
///
///   operators  the links' operator types
///   results    their data types
///   operands   for each link the number of its operands, then each of these
///   J.NAME     attribute NAME of link J
std::map<std::string, graph::Attribute> encode_chain(const std::vector<ChainLink>& links);
std::vector<ChainLink> decode_chain(const graph::Node& node);

}  // namespace autopar::runtime
