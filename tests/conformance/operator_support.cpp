// Prints, as the README has it, which operators run where: every operator of ONNX's own domain and
// of others that some table knows, put together by how it is served.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/defs/schema.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/contrib/microsoft_operators.h"
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

/// How an operator is served, the groups' order and text.
struct Service {
  bool is_split = false;
  bool on_cpu = false;
  bool on_gpu = false;
  bool is_function = false;
  auto operator<=>(const Service&) const = default;

  bool is_any() const { return on_cpu || on_gpu || is_function; }
  std::string text() const {
    const std::string where = on_cpu && on_gpu ? "CPU and CUDA"
                              : on_cpu         ? "CPU"
                              : on_gpu         ? "CUDA"
                                               : "as the function that defines it";
    const char* split = is_function ? "as its operators are" : is_split ? "yes" : "no";
    return fmt::format("{} | {}", where, split);
  }
};

Service service_of(const std::string& domain, const std::string& op_type, bool is_function) {
  const auto has = [&](const runtime::KernelTable& table) {
    return table.find(domain, op_type) != nullptr;
  };
  Service service;
  const auto* rule = sharding::find_rule(domain, op_type);
  service.is_split = rule != nullptr && rule->rule != sharding::replicated_rule;
  service.on_cpu = has(runtime::cpu_kernels());
  service.on_gpu = has(runtime::cuda::kernels());
  service.is_function = !service.on_cpu && !service.on_gpu && is_function;
  if (service.is_function) service.is_split = false;
  return service;
}

void print() {
  std::map<Service, std::set<std::string>, std::greater<>> groups;
  std::set<std::string> seen;
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas()) {
    const std::string domain = schema.domain() == "ai.onnx" ? "" : schema.domain();
    if (domain == training || domain == graph::own_domain) continue;
    if (schema.deprecated() && !graph::has_microsoft_body(domain, schema.Name())) continue;
    const std::string name = domain.empty() ? schema.Name() : domain + "." + schema.Name();
    if (!seen.insert(name).second ||
        (domain.empty() && (dissolved.contains(schema.Name()) || folded.contains(schema.Name()))))
      continue;
    const bool is_function = schema.HasFunction() || schema.HasContextDependentFunction() ||
                             graph::has_microsoft_body(domain, schema.Name());
    groups[service_of(domain, schema.Name(), is_function)].insert(name);
  }
  fmt::print("| runs | split | operators |\n| --- | --- | --- |\n");
  std::set<std::string> rest;
  for (const auto& [service, names] : groups) {
    if (!service.is_any())
      rest.insert(names.begin(), names.end());
    else
      fmt::print("| {} | {} |\n", service.text(), fmt::join(names, ", "));
  }
  fmt::print("| when the model is read; nothing is left of them | | {} |\n",
             fmt::join(dissolved, ", "));
  fmt::print("| when the model is read, of constants, or in the tail | | {} |\n",
             fmt::join(folded, ", "));
  fmt::print("| not: refused by name | | {} |\n", fmt::join(rest, ", "));
}

}  // namespace
}  // namespace autopar

int main() {
  autopar::graph::register_microsoft_schemas();
  autopar::print();
}
