#include "runtime/kernels/elementwise/chain.h"

namespace autopar::runtime {
namespace {

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
    operands.push_back(std::ssize(links[j].operands));
    operands.insert(operands.end(), links[j].operands.begin(), links[j].operands.end());
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
      links[j].operands.push_back(operands.at(next++));
    const std::string prefix = prefix_of(j);
    for (const auto& [key, value] : node.attributes)
      if (key.starts_with(prefix)) links[j].attributes[key.substr(prefix.size())] = value;
  }
  return links;
}

}  // namespace autopar::runtime
