// Products with matrices that indices name, as a mixture of experts is exported, and near misses,
// on the device under test.

#include <catch2/catch.hpp>

#include "base/error.h"
#include "runtime/passes/passes.h"
#include "unit/runtime/kernels_under_test.h"
#include "unit/runtime/loops.h"
#include "unit/runtime/passes/spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

struct Mixture {
  std::int64_t experts = 3;
  std::int64_t vectors = 5;
  std::int64_t depth = 7;
  std::int64_t columns = 4;
  std::size_t table = 0;
  bool is_nd = true;
  bool is_constant = true;
  std::int64_t vectors_each = 1;
  DataType type = DataType::float32;
  DataType index_type = DataType::int64;
};

/// With inputs x and indices, and the table as a third where it is no constant.
Spelling spelled(const Mixture& m) {
  Spelling s;
  s.type = m.type;
  const bool is_left = m.table == 0;
  const Shape matrix = is_left ? Shape{m.columns, m.depth} : Shape{m.depth, m.columns};
  const Shape stack{m.experts, matrix[0], matrix[1]};
  const ValueId x = s.in("x", is_left ? Shape{m.vectors, m.depth, m.vectors_each}
                                      : Shape{m.vectors, m.vectors_each, m.depth});
  const ValueId indices =
      s.in("indices", m.is_nd ? Shape{m.vectors, 1} : Shape{m.vectors}, m.index_type);
  const ValueId table = m.is_constant ? s.weight(stack, s.type) : s.in("table", stack);
  const ValueId gathered =
      s.op(m.is_nd ? "GatherND" : "Gather", {table, indices}, {m.vectors, matrix[0], matrix[1]});
  s.ends(s.op("MatMul", is_left ? std::vector{gathered, x} : std::vector{x, gathered},
              is_left ? Shape{m.vectors, m.columns, m.vectors_each}
                      : Shape{m.vectors, m.vectors_each, m.columns}));
  return s;
}

int fused_products(const Spelling& s) {
  Graph graph = s.graph;
  passes::fuse_gathered_products(graph, kernels_under_test());
  remove_dead_nodes(graph);
  check_invariants(graph);
  return count(graph, "GatheredMatMul");
}

/// The products of x and the table, by loops.
std::vector<double> products(const Mixture& m, const Spelling& s, const Tensor& x,
                             const Tensor& indices) {
  const Tensor table = s.graph.value(s.graph.nodes.front().inputs[0]).constant->contiguous_copy();
  const std::int64_t by_column = m.table == 0 ? m.depth : 1;
  const std::int64_t by_depth = m.table == 0 ? 1 : m.columns;
  std::vector<double> results;
  for (std::int64_t v = 0; v < m.vectors; ++v) {
    const auto index = static_cast<std::int64_t>(number_at(indices, static_cast<std::size_t>(v)));
    const std::int64_t matrix = index < 0 ? index + m.experts : index;
    for (std::int64_t column = 0; column < m.columns; ++column) {
      double sum = 0;
      for (std::int64_t d = 0; d < m.depth; ++d)
        sum += number_at(x, static_cast<std::size_t>(v * m.depth + d)) *
               number_at(table, static_cast<std::size_t>(matrix * m.depth * m.columns +
                                                         column * by_column + d * by_depth));
      results.push_back(sum);
    }
  }
  return results;
}

void check_products(const Mixture& m) {
  CAPTURE(m.experts, m.vectors, m.depth, m.columns, m.table, m.is_nd, name_of(m.type));
  const Spelling s = spelled(m);
  CHECK(fused_products(s) == 1);
  Executable executable(s.graph, {.device = device_under_test()});
  Random random(5);
  for (int round = 0; round < 2; ++round) {
    const Tensor x = random_in(s.type, s.graph.value(s.graph.inputs[0]).shape, random, -1, 1);
    const graph::Value& given = s.graph.value(s.graph.inputs[1]);
    const Tensor indices =
        random_in(given.type, given.shape, random, static_cast<double>(-m.experts),
                  static_cast<double>(m.experts) - 0.01);
    check_close(run(executable, s.graph, {x, indices})[0], products(m, s, x, indices),
                static_cast<double>(m.depth));
  }
}

TEST_CASE("Vectors through matrices that indices name equal loops") {
  for (const std::int64_t experts : {1, 3, 8})
    for (const std::int64_t vectors : {1, 5, 70})
      for (const std::int64_t depth : {1, 40})
        for (const std::size_t table : {0, 1})
          for (const bool is_nd : {false, true})
            check_products({.experts = experts,
                            .vectors = vectors,
                            .depth = depth,
                            .columns = 33,
                            .table = table,
                            .is_nd = is_nd});
}

TEST_CASE("More vectors and columns than are looked at in one go, and few of each") {
  check_products({.experts = 2, .vectors = 2100, .depth = 3, .columns = 5});
  check_products({.experts = 5, .vectors = 17, .depth = 33, .columns = 130, .table = 1});
  check_products({.experts = 64, .vectors = 2, .depth = 17, .columns = 64, .is_nd = false});
}

TEST_CASE("Every floating type that the device gathers through, and both types of indices") {
  for (const DataType type : float_types)
    for (const std::size_t table : {0, 1})
      for (const DataType index_type : {DataType::int32, DataType::int64}) {
        const Mixture m{.experts = 3,
                        .vectors = 20,
                        .depth = 21,
                        .columns = 9,
                        .table = table,
                        .is_nd = false,
                        .type = type,
                        .index_type = index_type};
        if (fused_products(spelled(m)) == 1)
          check_products(m);
        else
          CHECK((device_under_test() == nullptr && type != DataType::float32));
      }
}

TEST_CASE("An index beyond the matrices is refused by the node's name") {
  const Spelling s = spelled({.experts = 3, .vectors = 2});
  const Tensor x = Tensor::zeros(s.type, {2, 7, 1});
  for (const std::int64_t index : {3, -4}) {
    Executable executable(s.graph, {.device = device_under_test()});
    const std::vector<std::int64_t> indices{0, index};
    CHECK_THROWS_WITH(
        run(executable, s.graph, {x, Tensor::of_int64({2, 1}, indices)}),
        Catch::Contains(s.graph.nodes.back().name) && Catch::Contains(std::to_string(index)));
  }
}

TEST_CASE("Several vectors a matrix, other axes and tables that are inputs stay as they are") {
  CHECK(fused_products(spelled({.vectors_each = 2})) == 0);
  CHECK(fused_products(spelled({.table = 1, .vectors_each = 2})) == 0);
  CHECK(fused_products(spelled({.is_constant = false})) == 0);
  Spelling s = spelled({.experts = 4, .columns = 4, .is_nd = false});
  s.graph.nodes.front().attributes["axis"] = std::int64_t{1};
  CHECK(fused_products(s) == 0);
  Spelling batched = spelled({.experts = 5});
  batched.graph.nodes.front().attributes["batch_dims"] = std::int64_t{1};
  CHECK(fused_products(batched) == 0);
}

}  // namespace
}  // namespace autopar::runtime
