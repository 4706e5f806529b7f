#include "runtime/kernels/collective/collective_group.h"

namespace autopar::runtime {
namespace {

std::string prefix_of(std::size_t member) { return std::to_string(member) + "."; }

}  // namespace

std::map<std::string, graph::Attribute> encode_group(std::span<const graph::Node> members) {
  std::vector<std::string> operators;
  std::vector<std::string> names;
  std::map<std::string, graph::Attribute> attributes;
  for (std::size_t j = 0; j < members.size(); ++j) {
    operators.push_back(members[j].op_type);
    names.push_back(members[j].name);
    for (const auto& [name, value] : members[j].attributes) attributes[prefix_of(j) + name] = value;
  }
  attributes["operators"] = std::move(operators);
  attributes["names"] = std::move(names);
  return attributes;
}

std::vector<graph::Node> members_of(const graph::Node& group) {
  const auto& operators = std::get<std::vector<std::string>>(group.attributes.at("operators"));
  const auto& names = std::get<std::vector<std::string>>(group.attributes.at("names"));
  std::vector<graph::Node> members(operators.size());
  for (std::size_t j = 0; j < members.size(); ++j) {
    members[j].op_type = operators[j];
    members[j].name = names.at(j);
    members[j].domain = graph::collective_domain;
    const std::string prefix = prefix_of(j);
    for (const auto& [key, value] : group.attributes)
      if (key.starts_with(prefix)) members[j].attributes[key.substr(prefix.size())] = value;
  }
  return members;
}

}  // namespace autopar::runtime
