#include "graph/onnx/schema_registry.h"

#include <onnx/defs/operator_sets.h>
#include <onnx/defs/operator_sets_ml.h>
#include <onnx/defs/operator_sets_preview.h>
#include <onnx/defs/operator_sets_training.h>

#include <limits>
#include <string_view>
#include <utility>

namespace autopar::graph {
namespace {

struct OnnxSchema {
  std::string_view op_type;
  onnx::OpSchema (*make)();
};

/// One for each version of each operator, as ONNX's headers declare them.
constexpr OnnxSchema onnx_schemas[] = {
#include "onnx_schemas.inc"
};

bool is_of_onnx(std::string_view domain) {
  return domain == onnx::ONNX_DOMAIN || domain.starts_with("ai.onnx.");
}

}  // namespace

SchemaRegistry& SchemaRegistry::instance() {
  static SchemaRegistry registry;
  return registry;
}

/// All versions in all of ONNX's domains; none where memory ends on the way.
void SchemaRegistry::make_schemas(const std::string& op_type) const {
  Schemas made;
  for (const OnnxSchema& row : onnx_schemas) {
    if (row.op_type != op_type) continue;
    onnx::OpSchema schema = row.make();
    schema.Finalize();
    made[{schema.domain(), op_type}].emplace(schema.SinceVersion(), std::move(schema));
  }
  made_.insert(op_type);
  schemas_.merge(made);
}

// NOLINTNEXTLINE(google-default-arguments)
const onnx::OpSchema* SchemaRegistry::GetSchema(const std::string& op_type, int newest,
                                                const std::string& domain) const {
  const std::scoped_lock lock(mutex_);
  if (is_of_onnx(domain) && !made_.contains(op_type)) make_schemas(op_type);
  const auto versions = schemas_.find({domain, op_type});
  if (versions == schemas_.end()) return nullptr;
  const auto later = versions->second.upper_bound(newest);
  return later == versions->second.begin() ? nullptr : &std::prev(later)->second;
}

bool SchemaRegistry::knows(const std::string& op_type, const std::string& domain) const {
  return GetSchema(op_type, std::numeric_limits<int>::max(), domain) != nullptr;
}

void SchemaRegistry::add(onnx::OpSchema schema) {
  if (knows(schema.Name(), schema.domain()))
    fail_schema("the operator ", schema.domain(), ".", schema.Name(), " is known already");
  schema.Finalize();
  const std::scoped_lock lock(mutex_);
  schemas_[{schema.domain(), schema.Name()}].emplace(schema.SinceVersion(), std::move(schema));
}

}  // namespace autopar::graph
