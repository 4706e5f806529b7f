// Prints docs/operators.md, which operators run where: every operator of ONNX's own domain and
// of others that some table knows, put together by how it is served.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/defs/schema.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/contrib/operator_table.h"
#include "graph/own_operators.h"
#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernel.h"
#include "sharding/rules/table.h"

namespace autopar {
namespace {

constexpr std::string_view training = "ai.onnx.preview.training";

/// What the reader of a model makes of these: nothing is left of them at run time.
const std::set<std::string_view> dissolved = {
    "ConcatFromSequence", "Constant",           "Identity",           "If",
    "Optional",           "OptionalGetElement", "OptionalHasElement", "Scan",
    "SequenceAt",         "SequenceConstruct",  "SequenceEmpty",      "SequenceErase",
    "SequenceInsert",     "SequenceLength",     "SequenceMap",        "SplitToSequence"};
/// Their shapes depend on data, which must be constant.
const std::set<std::string_view> folded = {"Compress", "NonMaxSuppression", "NonZero", "Unique"};

/// How an operator is served, the sections' order and titles.
struct Service {
  bool is_split = false;
  bool on_cpu = false;
  bool on_gpu = false;
  bool is_function = false;
  auto operator<=>(const Service&) const = default;

  bool is_any() const { return on_cpu || on_gpu || is_function; }
  std::string title() const {
    if (is_function) return "Run as the operators that define them, and split as these are";
    const std::string where = on_cpu && on_gpu ? "CPU and CUDA"
                              : on_cpu         ? "CPU alone"
                                               : "CUDA alone";
    return fmt::format("{}, {}", where, is_split ? "split" : "whole on every rank");
  }
};

Service service_of(const std::string& domain, const std::string& op_type, bool is_function) {
  const auto has = [&](const runtime::KernelTable& table) {
    return table.find(domain, op_type) != nullptr;
  };
  Service service;
  const auto* rule = sharding::find_rule(domain, op_type);
  service.is_split = rule != nullptr && rule->rule != sharding::rules::replicated;
  service.on_cpu = has(runtime::cpu_kernels());
  service.on_gpu = has(runtime::cuda::kernels());
  service.is_function = !service.on_cpu && !service.on_gpu && is_function;
  if (service.is_function) service.is_split = false;
  return service;
}

constexpr std::string_view introduction = R"(# Operators

Which operators run where, and which can be split; `operator_support` prints this page. An operator
that is not split runs whole on every rank, and [`--discover`](sharding.md#discovery) finds out by
running it how one without a rule can be split. Operators without a domain are ONNX's own. To add
one, see [CONTRIBUTING](../CONTRIBUTING.md); to bring one along, see
[operators of your own](operators-of-your-own.md).
)";

/// A title, and the names in lines of at most 100 columns.
template <typename Names>
void print_section(std::string_view title, const Names& names) {
  fmt::print("\n## {}", title);
  constexpr std::size_t widest = 100;
  std::size_t column = widest;
  std::string_view separator = "\n";
  for (const std::string_view name : names) {
    const std::size_t width = name.size() + 2;  // and a space, and a comma
    const bool breaks = column + width > widest;
    fmt::print("{}{}{}", separator, breaks ? "\n" : " ", name);
    column = (breaks ? 0 : column) + width;
    separator = ",";
  }
  fmt::print("\n");
}

void print() {
  std::map<Service, std::set<std::string>, std::greater<>> groups;
  std::set<std::string> seen;
  const auto add = [&](const std::string& domain, const std::string& op_type, bool is_function) {
    const std::string name = domain.empty() ? op_type : domain + "." + op_type;
    if (!seen.insert(name).second ||
        (domain.empty() && (dissolved.contains(op_type) || folded.contains(op_type))))
      return;
    groups[service_of(domain, op_type, is_function)].insert(name);
  };
  for (const auto& [domain, op_type] : graph::contrib_operators())
    if (domain != graph::own_domain)
      add(std::string(domain), std::string(op_type), graph::has_contrib_body(domain, op_type));
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas())
    if (schema.domain() != training && !schema.deprecated())
      add(schema.domain(), schema.Name(),
          schema.HasFunction() || schema.HasContextDependentFunction());
  fmt::print("{}", introduction);
  std::set<std::string> rest;
  for (const auto& [service, names] : groups) {
    if (!service.is_any())
      rest.insert(names.begin(), names.end());
    else
      print_section(service.title(), names);
  }
  print_section("Taken apart when the model is read; nothing is left of them", dissolved);
  print_section("Computed of constants when the model is read, else in the tail", folded);
  print_section("Refused by name", rest);
}

}  // namespace
}  // namespace autopar

int main() {
  autopar::graph::register_schemas();
  autopar::print();
}
