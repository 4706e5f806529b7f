#include "graph/onnx/einsum_equation.h"

#include "unit/graph/models.h"

using namespace autopar;
using namespace autopar::graph;
using Catch::Contains;

TEST_CASE("equations of letters, ellipses and spaces are taken", "[einsum]") {
  const std::vector<Shape> two = {{2, 3, 4}, {2, 4, 5}};
  CHECK_NOTHROW(check_einsum_equation("bij, bjk -> bik", two));
  CHECK_NOTHROW(check_einsum_equation("...ij,...jk", two));
  CHECK_NOTHROW(check_einsum_equation("...,...", std::vector<Shape>{{3, 1}, {4}}));
  CHECK_NOTHROW(check_einsum_equation("->", std::vector<Shape>{{}}));
  CHECK_NOTHROW(check_einsum_equation("...ii->...i", std::vector<Shape>{{7, 3, 3}}));
}

TEST_CASE("what is no equation is told", "[einsum]") {
  for (const char* text :
       {"i.j->ij", ". ii ->...i/", "ij-", "ij-:ji", "i..j", "i...j...", "ij->i->j", "ij>j", "i2",
        "ij,jk", "ij->iij", "ij->k", "ij->...", "ij->ij,"})
    CHECK_THROWS_WITH(check_einsum_equation(text, 1), Contains("its equation"));
}

TEST_CASE("an equation fits its operands' shapes", "[einsum]") {
  CHECK_THROWS_WITH(check_einsum_equation("ij,jk->ik", std::vector<Shape>{{2, 3}, {4, 5}}),
                    Contains("'j' of 'ij,jk->ik' is both 3 and 4"));
  CHECK_THROWS_WITH(check_einsum_equation("...,...", std::vector<Shape>{{3}, {4}}),
                    Contains("'...' of '...,...' is both"));
  CHECK_THROWS_WITH(check_einsum_equation("ijk", std::vector<Shape>{{3}}),
                    Contains("has 3 letters, its input is 3"));
  CHECK_NOTHROW(check_einsum_equation("ij,jk", std::vector<Shape>{{2, 1}, {4, 5}}));
}

TEST_CASE("ONNX's inference is not asked about what is no equation", "[einsum]") {
  for (const char* text : {"i.j->ij", "ij-"}) {
    auto model =
        parse_graph(18, R"((float[3, 4] x) => (float[A] y) { y = Einsum <equation = "ij"> (x) })");
    CHECK(has_einsum_equations(model));
    model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_s(text);
    CHECK_FALSE(has_einsum_equations(model));
    CHECK_THROWS_WITH(import(model), Contains("(Einsum)") && Contains("its equation"));
  }
}
