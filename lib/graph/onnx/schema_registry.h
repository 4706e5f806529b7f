#pragma once

#include <onnx/defs/schema.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace autopar::graph {

/// The schemas of all operators: ONNX's, made when their name is first asked for, and those that
/// are added. ONNX's own registry makes all of its 660 at once, which takes longer and more memory
/// than many a model does. Threads may share it; schemas stay where they are.
class SchemaRegistry final : public onnx::ISchemaRegistry {
 public:
  static SchemaRegistry& instance();

  /// The newest version up to `newest`, or null.
  // NOLINTNEXTLINE(google-default-arguments): as the base class declares it
  const onnx::OpSchema* GetSchema(const std::string& op_type, int newest,
                                  const std::string& domain = onnx::ONNX_DOMAIN) const override;

  /// Whether any version is known.
  bool knows(const std::string& op_type, const std::string& domain) const;

  /// Throws onnx::SchemaError if the domain has an operator of this name.
  void add(onnx::OpSchema schema);

 private:
  using Key = std::pair<std::string, std::string>;  // domain and operator
  using Schemas = std::map<Key, std::map<int, onnx::OpSchema>>;

  SchemaRegistry() = default;
  void make_schemas(const std::string& op_type) const;

  mutable std::mutex mutex_;
  mutable std::set<std::string> made_;  // names whose schemas of ONNX are there
  mutable Schemas schemas_;
};

}  // namespace autopar::graph
