#include <algorithm>

#include "unit/runtime/passes/spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

struct RotaryForm {
  bool split = false;
  bool negate_first = false;  ///< before the cut
  bool transposed = false;
  bool cos_is_input = false;
  std::int64_t cut = 4;
  bool upper_first = true;
};

ValueId spell(Spelling& s, const RotaryForm& form) {
  const ValueId given = s.in("x", form.transposed ? Shape{2, 5, 3, 8} : Shape{2, 3, 5, 8});
  const ValueId x = form.transposed ? s.permuted(given, {0, 2, 1, 3}) : given;
  const auto factor = [&](const char* name) {
    return form.cos_is_input ? s.in(name, {1, 5, 8}) : s.weight({1, 1, 5, 8}, s.type);
  };
  const ValueId cos = factor("cos");
  const ValueId sin = factor("sin");
  ValueId lower = graph::no_value;
  ValueId upper = graph::no_value;
  if (form.split) {
    lower = s.op("Split", {x, s.integers({4, 4})}, {2, 3, 5, 4}, {{"axis", std::int64_t{-1}}});
    upper = s.value("upper", {2, 3, 5, 4});
    s.graph.nodes.back().outputs.push_back(upper);
  } else {
    lower = s.slice(x, 0, form.cut);
    upper = s.slice(form.negate_first ? s.unary("Neg", x) : x, form.cut,
                    std::numeric_limits<std::int64_t>::max());
  }
  if (!form.negate_first) upper = s.unary("Neg", upper);
  const std::vector<ValueId> halves =
      form.upper_first ? std::vector{upper, lower} : std::vector{lower, upper};
  const ValueId rotated = s.op("Concat", halves, {2, 3, 5, 8}, {{"axis", std::int64_t{-1}}});
  return s.either("Add", s.either("Mul", x, cos), s.either("Mul", rotated, sin));
}

const std::vector<Pass> rotary = {passes::fuse_rotary_embeddings};

TEST_CASE("Rotary embeddings are recognised in every spelling, and go before a Transpose") {
  for (const bool split : {false, true})
    for (const bool negate_first : {false, true})
      for (const bool transposed : {false, true})
        for (const bool cos_is_input : {false, true}) {
          if (split && negate_first) continue;
          Spelling s;
          s.ends(spell(s, {split, negate_first, transposed, cos_is_input}));
          const Graph fused = after(s.graph, rotary);
          CHECK(only(fused, "RotaryEmbedding").inputs[0] == fused.inputs[0]);
          CHECK(count(fused, "Transpose") == (transposed ? 1 : 0));
          CHECK(count(fused, "Mul") + count(fused, "Concat") == 0);
        }
}

TEST_CASE("What only resembles a rotary embedding stays as it is") {
  for (const RotaryForm form : {RotaryForm{.cut = 3}, RotaryForm{.upper_first = false}}) {
    Spelling s;
    s.ends(spell(s, form));
    CHECK(count(after(s.graph, rotary), "RotaryEmbedding") == 0);
  }
  Spelling s;  // the rotated half is needed for itself
  s.ends(spell(s, {}));
  s.ends(std::ranges::find(s.graph.nodes, "Concat", &graph::Node::op_type)->outputs[0]);
  CHECK(count(after(s.graph, rotary), "RotaryEmbedding") == 0);
}

}  // namespace
}  // namespace autopar::runtime
