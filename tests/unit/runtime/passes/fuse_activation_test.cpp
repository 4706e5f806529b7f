#include <cmath>

#include "unit/runtime/passes/spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

const std::vector<Pass> activations = {passes::fuse_activations};

ValueId spell_gelu(Spelling& s, ValueId x, int order, double half, double root) {
  const DataType type = s.type_of(x);
  const ValueId bent = s.unary(
      "Erf", order % 2 == 0 ? s.binary("Div", x, s.number(1 / root, type)) : s.scaled(x, root));
  const ValueId sum = s.either("Add", bent, s.number(1, type));
  if (order < 2) return s.scaled(s.either("Mul", x, sum), half);
  if (order < 4) return s.either("Mul", s.scaled(x, half), sum);
  return s.either("Mul", x, s.scaled(sum, half));
}

ValueId spell_tanh_gelu(Spelling& s, ValueId x, int order, double cubic) {
  const DataType type = s.type_of(x);
  const double root = std::sqrt(2 / std::acos(-1));
  ValueId inner = graph::no_value;
  if (order < 2) {
    const ValueId cube = order == 0 ? s.binary("Pow", x, s.number(3, type))
                                    : s.binary("Mul", s.binary("Mul", x, x), x);
    inner = s.scaled(s.either("Add", x, s.scaled(cube, cubic)), root);
  } else {
    const ValueId square = s.binary("Mul", s.scaled(x, cubic), x);
    inner = s.either("Mul", s.scaled(x, root), s.either("Add", s.number(1, type), square));
  }
  const ValueId sum = s.either("Add", s.unary("Tanh", inner), s.number(1, type));
  return s.either("Mul", s.scaled(x, 0.5), sum);
}

TEST_CASE("Activations are recognised in every order of their factors") {
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
    for (int order = 0; order < 6; ++order) {
      Spelling s;
      s.random.seed(static_cast<std::uint32_t>(order));
      s.ends(spell_gelu(s, s.in("x", {4, 6}, type), order, 0.5, 0.70710678));
      const Graph fused = after(s.graph, activations);
      CHECK(fused.nodes.size() == 1);
      CHECK(only(fused, "Gelu").string_attribute("approximate", "") == "none");
    }
    for (int order = 0; order < 3; ++order) {
      Spelling s;
      s.ends(spell_tanh_gelu(s, s.in("x", {4, 6}, type), order, 0.044715));
      const Graph fused = after(s.graph, activations);
      CHECK(fused.nodes.size() == 1);
      CHECK(only(fused, "Gelu").string_attribute("approximate", "") == "tanh");
    }
    for (const double slope : {1.0, 1.702}) {
      Spelling s;
      const ValueId x = s.in("x", {4, 6}, type);
      const ValueId gate = s.unary("Sigmoid", slope == 1 ? x : s.scaled(x, slope));
      s.ends(s.either("Mul", s.either("Mul", x, gate), s.in("up", {4, 6}, type)));
      const Graph fused = after(s.graph, activations);
      CHECK(fused.nodes.size() == 2);
      CHECK(only(fused, "Swish").float_attribute("alpha", 0) == Approx(slope).epsilon(0.01));
    }
  }
}

TEST_CASE("An activation with another number, or of another value, stays as it is") {
  const auto nodes_of = [](const std::function<void(Spelling&, ValueId)>& write) {
    Spelling s;
    write(s, s.in("x", {4, 6}));
    const Graph fused = after(s.graph, activations);
    return count(fused, "Gelu") + count(fused, "Swish");
  };
  CHECK(nodes_of([](Spelling& s, ValueId x) { s.ends(spell_gelu(s, x, 0, 0.5, 0.7071068)); }) == 1);
  CHECK(nodes_of([](Spelling& s, ValueId x) { s.ends(spell_gelu(s, x, 0, 0.51, 0.7071068)); }) ==
        0);
  CHECK(nodes_of([](Spelling& s, ValueId x) { s.ends(spell_gelu(s, x, 2, 0.5, 0.7)); }) == 0);
  CHECK(nodes_of([](Spelling& s, ValueId x) { s.ends(spell_tanh_gelu(s, x, 1, 0.05)); }) == 0);
  CHECK(nodes_of([](Spelling& s, ValueId x) {
          s.ends(s.binary("Mul", s.unary("Sin", x), s.unary("Sigmoid", x)));
        }) == 0);
  CHECK(nodes_of([](Spelling& s, ValueId x) {  // the sigmoid is needed for itself
          const ValueId gate = s.unary("Sigmoid", x);
          s.ends(s.binary("Mul", x, gate));
          s.ends(gate);
        }) == 0);
}

}  // namespace
}  // namespace autopar::runtime
