// The operators of graph/own_operators.h against loops in double.

#include "graph/own_operators.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "unit/runtime/loops.h"

namespace autopar::runtime::testing {
namespace {

using graph::TreeMode;

/// Two trees over two features, the second one a leaf alone; what a row's votes are, told apart.
struct Trees {
  Tensor features = tensor_of(DataType::int32, {2, 5}, {0, 0, 1, 0, 0, 0, 0, 0, 0, 0});
  Tensor splits;
  Tensor modes;
  Tensor branches = tensor_of(DataType::int32, {2, 5, 2},
                              {2, 1, 0, 2, 3, 4, 2, 1, 3, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  Tensor targets = tensor_of(DataType::int32, {2, 4}, {0, 1, 1, 0, 1, 0, 0, 0});
  Tensor weights;

  Trees(DataType type, TreeMode first, TreeMode second)
      : splits(tensor_of(type, {2, 5}, {1, 0, 2, 0, 0, 0, 0, 0, 0, 0})),
        modes(
            tensor_of(DataType::uint8, {2, 5},
                      {static_cast<double>(first), 6,
                       static_cast<double>(second) + graph::missing_is_true, 6, 6, 6, 6, 6, 6, 6})),
        weights(tensor_of(type, {2, 4}, {1, 2, -3, 5, 0.5, 0, 0, 0})) {}

  NodeRun run(const Tensor& x, const std::string& aggregate) const {
    NodeRun node{"TreeSums",
                 {{"n_targets", std::int64_t{2}}, {"aggregate", aggregate}},
                 {x, features, splits, modes, branches, targets, weights},
                 {{x.type(), {x.shape()[0], 2}}}};
    node.domain = graph::own_domain;
    return node;
  }
};

bool is_true(TreeMode mode, double x, double split) {
  const std::map<TreeMode, bool> answers = {
      {TreeMode::less_equal, x <= split},    {TreeMode::less, x < split},
      {TreeMode::greater_equal, x >= split}, {TreeMode::greater, x > split},
      {TreeMode::equal, x == split},         {TreeMode::not_equal, x != split}};
  return answers.at(mode);
}

/// Both votes of the first tree's leaf for a row, and the second tree's 0.5 for target 1.
std::vector<double> votes_of(TreeMode first, TreeMode second, double x0, double x1,
                             const std::string& aggregate) {
  std::vector<std::pair<int, double>> votes;
  if (!is_true(first, x0, 1))
    votes = {{0, 1}, {1, 2}};
  else if (x1 != x1 || is_true(second, x1, 2))
    votes = {{1, -3}};
  else
    votes = {{0, 5}};
  votes.emplace_back(1, 0.5);
  std::vector<double> result;
  for (const int target : {0, 1}) {
    std::vector<double> own;
    for (const auto& [of, weight] : votes)
      if (of == target) own.push_back(weight);
    double value = 0;
    if (!own.empty() && aggregate == "MIN") value = *std::ranges::min_element(own);
    if (!own.empty() && aggregate == "MAX") value = *std::ranges::max_element(own);
    if (aggregate == "SUM") value = std::accumulate(own.begin(), own.end(), 0.0);
    result.push_back(value);
  }
  return result;
}

TEST_CASE("TreeSums goes down every kind of branch, where numbers are missing, too") {
  const double nan = std::nan("");
  const std::vector<double> numbers = {0, 2, 1, 1, 1, 2, 2, 3, 0, nan, 2, nan, nan, 2, nan, nan};
  for (const DataType type : {DataType::float32, DataType::float64})
    for (int first = 0; first < 6; ++first)
      for (int second = 0; second < 6; ++second)
        for (const std::string aggregate : {"SUM", "MIN", "MAX"}) {
          const auto one = static_cast<TreeMode>(first);
          const auto two = static_cast<TreeMode>(second);
          std::vector<double> expected;
          for (std::size_t row = 0; row < numbers.size(); row += 2) {
            const auto own = votes_of(one, two, numbers[row], numbers[row + 1], aggregate);
            expected.insert(expected.end(), own.begin(), own.end());
          }
          CAPTURE(name_of(type), first, second, aggregate);
          const Tensor x = tensor_of(type, {8, 2}, numbers);
          check_close(run_node(Trees(type, one, two).run(x, aggregate)).front(), expected);
        }
}

TEST_CASE("TreeSums whose tables do not fit is an error that names the node") {
  Trees trees(DataType::float32, TreeMode::less, TreeMode::less);
  trees.branches = Tensor::zeros(DataType::int32, {2, 4, 2});
  const Tensor x = Tensor::zeros(DataType::float32, {1, 2});
  CHECK_THROWS_WITH(run_node(trees.run(x, "SUM")), Catch::Contains("the_node"));
}

struct Experts {
  std::int64_t rows = 5;
  std::int64_t depth = 64;
  std::int64_t columns = 6;
  std::int64_t block = 16;  ///< 0: one for all
  std::int64_t bits = 4;
  bool has_zeros = false;
  DataType type = DataType::float32;
  int threads = 1;
};

/// Experts 0 to 2, and rows of none.
void check_experts(const Experts& of, Random& random) {
  constexpr std::int64_t experts = 3;
  const std::int64_t block = of.block > 0 ? of.block : of.depth;
  const std::int64_t blocks = (of.depth + block - 1) / block;
  const std::int64_t bytes = of.depth * of.bits / 8;
  const std::int64_t zero_bytes = (blocks * of.bits + 7) / 8;
  const Tensor a = random_floats(random, {of.rows, of.depth}, of.type);
  const Tensor b = random_in(DataType::uint8, {experts, of.columns, bytes}, random, 0, 255.999);
  const Tensor scales = random_floats(random, {experts, of.columns, blocks}, of.type);
  const Tensor zeros =
      random_in(DataType::uint8, {experts, of.columns, zero_bytes}, random, 0, 255.999);
  const Tensor bias = random_floats(random, {experts, of.columns}, of.type);
  std::vector<double> indices;
  for (std::int64_t r = 0; r < of.rows; ++r) indices.push_back(static_cast<double>(r * 7 % 5 - 1));
  const auto packed = [&](const Tensor& tensor, std::int64_t row, std::int64_t row_bytes,
                          std::int64_t i) {
    const auto byte = static_cast<std::int64_t>(
        number_at(tensor, static_cast<std::size_t>(row * row_bytes + i * of.bits / 8)));
    return static_cast<double>((byte >> (i * of.bits % 8)) & ((std::int64_t{1} << of.bits) - 1));
  };
  std::vector<double> expected;
  double magnitude = 1;
  for (std::int64_t r = 0; r < of.rows; ++r)
    for (std::int64_t n = 0; n < of.columns; ++n) {
      const auto expert = static_cast<std::int64_t>(indices[static_cast<std::size_t>(r)]);
      const bool is_there = expert >= 0 && expert < experts;
      double sum = is_there ? at(bias, {expert, n}) : 0;
      double absolute = 0;
      for (std::int64_t k = 0; is_there && k < of.depth; ++k) {
        const std::int64_t row = expert * of.columns + n;
        const double zero =
            of.has_zeros ? packed(zeros, row, zero_bytes, k / block) : std::pow(2, of.bits - 1);
        const double q = packed(b, row, bytes, k);
        const double factor = at(a, {r, k}) * at(scales, {expert, n, k / block});
        sum += factor * (q - zero);
        absolute += std::abs(factor * std::max(q, zero));
      }
      expected.push_back(sum);
      magnitude = std::max(magnitude, absolute);
    }
  NodeRun node{"ExpertMatMulNBits",
               {{"bits", of.bits}, {"block_size", of.block}},
               {a, tensor_of(DataType::int64, {of.rows}, indices), b, scales,
                of.has_zeros ? std::optional(zeros) : std::nullopt, bias},
               {{of.type, {of.rows, of.columns}}}};
  node.domain = graph::own_domain;
  node.threads = of.threads;
  CAPTURE(name_of(of.type), of.rows, of.depth, of.columns, of.block, of.bits, of.has_zeros);
  check_close(run_node(node).front(), expected, of.type == DataType::float32 ? magnitude : 1);
}

TEST_CASE("ExpertMatMulNBits of every width, block and number of rows equals a loop") {
  Random random(81);
  for (const std::int64_t bits : {2, 4, 8})
    for (const std::int64_t block : {0, 16, 32})
      for (const bool has_zeros : {false, true})
        for (const std::int64_t rows : {1, 5, 40})
          check_experts({.rows = rows, .block = block, .bits = bits, .has_zeros = has_zeros},
                        random);
  check_experts({.rows = 0}, random);
  check_experts({.rows = 300, .depth = 72, .block = 16, .threads = 3}, random);
  check_experts({.depth = 6, .block = 0, .bits = 8}, random);
}

TEST_CASE("ExpertMatMulNBits of half types equals a loop") {
  Random random(82);
  for (const DataType type : {DataType::float16, DataType::bfloat16})
    check_experts({.rows = 9, .has_zeros = true, .type = type}, random);
}

}  // namespace
}  // namespace autopar::runtime::testing
