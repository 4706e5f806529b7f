#include "runtime/kernels/elementwise/chain.h"

namespace autopar::runtime {
namespace {

using Kind = ChainLink::Operand::Kind;

std::int64_t encode_operand(const ChainLink::Operand& operand) {
  if (operand.kind == Kind::none) return -1;
  const auto index = static_cast<std::int64_t>(operand.index);
  return operand.kind == Kind::input ? index : -2 - index;
}

ChainLink::Operand decode_operand(std::int64_t code) {
  if (code == -1) return {};
  if (code >= 0) return {Kind::input, static_cast<std::size_t>(code)};
  return {Kind::link, static_cast<std::size_t>(-2 - code)};
}

std::string prefix_of(std::size_t link) { return std::to_string(link) + "."; }

}  // namespace

std::map<std::string, graph::Attribute> encode_chain(const std::vector<ChainLink>& links) {
  std::vector<std::string> operators;
  std::vector<std::int64_t> results;
  std::vector<std::int64_t> operands;
  std::map<std::string, graph::Attribute> attributes;
  for (std::size_t j = 0; j < links.size(); ++j) {
    operators.push_back(links[j].op_type);
    results.push_back(static_cast<std::int64_t>(links[j].result));
    operands.push_back(static_cast<std::int64_t>(links[j].operands.size()));
    for (const auto& operand : links[j].operands) operands.push_back(encode_operand(operand));
    for (const auto& [name, value] : links[j].attributes) attributes[prefix_of(j) + name] = value;
  }
  attributes["operators"] = std::move(operators);
  attributes["results"] = std::move(results);
  attributes["operands"] = std::move(operands);
  return attributes;
}

std::vector<ChainLink> decode_chain(const graph::Node& node) {
  const auto& operators = std::get<std::vector<std::string>>(node.attributes.at("operators"));
  const auto results = node.ints_attribute("results", {});
  const auto operands = node.ints_attribute("operands", {});
  std::vector<ChainLink> links(operators.size());
  std::size_t next = 0;
  for (std::size_t j = 0; j < links.size(); ++j) {
    links[j].op_type = operators[j];
    links[j].result = static_cast<graph::DataType>(results.at(j));
    for (std::int64_t left = operands.at(next++); left > 0; --left)
      links[j].operands.push_back(decode_operand(operands.at(next++)));
    const std::string prefix = prefix_of(j);
    for (const auto& [key, value] : node.attributes)
      if (key.starts_with(prefix)) links[j].attributes[key.substr(prefix.size())] = value;
  }
  return links;
}

}  // namespace autopar::runtime
