#include "check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "instances.h"
#include "sharding/discovery/discovery.h"
#include "sharding/discovery/rule_proof.h"
#include "sharding/rules/table.h"

namespace autopar::rule_check {
namespace {

using sharding::DeviceMesh;
using sharding::DiscoveredSplit;
using sharding::OperatorRun;
using sharding::OpShardSpec;
using sharding::ShardingRule;
using sharding::ShardRunner;

constexpr int draws = 2;

/// Results that are mostly no numbers would agree with anything.
bool tells_much(const OperatorRun& run) {
  return std::ranges::all_of(run.outputs, [](const sharding::Numbers& output) {
    const auto finite =
        std::ranges::count_if(output.values, [](double value) { return std::isfinite(value); });
    return 4 * finite >= 3 * static_cast<std::ptrdiff_t>(output.values.size());
  });
}

std::string specs_of(const OpShardSpec& choice) {
  OpShardSpec unreduced = choice;
  unreduced.outputs = unreduced.computed;
  std::ranges::fill(unreduced.reductions, sharding::ReduceFunction::none);
  return to_string(unreduced);
}

class Check {
 public:
  Check(const Instance& instance, const ShardRunner& runner)
      : instance_(instance), runner_(runner), node_(instance.graph.nodes.front()) {}

  Findings run() {
    std::mt19937 random(17);
    for (int draw = 0; draw < draws; ++draw) {
      auto run = run_whole(instance_.graph, random_inputs(instance_, runner_, random), runner_);
      if (!run) {
        findings_.unchecked = "no kernel runs it";
        return findings_;
      }
      if (!tells_much(*run)) {
        findings_.unchecked = "its results are no numbers";
        return findings_;
      }
      runs_.push_back(std::move(*run));
    }
    rule_ = sharding::rule_or_replicated(instance_.graph, node_);
    find_wrong();
    find_missed();
    return findings_;
  }

 private:
  void find_wrong() {
    for (const DeviceMesh& mesh :
         {DeviceMesh({2}), DeviceMesh({3}), DeviceMesh({4}), DeviceMesh({2, 2})}) {
      for (const OpShardSpec& choice : all_choices(rule_, runs_.front(), mesh)) {
        for (const OperatorRun& run : runs_) {
          const std::string what = disproof(rule_, choice, mesh, run, runner_);
          if (what.empty()) continue;
          findings_.wrong.push_back(
              fmt::format("{} on {}: {}", specs_of(choice), to_string(mesh), what));
          break;
        }
      }
    }
  }

  void find_missed() {
    const sharding::Discovery found = discover(runs_, runner_);
    for (const DiscoveredSplit& split : found.splits) {
      if (!is_allowed(split)) report(to_string(split, instance_.graph, node_));
    }
    for (const std::vector<int>& group : found.linear) {
      if (std::ranges::find(rule_.linear, group) != rule_.linear.end()) continue;
      report(fmt::format("linear in {}", fmt::join(group, ",")));
    }
  }

  /// Whether the rule has the split on the smallest mesh that allows it.
  bool is_allowed(const DiscoveredSplit& split) const {
    const ShardingRule alone = sharding::rule_of({{split}, {}}, instance_.graph, node_);
    for (const int parts : {2, 3, 5}) {
      const DeviceMesh mesh({parts});
      const auto wanted = all_choices(alone, runs_.front(), mesh);
      if (wanted.size() < 2) continue;
      const std::string text = specs_of(wanted[1]);
      const auto allowed = all_choices(rule_, runs_.front(), mesh);
      return std::ranges::any_of(
          allowed, [&](const OpShardSpec& choice) { return specs_of(choice) == text; });
    }
    return true;  // no mesh has it
  }

  void report(const std::string& split) {
    for (const Reason& known : reasons()) {
      if (known.op_type != instance_.op_type) continue;
      if (!known.split.empty() && known.split != split) continue;
      findings_.missed.push_back({split, std::string(known.reason)});
      return;
    }
    findings_.missed.push_back({split, {}});
  }

  const Instance& instance_;
  const ShardRunner& runner_;
  const graph::Node& node_;
  std::vector<OperatorRun> runs_;
  ShardingRule rule_;
  Findings findings_;
};

}  // namespace

Findings check(const Instance& instance, const ShardRunner& runner) {
  return Check(instance, runner).run();
}

}  // namespace autopar::rule_check
