#pragma once

#include <cstddef>

#include "graph/graph.h"

namespace autopar::runtime {

/// One element-wise operator of a chain, and where its operands come from.
struct ChainLink {
  /// A chain's input (from 0), the result of an earlier link, or nothing.
  struct Operand {
    enum class Kind { none, input, link } kind = Kind::none;
    std::size_t index = 0;
  };

  std::string op_type;
  std::map<std::string, graph::Attribute> attributes;
  std::vector<Operand> operands;
  graph::DataType result = graph::DataType::undefined;
};

/// The links as attributes of a node of type ElementwiseChain, whose output is the last link's, and
/// back:
///
///   operators  the links' operator types
///   results    their data types
///   operands   for each link the number of its operands, then each of these: i for input i, -1 for
///              none, -2-j for the result of link j
///   J.NAME     attribute NAME of link J
std::map<std::string, graph::Attribute> encode_chain(const std::vector<ChainLink>& links);
std::vector<ChainLink> decode_chain(const graph::Node& node);

}  // namespace autopar::runtime
