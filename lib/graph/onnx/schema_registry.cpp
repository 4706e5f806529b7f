#include "graph/onnx/schema_registry.h"

#include <onnx/defs/operator_sets.h>
#include <onnx/defs/operator_sets_ml.h>
#include <onnx/defs/operator_sets_preview.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

namespace autopar::graph {
namespace {

struct OnnxSchema {
  std::string_view domain;
  std::string_view op_type;
  int version;
  onnx::OpSchema (*make)();
};

/// One for each version of each operator, as ONNX's headers declare them (onnx_schemas.cmake).
constexpr OnnxSchema onnx_schemas[] = {
#include "onnx_schemas.inc"
};

constexpr auto name_of(const OnnxSchema& row) { return std::pair(row.domain, row.op_type); }
static_assert(std::ranges::is_sorted(onnx_schemas, {}, name_of));

/// ONNX declares operators of preview domains together.
std::string_view declared_domain(std::string_view domain) {
  return domain.starts_with(onnx::AI_ONNX_PREVIEW_DOMAIN) ? onnx::AI_ONNX_PREVIEW_DOMAIN : domain;
}

/// The newest version up to `newest`, or null.
const OnnxSchema* find_row(std::string_view domain, std::string_view op_type, int newest) {
  const OnnxSchema* found = nullptr;
  const std::pair name(domain, op_type);
  const auto* row = std::ranges::lower_bound(onnx_schemas, name, {}, name_of);
  for (; row != std::end(onnx_schemas) && name_of(*row) == name; ++row)
    if (row->version <= newest && (found == nullptr || row->version > found->version)) found = row;
  return found;
}

}  // namespace

SchemaRegistry& SchemaRegistry::instance() {
  static SchemaRegistry registry;
  return registry;
}

// NOLINTNEXTLINE(google-default-arguments)
const onnx::OpSchema* SchemaRegistry::GetSchema(const std::string& op_type, int newest,
                                                const std::string& domain) const {
  const OnnxSchema* const row = find_row(declared_domain(domain), op_type, newest);
  const std::scoped_lock lock(mutex_);
  if (const auto added = added_.find({domain, op_type}); added != added_.end())
    return added->second.SinceVersion() <= newest ? &added->second : nullptr;
  if (row == nullptr) return nullptr;
  auto made = of_onnx_.find(row);
  if (made == of_onnx_.end()) {
    onnx::OpSchema schema = row->make();
    schema.Finalize();
    made = of_onnx_.emplace(row, std::move(schema)).first;
  }
  return made->second.domain() == domain ? &made->second : nullptr;
}

bool SchemaRegistry::knows(const std::string& op_type, const std::string& domain) const {
  return GetSchema(op_type, std::numeric_limits<int>::max(), domain) != nullptr;
}

void SchemaRegistry::add(onnx::OpSchema schema) {
  if (knows(schema.Name(), schema.domain()))
    fail_schema("the operator ", schema.domain(), ".", schema.Name(), " is known already");
  schema.Finalize();
  const std::scoped_lock lock(mutex_);
  std::pair key(schema.domain(), schema.Name());
  added_.emplace(std::move(key), std::move(schema));
}

}  // namespace autopar::graph
