#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/onnx/onnx_import.h"
#include "sharding/sharding_rule.h"

/// Rules for operators that the table has none for, found by running them
/// (sharding/discovery/discovery.h). What is found is a fact about an operator with these
/// attributes, types, shapes and constant integers, and remembered as such for as long as the
/// program runs.
namespace autopar::sharding {

/// A rule for one node, whether the table has one or not. The node runs on random numbers in the
/// place of its floating-point inputs, and on its constants' own ones. Constant integers, which may
/// say what an operator does, are what they are; integers that are known only at run time are taken
/// for indices, of which 0 and 1 exist. nullopt, with the reason in `why_not`, where the operator
/// does not run, is too large to be run often, draws random numbers, or reads few integers that are
/// known only at run time and may name dimensions.
std::optional<ShardingRule> discover_rule(const graph::Graph& graph, const graph::Node& node,
                                          const graph::Evaluator& evaluate, std::string& why_not);

/// Remembers rules for all operators of the graph that have none and are `wanted`; sharding_rule
/// finds them from then on. Returns, for each operator type that stays without, the reason. Not to
/// be called while other threads ask for rules.
std::vector<std::string> discover_rules(
    const graph::Graph& graph, const graph::Evaluator& evaluate,
    const std::function<bool(const graph::Node&)>& wanted = [](const graph::Node&) {
      return true;
    });

/// What was remembered for such a node.
std::optional<ShardingRule> discovered_rule(const graph::Graph& graph, const graph::Node& node);

}  // namespace autopar::sharding
