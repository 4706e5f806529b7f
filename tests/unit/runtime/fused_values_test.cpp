#include "runtime/fused_values.h"

#include <catch2/catch.hpp>

#include "unit/runtime/graph_sketch.h"

namespace autopar::runtime {
namespace {

using testing::Builder;

TEST_CASE("values between fused operators are never made") {
  Builder builder;
  builder.graph.opsets[""] = 20;
  const auto x = builder.input("x", {64, 64});
  const auto product = builder.node("MatMul", {x, builder.constant("w", {64, 64})}, {64, 64});
  const auto y = builder.node("Neg", {product}, {64, 64});
  const auto z = builder.node("Tanh", {y}, {64, 64});
  const auto out = builder.node("Softmax", {z}, {64, 64}, {{"axis", std::int64_t{-1}}});
  builder.graph.outputs.push_back(out);
  const auto name = [&](graph::ValueId id) { return builder.graph.value(id).name; };
  const auto fused = fused_values(builder.graph, cpu_kernels());
  CHECK(fused.contains(name(y)));
  CHECK_FALSE(fused.contains(name(out)));
  CHECK_FALSE(fused.contains(name(product)));
  CHECK_FALSE(fused.contains(name(x)));
}

}  // namespace
}  // namespace autopar::runtime
