#pragma once

#include <onnx/defs/schema.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace autopar::graph {

/// The schemas of all operators: ONNX's, made when they are first asked for, and those that are
/// added. ONNX's own registry makes all of its 660 at once, which takes longer and more memory than
/// many a model does. Threads may share it; schemas stay where they are.
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
  SchemaRegistry() = default;

  mutable std::mutex mutex_;
  mutable std::map<const void*, onnx::OpSchema> of_onnx_;                // by row of ONNX's table
  std::map<std::pair<std::string, std::string>, onnx::OpSchema> added_;  // by domain and name
};

}  // namespace autopar::graph
