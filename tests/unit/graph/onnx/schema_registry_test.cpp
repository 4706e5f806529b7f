#include "graph/onnx/schema_registry.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

using namespace autopar::graph;

namespace {

/// What inference and checks read of a schema.
void check_same(const onnx::OpSchema& ours, const onnx::OpSchema& theirs) {
  CHECK(ours.Name() == theirs.Name());
  CHECK(ours.domain() == theirs.domain());
  CHECK(ours.SinceVersion() == theirs.SinceVersion());
  CHECK(ours.deprecated() == theirs.deprecated());
  CHECK(ours.min_input() == theirs.min_input());
  CHECK(ours.max_input() == theirs.max_input());
  CHECK(ours.min_output() == theirs.min_output());
  CHECK(ours.max_output() == theirs.max_output());
  CHECK(ours.attributes().size() == theirs.attributes().size());
  CHECK(ours.function_opset_versions() == theirs.function_opset_versions());
  CHECK(ours.has_type_and_shape_inference_function() ==
        theirs.has_type_and_shape_inference_function());
}

}  // namespace

TEST_CASE("Every version of every operator is found as in ONNX's own registry") {
  const SchemaRegistry& registry = SchemaRegistry::instance();
  const auto all = onnx::OpSchemaRegistry::get_all_schemas_with_history();
  CHECK(all.size() > 600);
  for (const onnx::OpSchema& schema : all) {
    if (schema.domain() == "autopar") continue;
    for (const int opset : {schema.SinceVersion() - 1, schema.SinceVersion(), 1000}) {
      INFO(schema.domain() << "." << schema.Name() << " of opset " << opset);
      const auto* theirs = onnx::OpSchemaRegistry::Schema(schema.Name(), opset, schema.domain());
      const auto* ours = registry.GetSchema(schema.Name(), opset, schema.domain());
      REQUIRE((ours != nullptr) == (theirs != nullptr));
      if (ours != nullptr) check_same(*ours, *theirs);
    }
  }
}

TEST_CASE("A schema is added once, and what is not known is null") {
  SchemaRegistry& registry = SchemaRegistry::instance();
  const auto schema = [] {
    return onnx::OpSchema("Twice", __FILE__, __LINE__).SetDomain("test.registry").SinceVersion(1);
  };
  CHECK_FALSE(registry.knows("Twice", "test.registry"));
  registry.add(schema());
  CHECK(registry.knows("Twice", "test.registry"));
  CHECK(registry.GetSchema("Twice", 7, "test.registry")->SinceVersion() == 1);
  CHECK(registry.GetSchema("Twice", 0, "test.registry") == nullptr);
  CHECK_FALSE(registry.knows("Twice", ""));
  CHECK(registry.knows("Momentum", "ai.onnx.preview.training"));
  CHECK_FALSE(registry.knows("Momentum", "ai.onnx.preview"));
  registry.add(onnx::OpSchema("Momentum", __FILE__, __LINE__)
                   .SetDomain("ai.onnx.preview.own")
                   .SinceVersion(1));
  CHECK(registry.knows("Momentum", "ai.onnx.preview.own"));
  CHECK_THROWS_AS(registry.add(schema()), onnx::SchemaError);
}

TEST_CASE("A name that ONNX has may be added in another domain, before or after it is asked for") {
  SchemaRegistry& registry = SchemaRegistry::instance();
  for (const char* op_type : {"Mish", "Celu"}) {
    if (op_type == std::string("Celu")) CHECK(registry.knows(op_type, ""));
    registry.add(
        onnx::OpSchema(op_type, __FILE__, __LINE__).SetDomain("test.registry").SinceVersion(1));
    CHECK(registry.knows(op_type, "test.registry"));
    CHECK(registry.knows(op_type, ""));
  }
}

TEST_CASE("Threads that ask for the same schema at once get the same one") {
  std::vector<const onnx::OpSchema*> found(8);
  std::vector<std::jthread> threads;
  for (const onnx::OpSchema*& mine : found)
    threads.emplace_back(
        [&mine] { mine = SchemaRegistry::instance().GetSchema("LpPool", 18, ""); });
  threads.clear();
  for (const onnx::OpSchema* mine : found) CHECK(mine == found.front());
  CHECK(found.front() != nullptr);
}
