#include "unit/graph/contrib/operator_call.h"

using namespace autopar::graph;

namespace {

const char* const ms = "com.microsoft";

}  // namespace

OPERATOR_TEST("com.microsoft", "Gelu", "x times the normal distribution's share below x") {
  const Array x = Draw().numbers({3, 5});
  check(Call(ms, "Gelu").in(x).result(), map(x, gelu));
}

OPERATOR_TEST("com.microsoft", "FastGelu", "the approximation by tanh, of x and a bias") {
  Draw draw;
  const Array x = draw.numbers({3, 5});
  const Array bias = draw.numbers({5});
  check(Call(ms, "FastGelu").in(x).result(), map(x, tanh_gelu));
  check(Call(ms, "FastGelu").in(x).in(bias).result(), map(sum(x, bias), tanh_gelu));
}

OPERATOR_TEST("com.microsoft", "BiasGelu", "Gelu of a sum") {
  Draw draw;
  const Array x = draw.numbers({3, 5});
  const Array bias = draw.numbers({5});
  check(Call(ms, "BiasGelu").in(x).in(bias).result(), map(sum(x, bias), gelu));
}

OPERATOR_TEST("com.microsoft", "QuickGelu", "x sigmoid(alpha x)") {
  const Array x = Draw().numbers({3, 5});
  check(Call(ms, "QuickGelu").in(x).result(),
        map(x, [](double value) { return value * sigmoid(1.702 * value); }));
  check(Call(ms, "QuickGelu").in(x).set("alpha", 0.5F).result(),
        map(x, [](double value) { return value * sigmoid(0.5 * value); }));
}

OPERATOR_TEST("com.microsoft", "BiasSplitGelu", "the first half times Gelu of the second") {
  Draw draw;
  const Array x = draw.numbers({2, 3, 8});
  const Array bias = draw.numbers({8});
  const Array all = sum(x, bias);
  Array expected({2, 3, 4});
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t s = 0; s < 3; ++s)
      for (std::int64_t h = 0; h < 4; ++h)
        expected(b, s, h) = all(b, s, h) * gelu(all(b, s, h + 4));
  check(Call(ms, "BiasSplitGelu").in(x).in(bias).result(), expected);
}

OPERATOR_TEST("com.microsoft", "BiasAdd", "the sum of three") {
  Draw draw;
  const Array x = draw.numbers({2, 3, 8});
  const Array bias = draw.numbers({8});
  const Array skip = draw.numbers({2, 3, 8});
  check(Call(ms, "BiasAdd").in(x).in(bias).in(skip).result(), sum(sum(x, bias), skip));
}
