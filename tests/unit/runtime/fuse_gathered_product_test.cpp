// Products with matrices that indices name, as a mixture of experts is exported, and near misses.

#include <catch2/catch.hpp>

#include "graph/error.h"
#include "runtime/passes/passes.h"
#include "unit/runtime/loops.h"
#include "unit/runtime/spelling.h"

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
};

/// With inputs x and indices, and the table as a third where it is no constant.
Spelling spelled(const Mixture& m) {
  Spelling s;
  const bool is_left = m.table == 0;
  const Shape matrix = is_left ? Shape{m.columns, m.depth} : Shape{m.depth, m.columns};
  const Shape stack{m.experts, matrix[0], matrix[1]};
  const ValueId x = s.in("x", is_left ? Shape{m.vectors, m.depth, m.vectors_each}
                                      : Shape{m.vectors, m.vectors_each, m.depth});
  const ValueId indices =
      s.in("indices", m.is_nd ? Shape{m.vectors, 1} : Shape{m.vectors}, DataType::int64);
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
  passes::fuse_gathered_products(graph, cpu_kernels());
  remove_dead_nodes(graph);
  check_invariants(graph);
  return count(graph, "GatheredMatMul");
}

TEST_CASE("Vectors through matrices that indices name equal the products of gathered matrices") {
  Random random(5);
  for (const std::int64_t experts : {1, 3, 8})
    for (const std::int64_t vectors : {1, 5, 70})
      for (const std::int64_t depth : {1, 40})
        for (const std::size_t table : {0, 1})
          for (const bool is_nd : {false, true}) {
            CAPTURE(experts, vectors, depth, table, is_nd);
            const Spelling s = spelled({.experts = experts,
                                        .vectors = vectors,
                                        .depth = depth,
                                        .columns = 33,
                                        .table = table,
                                        .is_nd = is_nd});
            CHECK(fused_products(s) == 1);
            Executable plain(s.graph, {.optimize = false});
            Executable fused(s.graph, {});
            for (int round = 0; round < 2; ++round) {
              const Tensor x =
                  random_in(s.type, s.graph.value(s.graph.inputs[0]).shape, random, -1, 1);
              const Shape& shape = s.graph.value(s.graph.inputs[1]).shape;
              const Tensor indices =
                  random_in(DataType::int64, shape, random, static_cast<double>(-experts),
                            static_cast<double>(experts));
              check_close(run(fused, s.graph, {x, indices})[0],
                          doubles(run(plain, s.graph, {x, indices})[0]),
                          static_cast<double>(depth));
            }
          }
}

TEST_CASE("An index beyond the matrices is refused by the node's name") {
  const Spelling s = spelled({.experts = 3, .vectors = 2});
  Executable executable(s.graph, {});
  const Tensor x = Tensor::zeros(s.type, {2, 7, 1});
  const std::vector<std::int64_t> indices{0, 3};
  CHECK_THROWS_WITH(run(executable, s.graph, {x, Tensor::of_int64({2, 1}, indices)}),
                    Catch::Contains(s.graph.nodes.back().name) && Catch::Contains("3"));
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
