// Operators of libraries: what is refused, what their functions see, and shapes that cannot be.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>

#include "base/problems.h"
#include "graph/onnx/infer_node.h"
#include "graph/operators/library_node.h"
#include "graph/operators/library_operator.h"

using namespace autopar;
using namespace autopar::graph;
using Catch::Contains;

namespace {

int same_shape(const AutoparNode* node, AutoparOutput* outputs, char*) {
  outputs[0].type = node->inputs[0].type;
  outputs[0].rank = node->inputs[0].rank;
  std::copy_n(node->inputs[0].shape, node->inputs[0].rank, outputs[0].shape);
  return 0;
}

int compute_nothing(const AutoparRun*, char*) { return 0; }

AutoparOperator named(const char* name, AutoparShapes shapes = same_shape) {
  AutoparOperator op{};
  op.domain = "test.library";
  op.name = name;
  op.version = 1;
  op.min_inputs = op.max_inputs = op.min_outputs = op.max_outputs = 1;
  op.shapes = shapes;
  op.cpu = compute_nothing;
  return op;
}

void add(const std::vector<AutoparOperator>& operators, std::uint32_t abi = AUTOPAR_OPERATOR_ABI) {
  add_operators({abi, static_cast<std::uint32_t>(operators.size()), operators.data()}, "lib.so");
}

/// Registers one operator and keeps it, as a library stays loaded.
void add_for_good(const char* name, AutoparShapes shapes) {
  static std::deque<AutoparOperator> kept;
  add_operators({AUTOPAR_OPERATOR_ABI, 1, &kept.emplace_back(named(name, shapes))}, "lib.so");
}

std::string refusal(const std::vector<AutoparOperator>& operators) {
  try {
    add(operators);
  } catch (const SeveralErrors& errors) {
    std::string all;
    for (const std::string& line : errors.lines()) all += line + "\n";
    return all;
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

/// One node x -> y of the operator; outputs beside the first are y1, y2 ...
Graph graph_of(const char* name, std::size_t outputs = 1) {
  Graph graph;
  graph.opsets = {{"", 20}, {"test.library", 1}};
  Node node{"n", name, "test.library", {}, {}, {}};
  node.inputs = {graph.add_value({"x", DataType::float32, {2, 3}, {}})};
  graph.inputs = node.inputs;
  for (std::size_t o = 0; o < outputs; ++o)
    node.outputs.push_back(
        graph.add_value({o == 0 ? "y" : fmt::format("y{}", o), DataType::float32, {2, 3}, {}}));
  graph.outputs = node.outputs;
  graph.nodes = {node};
  return graph;
}

std::string fault_of(const Graph& graph) {
  try {
    infer_node(graph, graph.nodes.front());
  } catch (const OperatorFault& fault) {
    return fault.what();
  }
  return "no fault";
}

}  // namespace

TEST_CASE("a library's operator is registered with its shape function") {
  add_for_good("Same", same_shape);
  const LibraryOperator* op = find_library_operator("test.library", "Same");
  REQUIRE(op != nullptr);
  CHECK(op->name() == "test.library::Same");
  CHECK(op->may_be_split());
  CHECK(find_library_operator("", "Same") == nullptr);
  CHECK(find_library_operator("test.library", "Other") == nullptr);
  const Graph graph = graph_of("Same");
  const auto inferred = infer_node(graph, graph.nodes.front());
  REQUIRE(inferred.size() == 1);
  CHECK(inferred[0].type == DataType::float32);
  CHECK(inferred[0].shape == Shape{2, 3});
}

TEST_CASE("a library of another version, or of nothing, is refused") {
  CHECK_THROWS_WITH(
      add({named("Versioned")}, AUTOPAR_OPERATOR_ABI + 1),
      Contains("--operators lib.so") && Contains("version 2") && Contains("compile it again"));
  CHECK(find_library_operator("test.library", "Versioned") == nullptr);
  CHECK_THAT(refusal({}), Contains("no operator"));
  CHECK_THROWS_WITH(load_operators("/no/such/library.so"),
                    Contains("--operators /no/such/library.so") && Contains("No such file"));
}

TEST_CASE("definitions that are wrong are refused together, and none is taken") {
  AutoparOperator no_shapes = named("NoShapes");
  no_shapes.shapes = nullptr;
  AutoparOperator no_kernel = named("NoKernel");
  no_kernel.cpu = nullptr;
  AutoparOperator counts = named("Counts");
  counts.min_inputs = 2;
  AutoparOperator many = named("Many");
  many.max_outputs = 5000;
  AutoparOperator version = named("OfVersion0");
  version.version = 0;
  AutoparOperator flags = named("Flags");
  flags.flags = 128;
  AutoparOperator own = named("MatMul");
  own.domain = "";
  AutoparOperator internal = named("AllReduce");
  internal.domain = "autopar";
  AutoparOperator known = named("FastGelu");
  known.domain = "com.microsoft";
  const std::string lines = refusal({named("Fine"), no_shapes, no_kernel, counts, many, version,
                                     flags, own, internal, known, named("Twice"), named("Twice")});
  CHECK_THAT(lines, Contains("test.library::NoShapes: it has no shape function") &&
                        Contains("test.library::NoKernel: it has no CPU kernel") &&
                        Contains("test.library::Counts: min_inputs is more than max_inputs") &&
                        Contains("test.library::Many: it has up to 5000 tensors") &&
                        Contains("test.library::OfVersion0: its version is 0") &&
                        Contains("test.library::Flags: its flags are 128") &&
                        Contains("MatMul is in the domain ''") &&
                        Contains("AllReduce is in the domain 'autopar'") &&
                        Contains("com.microsoft::FastGelu is known already, from autopar itself") &&
                        Contains("it has test.library::Twice twice"));
  CHECK(find_library_operator("test.library", "Fine") == nullptr);
  add_for_good("Fine", same_shape);
  CHECK_THAT(refusal({named("Fine")}),
             Contains("test.library::Fine is known already, from lib.so"));
}

TEST_CASE("shapes that cannot be are the library's fault") {
  add_for_good("Negative", [](const AutoparNode* node, AutoparOutput* outputs, char* error) {
    outputs[0].shape[1] = 0;
    const int result = same_shape(node, outputs, error);
    outputs[0].shape[0] = -1;
    return result;
  });
  CHECK_THAT(fault_of(graph_of("Negative")),
             Contains("node 'n'") && Contains("test.library::Negative of lib.so") &&
                 Contains("gives output 0 the impossible shape -1x3; mend the library"));
  add_for_good("Silent", [](const AutoparNode*, AutoparOutput*, char*) { return 0; });
  CHECK_THAT(fault_of(graph_of("Silent")), Contains("tells nothing of output 0"));
  add_for_good("Untyped", [](const AutoparNode* node, AutoparOutput* outputs, char* error) {
    const int result = same_shape(node, outputs, error);
    outputs[0].type = 8;  // strings
    return result;
  });
  CHECK_THAT(fault_of(graph_of("Untyped")), Contains("gives output 0 the type 8"));
  add_for_good("Deep", [](const AutoparNode* node, AutoparOutput* outputs, char* error) {
    const int result = same_shape(node, outputs, error);
    outputs[0].rank = AUTOPAR_MAX_RANK + 1;
    return result;
  });
  CHECK_THAT(fault_of(graph_of("Deep")), Contains("gives output 0 17 dimensions"));
  add_for_good("TooMany", [](const AutoparNode* node, AutoparOutput* outputs, char* error) {
    same_shape(node, outputs + 1, error);
    return same_shape(node, outputs, error);
  });
  CHECK_THAT(fault_of(graph_of("TooMany")), Contains("tells of output 1, but the node has 1"));
}

TEST_CASE("what a shape function refuses is an error with its reason, and so are other counts") {
  add_for_good("Picky", [](const AutoparNode*, AutoparOutput*, char* error) {
    std::strcpy(error, "x is not square");
    return 7;
  });
  const Graph picky = graph_of("Picky");
  CHECK_THROWS_WITH(infer_node(picky, picky.nodes.front()),
                    Contains("node 'n'") && Contains("lib.so refuses it: x is not square"));
  CHECK_THROWS_AS(infer_node(picky, picky.nodes.front()), Error);
  add_for_good("Single", same_shape);
  const Graph pair = graph_of("Single", 2);
  CHECK_THROWS_WITH(infer_node(pair, pair.nodes.front()), Contains("output size 2"));
}

TEST_CASE("functions see inputs, small constants and attributes of every kind") {
  const std::vector<std::int64_t> axes{1, 2};
  const Tensor small = Tensor::of_int64({2}, axes);
  const Tensor large = Tensor::zeros(DataType::float32, {1025});
  const std::vector<float> halves{0.5F, 1.5F};
  const std::map<std::string, Attribute> attributes{{"one", std::int64_t{3}},
                                                    {"many", axes},
                                                    {"real", 2.5F},
                                                    {"reals", halves},
                                                    {"text", std::string("abc")},
                                                    {"texts", std::vector<std::string>{"x", "yz"}},
                                                    {"none", std::vector<std::int64_t>{}},
                                                    {"table", small}};
  const std::vector<LibraryInput> inputs{
      {DataType::int64, {2}, &small}, {}, {DataType::float32, {1025}, &large}};
  const LibraryNode held(attributes, inputs, 2);
  const AutoparNode& node = held.view();
  CHECK(node.num_inputs == 3);
  CHECK(node.num_outputs == 2);
  CHECK(node.inputs[0].type == AUTOPAR_INT64);
  CHECK(node.inputs[0].rank == 1);
  CHECK(node.inputs[0].shape[0] == 2);
  CHECK(static_cast<const std::int64_t*>(node.inputs[0].data)[1] == 2);
  CHECK(node.inputs[1].type == AUTOPAR_ABSENT);
  CHECK(node.inputs[2].data == nullptr);

  const std::int64_t* ints = nullptr;
  CHECK((node.ints(&node, "one", &ints) == 1 && ints[0] == 3));
  CHECK((node.ints(&node, "many", &ints) == 2 && ints[1] == 2));
  CHECK(node.ints(&node, "none", &ints) == 0);
  CHECK(node.ints(&node, "absent", &ints) == -1);
  CHECK(node.ints(&node, "real", &ints) == -1);
  const float* floats = nullptr;
  CHECK((node.floats(&node, "real", &floats) == 1 && floats[0] == 2.5F));
  CHECK((node.floats(&node, "reals", &floats) == 2 && floats[1] == 1.5F));
  CHECK(node.floats(&node, "one", &floats) == -1);
  const char* const* texts = nullptr;
  CHECK((node.strings(&node, "text", &texts) == 1 && std::string(texts[0]) == "abc"));
  CHECK((node.strings(&node, "texts", &texts) == 2 && std::string(texts[1]) == "yz"));
  CHECK(node.strings(&node, "one", &texts) == -1);
  AutoparTensor tensor{};
  CHECK(node.tensor(&node, "table", &tensor) == 1);
  CHECK((tensor.type == AUTOPAR_INT64 && tensor.rank == 1 && tensor.shape[0] == 2));
  CHECK(static_cast<const std::int64_t*>(tensor.data)[0] == 1);
  CHECK(node.tensor(&node, "one", &tensor) == -1);
}
