#include "search/partial_flow.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

using namespace autopar;
using search::KeepPartial;

namespace {

/// Operators over tensors of 8 x 8, by the names of what they read and make.
class Sketch {
 public:
  Sketch() { graph_.opsets[""] = 20; }

  Sketch& input(const std::string& name) {
    graph_.inputs.push_back(value(name));
    return *this;
  }
  Sketch& op(const std::string& type, const std::vector<std::string>& inputs,
             const std::string& output) {
    graph::Node node{"make_" + output, type, "", {}, {}, {}};
    for (const std::string& input : inputs) node.inputs.push_back(value(input));
    node.outputs = {value(output)};
    graph_.nodes.push_back(std::move(node));
    return *this;
  }
  graph::Graph returning(const std::string& output) {
    graph_.outputs = {value(output)};
    return graph_;
  }

 private:
  graph::ValueId value(const std::string& name) {
    const auto [entry, is_new] = ids_.try_emplace(name, graph::no_value);
    if (is_new)
      entry->second = graph_.add_value({name, graph::DataType::float32, {8, 8}, std::nullopt});
    return entry->second;
  }

  graph::Graph graph_;
  std::map<std::string, graph::ValueId> ids_;
};

/// The values that may be kept partial.
std::vector<std::string> kept(const graph::Graph& graph, KeepPartial keep) {
  const auto uses = search::partial_uses(graph, search::rules_of(graph), keep);
  std::vector<std::string> names;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    if (uses[id].may_keep(0)) names.push_back(graph.value(graph.nodes[id].outputs[0]).name);
  }
  return names;
}

std::vector<std::size_t> groups_taken(const graph::Graph& graph, graph::NodeId id,
                                      KeepPartial keep) {
  return search::partial_uses(graph, search::rules_of(graph), keep)[id].groups;
}

using Names = std::vector<std::string>;
constexpr auto where_it_may_save = KeepPartial::where_it_may_save;

/// y = softmax(a b + c d).
graph::Graph two_sums() {
  return Sketch()
      .input("a")
      .input("b")
      .input("c")
      .input("d")
      .op("MatMul", {"a", "b"}, "left")
      .op("MatMul", {"c", "d"}, "right")
      .op("Add", {"left", "right"}, "sum")
      .op("Softmax", {"sum"}, "y")
      .returning("y");
}

}  // namespace

TEST_CASE("two sums that are added are kept until there") {
  const graph::Graph graph = two_sums();
  CHECK(kept(graph, where_it_may_save) == Names{"left", "right"});
  CHECK(kept(graph, KeepPartial::never).empty());
  const auto uses = search::partial_uses(graph, search::rules_of(graph), where_it_may_save);
  CHECK(uses[2].groups.size() == 1);
  CHECK(uses[2].reduces_later);
  CHECK(uses[3].groups.empty());  // Softmax is not linear
}

TEST_CASE("what the operators between carry on is kept, too") {
  const graph::Graph graph = Sketch()
                                 .input("a")
                                 .input("b")
                                 .input("c")
                                 .input("d")
                                 .op("MatMul", {"a", "b"}, "left")
                                 .op("Neg", {"left"}, "negated")
                                 .op("MatMul", {"c", "d"}, "right")
                                 .op("Sub", {"negated", "right"}, "sum")
                                 .op("Softmax", {"sum"}, "y")
                                 .returning("y");
  CHECK(kept(graph, where_it_may_save) == Names{"left", "negated", "right"});
}

TEST_CASE("one sum alone is reduced at once, unless a pin asks for it to be kept") {
  const graph::Graph graph = Sketch()
                                 .input("a")
                                 .input("b")
                                 .op("MatMul", {"a", "b"}, "product")
                                 .op("Neg", {"product"}, "negated")
                                 .op("Softmax", {"negated"}, "y")
                                 .returning("y");
  CHECK(kept(graph, where_it_may_save).empty());
  CHECK(kept(graph, KeepPartial::anywhere) == Names{"product"});
  CHECK(groups_taken(graph, 1, KeepPartial::anywhere).size() == 1);
}

TEST_CASE("a sum that joins itself again saves nothing") {
  const graph::Graph graph = Sketch()
                                 .input("a")
                                 .input("b")
                                 .op("MatMul", {"a", "b"}, "product")
                                 .op("Neg", {"product"}, "negated")
                                 .op("Add", {"product", "negated"}, "sum")
                                 .op("Softmax", {"sum"}, "y")
                                 .returning("y");
  CHECK(kept(graph, where_it_may_save).empty());
}

TEST_CASE("a sum with one reader that needs it whole is reduced for all") {
  const graph::Graph graph = Sketch()
                                 .input("a")
                                 .input("b")
                                 .input("c")
                                 .input("d")
                                 .op("MatMul", {"a", "b"}, "left")
                                 .op("MatMul", {"c", "d"}, "right")
                                 .op("Softmax", {"left"}, "soft")
                                 .op("Add", {"left", "right"}, "sum")
                                 .op("Mul", {"sum", "soft"}, "y")
                                 .returning("y");
  CHECK(kept(graph, where_it_may_save).empty());
  // A pin may ask for it all the same.
  const Names anywhere = kept(graph, KeepPartial::anywhere);
  CHECK(std::ranges::count(anywhere, "left") == 1);
  CHECK(std::ranges::count(anywhere, "right") == 1);
}

TEST_CASE("a product does not take partial operands, though it is linear in each") {
  const graph::Graph graph = Sketch()
                                 .input("a")
                                 .input("b")
                                 .input("c")
                                 .op("MatMul", {"a", "b"}, "product")
                                 .op("MatMul", {"product", "c"}, "second")
                                 .op("Softmax", {"second"}, "y")
                                 .returning("y");
  CHECK(kept(graph, where_it_may_save).empty());
  CHECK(groups_taken(graph, 1, where_it_may_save).empty());
  CHECK(kept(graph, KeepPartial::anywhere) == Names{"product"});
}

TEST_CASE("a model output is never partial") {
  const graph::Graph graph = Sketch()
                                 .input("a")
                                 .input("b")
                                 .input("c")
                                 .input("d")
                                 .op("MatMul", {"a", "b"}, "left")
                                 .op("MatMul", {"c", "d"}, "right")
                                 .op("Add", {"left", "right"}, "y")
                                 .returning("y");
  for (const KeepPartial keep : {where_it_may_save, KeepPartial::anywhere})
    CHECK(kept(graph, keep) == Names{"left", "right"});
}

TEST_CASE("an operator without a rule takes and leaves nothing partial") {
  graph::Graph graph = two_sums();
  graph.nodes[2].op_type = "Unknown";
  graph.nodes[2].domain = "nowhere";
  REQUIRE_FALSE(search::rules_of(graph)[2].has_value());
  for (const KeepPartial keep : {where_it_may_save, KeepPartial::anywhere})
    CHECK(kept(graph, keep).empty());
}
