#include <functional>

#include "unit/runtime/passes/spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

struct NormalizationForm {
  DataType type = DataType::float32;  ///< of input and result
  DataType inner = DataType::float32;
  bool centred = false;
  bool bias = false;
  bool square_is_product = false;
  int root = 0;  ///< Div, Reciprocal, 1 / or Pow
  std::int64_t axis = -1;
};

ValueId spell(Spelling& s, const NormalizationForm& form, ValueId x) {
  const auto inner = [&](ValueId value) {
    return form.inner == form.type ? value : s.cast(value, form.inner);
  };
  ValueId base = x;
  if (form.centred) base = s.binary("Sub", x, s.mean(x));
  base = inner(base);
  const ValueId square = form.square_is_product ? s.binary("Mul", base, base)
                                                : s.binary("Pow", base, s.number(2, form.inner));
  const ValueId variance = s.either("Add", s.mean(square, form.axis), s.number(1e-5, form.inner));
  ValueId normal = graph::no_value;
  if (form.root == 0)
    normal = s.binary("Div", base, s.unary("Sqrt", variance));
  else if (form.root == 1)
    normal = s.either("Mul", base, s.unary("Reciprocal", s.unary("Sqrt", variance)));
  else if (form.root == 2)
    normal =
        s.either("Mul", base, s.binary("Div", s.number(1, form.inner), s.unary("Sqrt", variance)));
  else
    normal = s.either("Mul", base, s.binary("Pow", variance, s.number(-0.5, form.inner)));
  if (form.inner != form.type) normal = s.cast(normal, form.type);
  const ValueId scaled = s.either("Mul", normal, s.weight({8}, form.type));
  return form.bias ? s.either("Add", scaled, s.weight({8}, form.type)) : scaled;
}

const std::vector<Pass> normalizations = {passes::drop_identities, passes::fuse_normalizations};

TEST_CASE("Normalisations are recognised in every spelling") {
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    for (const bool centred : {false, true})
      for (const bool bias : {false, centred})
        for (const bool product : {false, true})
          for (const int root : {0, 1, 2, 3}) {
            const bool widest = type == DataType::float16 && centred;  // as TorchScript does it
            Spelling s;
            const ValueId x = s.in("x", {3, 5, 8}, type);
            s.ends(spell(s,
                         {type, widest ? DataType::float64 : DataType::float32, centred, bias,
                          product, root},
                         x));
            const Graph fused = after(s.graph, normalizations);
            CAPTURE(name_of(type), centred, bias, product, root);
            const auto& node = only(fused, centred ? "LayerNormalization" : "RMSNormalization");
            CHECK(fused.nodes.size() == 1);
            CHECK(node.inputs.size() == (bias ? 3U : 2U));
            CHECK(node.float_attribute("epsilon", 0) == Approx(1e-5));
          }
}

TEST_CASE("RMSNormalization takes no bias in: what is added behind it stays an Add") {
  Spelling s;
  s.ends(spell(s, {.bias = true}, s.in("x", {3, 5, 8})));
  const Graph fused = after(s.graph, normalizations);
  CHECK(only(fused, "RMSNormalization").inputs.size() == 2);
  CHECK(count(fused, "Add") == 1);
}

TEST_CASE("What only resembles a normalisation stays as it is") {
  const auto fuses = [](const std::function<void(Spelling&, ValueId)>& write) {
    Spelling s;
    write(s, s.in("x", {3, 8, 8}));
    const Graph fused = after(s.graph, normalizations);
    return count(fused, "LayerNormalization") + count(fused, "RMSNormalization");
  };
  CHECK(fuses([](Spelling& s, ValueId x) { s.ends(spell(s, {}, x)); }) == 1);
  CHECK(fuses([](Spelling& s, ValueId x) { s.ends(spell(s, {.axis = 1}, x)); }) == 0);
  CHECK(fuses([](Spelling& s, ValueId x) {  // the mean is read by others
          s.ends(spell(s, {}, x));
          s.ends(s.graph.nodes[1].outputs[0]);
        }) == 0);
  CHECK(fuses([](Spelling& s, ValueId x) {  // epsilon is no constant
          const ValueId squares = s.mean(s.binary("Mul", x, x));
          const ValueId sum = s.binary("Add", squares, s.unary("Abs", s.in("epsilon", {})));
          s.ends(s.binary("Mul", s.binary("Div", x, s.unary("Sqrt", sum)), s.weight({8}, s.type)));
        }) == 0);
  CHECK(fuses([](Spelling& s, ValueId x) {  // the variance is another value's
          const ValueId y = s.unary("Sin", x);
          const ValueId sum = s.binary("Add", s.mean(s.binary("Mul", y, y)), s.number(1, s.type));
          s.ends(s.binary("Mul", s.binary("Div", x, s.unary("Sqrt", sum)), s.weight({8}, s.type)));
        }) == 0);
  CHECK(fuses([](Spelling& s, ValueId x) {  // the power is no square
          const ValueId squares = s.binary("Pow", s.unary("Abs", x), s.number(2.00001, s.type));
          const ValueId sum = s.binary("Add", s.mean(squares), s.number(1, s.type));
          s.ends(s.binary("Mul", s.binary("Div", x, s.unary("Sqrt", sum)), s.weight({8}, s.type)));
        }) == 0);
  CHECK(fuses([](Spelling& s, ValueId) {  // of integers
          s.type = DataType::int32;
          const ValueId x = s.in("i", {3, 8});
          const ValueId sum = s.binary("Add", s.mean(s.binary("Mul", x, x)), s.number(1, s.type));
          const ValueId root = s.binary("Pow", sum, s.number(0.5, DataType::float32));
          s.ends(s.binary("Mul", s.binary("Div", x, root), s.weight({8}, s.type)));
        }) == 0);
  for (const bool centred : {false, true}) {  // what is averaged has been rounded
    CHECK(fuses([&](Spelling& s, ValueId x) {
            const auto rounded = [&](ValueId value) {
              return s.cast(s.cast(value, DataType::float16), s.type);
            };
            const ValueId base = centred ? s.binary("Sub", x, s.mean(rounded(x))) : x;
            const ValueId square = centred ? base : rounded(base);
            const ValueId sum =
                s.binary("Add", s.mean(s.binary("Mul", square, square)), s.number(1, s.type));
            const ValueId normal = s.binary("Div", base, s.unary("Sqrt", sum));
            s.ends(s.binary("Mul", normal, s.weight({8}, s.type)));
          }) == (centred ? 1 : 0));
  }
  CHECK(
      fuses([](Spelling& s, ValueId x) {  // one scale for each row
        const ValueId sum = s.binary("Add", s.mean(s.binary("Mul", x, x)), s.number(1, s.type));
        s.ends(s.binary("Mul", s.binary("Div", x, s.unary("Sqrt", sum)), s.weight({8, 1}, s.type)));
      }) == 0);
}

}  // namespace
}  // namespace autopar::runtime
