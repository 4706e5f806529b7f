#include "graph/onnx/collective_schemas.h"

#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include "unit/graph/models.h"
#include "unit/graph/onnx_registry.h"

using namespace autopar;
using namespace autopar::graph;

namespace {

onnx::ModelProto with_collective(const std::string& graph) {
  tell_onnx_of_collectives();
  return parse_model(R"(<ir_version: 8, opset_import: ["" : 18, "autopar" : 1]> shard )" + graph);
}

const std::string group_of = "mesh_axes = [0], ranks = [2, 3, 5], rank = ";
const std::string group = group_of + "1";

/// The output shape that ONNX's own inference, strict, gives.
Shape inferred(const std::string& input, const std::string& node) {
  onnx::ModelProto model = with_collective("(" + input + ") => (float y) { " + node + " }");
  model.mutable_graph()->mutable_output(0)->mutable_type()->clear_value();
  onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                     onnx::ShapeInferenceOptions(true, 1, true));
  Shape shape;
  for (const auto& dim : model.graph().output(0).type().tensor_type().shape().dim())
    shape.push_back(dim.dim_value());
  return shape;
}

}  // namespace

TEST_CASE("ONNX's inference knows the collectives' shapes") {
  CHECK(inferred("float[4, 7] x", "y = autopar.AllReduce<reduce = \"sum\", " + group + ">(x)") ==
        Shape{4, 7});
  CHECK(inferred("float[4, 3] x", "y = autopar.AllGather<dim = 1, sizes = [3, 3, 1], " + group +
                                      ">(x)") == Shape{4, 7});
  CHECK(inferred("float[4, 7] x",
                 "y = autopar.ReduceScatter<reduce = \"max\", dim = 1, "
                 "sizes = [3, 3, 1], " +
                     group_of + "2>(x)") == Shape{4, 1});
  CHECK(inferred("float[2, 7] x",
                 "y = autopar.AllToAll<split_dim = 1, concat_dim = 0, split_sizes = [3, 3, 1], "
                 "concat_sizes = [2, 2, 0], " +
                     group + ">(x)") == Shape{4, 3});
  CHECK(inferred("float[4] x", "y = autopar.Broadcast<root = 0, " + group + ">(x)") == Shape{4});
  CHECK(inferred("", "y = autopar.Recv<peer = 1, shape = [2, 0], dtype = 1, " + group + ">()") ==
        Shape{2, 0});
}

TEST_CASE("a collective whose sizes do not fit its tensor is refused") {
  CHECK_THROWS(inferred("float[4, 8] x",
                        "y = autopar.ReduceScatter<reduce = \"sum\", dim = 1, "
                        "sizes = [3, 3, 1], " +
                            group_of + "2>(x)"));
  CHECK_THROWS(inferred("float[4] x",
                        "y = autopar.AllGather<dim = 1, sizes = [3, 3, 1], " + group + ">(x)"));
  CHECK_THROWS(inferred("float[4, 7] x",
                        "y = autopar.ReduceScatter<reduce = \"sum\", dim = 1, "
                        "sizes = [3, 3, 1], " +
                            group_of + "3>(x)"));
}

TEST_CASE("shards with collectives pass ONNX's checker and import as they are") {
  onnx::ModelProto model = with_collective(
      "(float[4, 3] x) => (float[4, 7] y) { g = autopar.AllGather<dim = 1, sizes = [3, 3, 1], " +
      group + ">(x) h = autopar.AllReduce<reduce = \"sum\", " + group +
      ">(g) y = Relu(h) sent = autopar.Broadcast<root = 1, " + group + ">(h) }");
  auto& send = *model.mutable_graph()->mutable_node(3);  // the text form has no node without output
  send.set_op_type("Send");
  send.clear_output();
  send.clear_attribute();
  onnx::AttributeProto& rank = *send.add_attribute();
  rank.set_name("rank");
  rank.set_type(onnx::AttributeProto::INT);
  for (const char* name : {"peers", "starts", "ends"}) {
    onnx::AttributeProto& attribute = *send.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INTS);
    attribute.add_ints(0);
  }
  CHECK_NOTHROW(onnx::checker::check_model(model, true, false, true));
  ImportOptions options;
  options.is_native = [](std::string_view, std::string_view op) { return op == "Relu"; };
  const Graph graph = import(model, options);
  CHECK(graph.nodes.size() == 4);
  CHECK(graph.opsets == std::map<std::string, std::int64_t>{{"", 18}, {"autopar", 1}});
  CHECK(graph.nodes[0].ints_attribute("ranks", {}) == std::vector<std::int64_t>{2, 3, 5});
  onnx::ModelProto incomplete = model;
  incomplete.mutable_graph()->mutable_node(0)->clear_attribute();
  CHECK_THROWS(onnx::checker::check_model(incomplete, true, false, true));
}
