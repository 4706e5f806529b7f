// Einsum against a loop over all of its letters.

#include <map>

#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

namespace {

/// An equation that is written out: no ellipsis, letters with their extents.
struct Case {
  std::string equation;
  std::vector<std::string> terms;
  std::string out;
  std::vector<Shape> shapes;
};

std::vector<double> by_definition(const Case& c, const std::vector<Tensor>& operands) {
  std::map<char, std::int64_t> extents;
  for (std::size_t i = 0; i < c.terms.size(); ++i)
    for (std::size_t d = 0; d < c.terms[i].size(); ++d) {
      std::int64_t& extent = extents.try_emplace(c.terms[i][d], 1).first->second;
      extent = std::max(extent, c.shapes[i][d]);
      if (c.shapes[i][d] == 0) extent = 0;
    }
  std::string letters;
  Shape all;
  for (const auto& [letter, extent] : extents) {
    letters += letter;
    all.push_back(extent);
  }
  Shape out;
  for (const char letter : c.out) out.push_back(extents.at(letter));
  std::vector<double> result(static_cast<std::size_t>(graph::num_elements(out)), 0);
  for_each_index(all, [&](const Shape& index) {
    double product = 1;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      Shape place;
      for (const char letter : c.terms[i]) place.push_back(index[letters.find(letter)]);
      product *= at(operands[i], place);
    }
    std::int64_t to = 0;
    for (std::size_t d = 0; d < c.out.size(); ++d) to = to * out[d] + index[letters.find(c.out[d])];
    result[static_cast<std::size_t>(to)] += product;
  });
  return result;
}

Shape out_shape(const Case& c) {
  Shape out;
  for (const char letter : c.out) {
    std::int64_t extent = 1;
    for (std::size_t i = 0; i < c.terms.size(); ++i)
      for (std::size_t d = 0; d < c.terms[i].size(); ++d)
        if (c.terms[i][d] == letter && c.shapes[i][d] != 1) extent = c.shapes[i][d];
    out.push_back(extent);
  }
  return out;
}

const std::vector<Case> cases = {
    {"ij->ji", {"ij"}, "ji", {{3, 4}}},
    {"ij->", {"ij"}, "", {{3, 4}}},
    {"ij -> j", {"ij"}, "j", {{3, 4}}},
    {"ii->i", {"ii"}, "i", {{4, 4}}},
    {"ii", {"ii"}, "", {{4, 4}}},
    {"ba", {"ba"}, "ab", {{3, 4}}},
    {"ijij->ji", {"ijij"}, "ji", {{3, 4, 3, 4}}},
    {"...ii->...i", {"abii"}, "abi", {{2, 3, 4, 4}}},
    {"", {""}, "", {{}}},
    {",->", {"", ""}, "", {{}, {}}},
    {"i,i", {"i", "i"}, "", {{5}, {5}}},
    {"i,j->ij", {"i", "j"}, "ij", {{5}, {3}}},
    {"i,j->ji", {"i", "j"}, "ji", {{5}, {3}}},
    {"ij,jk", {"ij", "jk"}, "ik", {{3, 4}, {4, 5}}},
    {"ij,kj->ki", {"ij", "kj"}, "ki", {{3, 4}, {5, 4}}},
    {"ji,jk->ik", {"ji", "jk"}, "ik", {{4, 3}, {4, 5}}},
    {"bij,bjk->bik", {"bij", "bjk"}, "bik", {{2, 3, 4}, {2, 4, 5}}},
    {"...ij,...jk->...ik", {"bij", "bjk"}, "bik", {{2, 3, 4}, {2, 4, 5}}},
    {"...ij,...jk", {"abij", "bjk"}, "abik", {{2, 3, 3, 4}, {3, 4, 5}}},
    {"bshd,bthd->bhst", {"bshd", "bthd"}, "bhst", {{2, 3, 4, 5}, {2, 6, 4, 5}}},
    {"bhst,bthd->bshd", {"bhst", "bthd"}, "bshd", {{2, 4, 3, 6}, {2, 6, 4, 5}}},
    {"bij,bij->bij", {"bij", "bij"}, "bij", {{2, 3, 4}, {2, 3, 4}}},
    {"bij,ij->bj", {"bij", "ij"}, "bj", {{2, 3, 4}, {3, 4}}},
    {"ijk,jl->il", {"ijk", "jl"}, "il", {{3, 4, 2}, {4, 5}}},
    {"ij,jk,kl->il", {"ij", "jk", "kl"}, "il", {{3, 4}, {4, 5}, {5, 2}}},
    {"ij,jk,kl->li", {"ij", "jk", "kl"}, "li", {{3, 4}, {4, 5}, {5, 2}}},
    {"a,b,c->cab", {"a", "b", "c"}, "cab", {{2}, {3}, {4}}},
    {"ii,ij->j", {"ii", "ij"}, "j", {{4, 4}, {4, 3}}},
    {"ij,jk->ik", {"ij", "jk"}, "ik", {{3, 1}, {4, 5}}},  // 1 broadcasts
    {"bij,bjk->bik", {"bij", "bjk"}, "bik", {{1, 3, 4}, {2, 4, 5}}},
    {"ij,jk->ik", {"ij", "jk"}, "ik", {{3, 0}, {0, 5}}},  // sums of nothing
    {"ij,jk->ik", {"ij", "jk"}, "ik", {{0, 4}, {4, 5}}}};

}  // namespace

TEST_CASE("Einsum equals its definition, in every type") {
  Random random(1);
  for (const Case& c : cases)
    for (const DataType type : {DataType::float32, DataType::float64, DataType::float16,
                                DataType::bfloat16, DataType::int32, DataType::int64}) {
      std::vector<Tensor> operands;
      std::vector<std::optional<Tensor>> inputs;
      for (const Shape& shape : c.shapes) {
        operands.push_back(random_in(type, shape, random, -3, 4));
        inputs.emplace_back(operands.back());
      }
      CAPTURE(c.equation, name_of(type));
      check_close(
          run_node({"Einsum", {{"equation", c.equation}}, inputs, {{type, out_shape(c)}}}).front(),
          by_definition(c, operands), 20);
    }
}

TEST_CASE("Equations that do not fit are an error that names the node") {
  const Tensor x = Tensor::zeros(DataType::float32, {3, 4});
  const auto run = [&](const char* equation, std::vector<std::optional<Tensor>> inputs) {
    run_node({"Einsum",
              {{"equation", std::string(equation)}},
              std::move(inputs),
              {{DataType::float32, {3, 4}}}});
  };
  for (const char* equation :
       {"ijk->ij", "ij,jk->ik", "i->i", "ij->ik", "i...j...->ij", "i.j->ij", "ij->ii"})
    CHECK_THROWS_WITH(run(equation, {x}), Catch::Contains("the_node"));
  CHECK_THROWS_WITH(run("ij,jk->ik", {x, x}), Catch::Contains("the_node"));
}
