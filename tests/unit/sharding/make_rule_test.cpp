#include <catch2/catch.hpp>

#include "base/error.h"
#include "sharding/sharding_rule.h"

using namespace autopar::sharding;
using Dims = std::vector<std::vector<int>>;

namespace {

ShardingRule make(std::string_view text, std::vector<Shape> inputs, std::vector<Shape> outputs,
                  std::vector<FactorOptions> options = {}) {
  return make_rule(text, inputs, outputs, options);
}

const Factor& factor(const ShardingRule& rule, char letter) {
  for (const Factor& one : rule.factors) {
    if (one.letter == letter) return one;
  }
  FAIL("no factor " << letter);
  return rule.factors.front();
}

}  // namespace

TEST_CASE("a product's rule has its three factors") {
  const auto rule = make("mk,kn->mn", {{3, 4}, {4, 5}}, {{3, 5}}, {{'k', FactorKind::sum}});
  CHECK(factor(rule, 'm').size == 3);
  CHECK(factor(rule, 'k').size == 4);
  CHECK(factor(rule, 'n').size == 5);
  CHECK(factor(rule, 'k').kind == FactorKind::sum);
  CHECK(factor(rule, 'm').kind == FactorKind::spatial);
  CHECK(rule.inputs == std::vector<Dims>{{{0}, {1}}, {{1}, {2}}});
  CHECK(rule.outputs == std::vector<Dims>{{{0}, {2}}});
}

TEST_CASE("a broadcast dimension holds no factor") {
  const auto rule = make("ab,b,ab->ab", {{1, 5}, {1}, {3, 1}}, {{3, 5}});
  CHECK(rule.inputs == std::vector<Dims>{{{}, {1}}, {{}}, {{0}, {}}});
  CHECK(rule.outputs == std::vector<Dims>{{{0}, {1}}});
}

TEST_CASE("a dimension of size 1 and one that is not named hold no factor") {
  const auto rule = make("a1,->a1", {{1, 5}, {}}, {{1, 5}});
  CHECK(rule.inputs == std::vector<Dims>{{{}, {}}, {}});
  CHECK(factor(rule, 'a').size == 1);
}

TEST_CASE("an extent of zero is not taken for a broadcast one") {
  const auto rule = make("a,a->a", {{1}, {0}}, {{0}});
  CHECK(factor(rule, 'a').size == 0);
  CHECK(rule.inputs == std::vector<Dims>{{{}}, {{0}}});
}

TEST_CASE("sizes within a product are found from where the letters stand alone") {
  const auto rule = make("b(hd)->bhd", {{2, 12}}, {{2, 3, 4}});
  CHECK(factor(rule, 'h').size == 3);
  CHECK(factor(rule, 'd').size == 4);
  CHECK(rule.inputs == std::vector<Dims>{{{0}, {1, 2}}});
  // Also from another product, and through a chain of them.
  const auto chain = make("(ab)(bc),c->(ac)b", {{6, 10}, {5}}, {{15, 2}});
  CHECK(factor(chain, 'a').size == 3);
}

TEST_CASE("an option tells a size that no shape does") {
  const auto rule = make("b(hd)->b(hd)", {{2, 12}}, {{2, 12}}, {{.letter = 'h', .size = 3}});
  CHECK(factor(rule, 'd').size == 4);
}

TEST_CASE("a mean splits evenly") {
  const auto rule = make("ab->a", {{2, 4}}, {{2}}, {{'b', FactorKind::mean}});
  CHECK(factor(rule, 'b').even);
}

TEST_CASE("text and shapes that do not match are an internal error that shows both") {
  const auto refuses = [](std::string_view text, std::vector<Shape> in, std::vector<Shape> out) {
    CHECK_THROWS_WITH(make(text, in, out), Catch::Contains("'" + std::string(text) + "'"));
    CHECK_THROWS_AS(make(text, in, out), autopar::InternalError);
  };
  refuses("ab->ab", {{2, 3}}, {{2, 4}});        // sizes differ
  refuses("a->ab", {{2, 3}}, {{2, 3}});         // a dimension too few
  refuses("ab,a->ab", {{2, 3}}, {{2, 3}});      // a tensor too many
  refuses("ab", {{2, 3}}, {{2, 3}});            // no arrow
  refuses("a(bc->abc", {{2, 6}}, {{2, 2, 3}});  // parenthesis
  refuses("(ab)->(ab)", {{6}}, {{6}});          // no size for either
  refuses("(ab)->ab", {{7}}, {{2, 3}});         // no such product
  refuses("ab->a", {{2, 3}}, {{2}});            // b is reduced without saying how
  refuses("a?->a", {{2, 3}}, {{2}});            // no letter
}

TEST_CASE("a reshape's factors are the common divisors of both shapes") {
  const auto sizes = [](const Shape& input, const Shape& output) {
    const auto rule = make_reshape_rule(input, output);
    CHECK(rule.is_view);
    const auto side = [&](const Dims& dims) {
      std::string text;
      for (const auto& factors : dims) {
        text += '[';
        for (const int f : factors) {
          const Factor& one = rule.factors[static_cast<std::size_t>(f)];
          text += std::to_string(f) + ":" + std::to_string(one.size) +
                  (one.kind == FactorKind::whole ? "! " : " ");
        }
        if (!factors.empty()) text.pop_back();
        text += ']';
      }
      return text;
    };
    return side(rule.inputs.at(0)) + "->" + side(rule.outputs.at(0));
  };
  CHECK(sizes({1, 128, 768}, {1, 128, 12, 64}) == "[][0:128][1:12 2:64]->[][0:128][1:12][2:64]");
  CHECK(sizes({1, 128, 12, 64}, {128, 768}) == "[][0:128][1:12][2:64]->[0:128][1:12 2:64]");
  CHECK(sizes({2, 3, 4}, {24}) == "[0:2][1:3][2:4]->[0:2 1:3 2:4]");
  CHECK(sizes({4, 6}, {8, 3}) == "[0:4][1:2 2:3]->[0:4 1:2][2:3]");
  CHECK(sizes({6}, {6, 1}) == "[0:6]->[0:6][]");
  CHECK(sizes({1}, {}) == "[]->");
  CHECK(sizes({2, 3}, {3, 2}) == "[0:2!][2:3!]->[1:3!][3:2!]");
  CHECK(sizes({5, 2, 3, 7}, {5, 3, 2, 7}) == "[0:5][1:2!][3:3!][5:7]->[0:5][2:3!][4:2!][5:7]");
  CHECK(sizes({12, 2}, {8, 3}) == "[0:4 1:3!][4:2!]->[0:4 2:2!][3:3!]");
  CHECK(sizes({0, 3}, {3, 0}) == "[][]->[][]");
  CHECK_THROWS_AS(make_reshape_rule({2, 3}, {7}), autopar::InternalError);
}
