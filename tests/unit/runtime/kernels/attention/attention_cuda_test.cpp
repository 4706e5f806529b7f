// Attention in tiles against a loop in double.

#include "runtime/kernels/cuda_operators.h"

#include <algorithm>
#include <functional>

#include "unit/runtime/loops.h"

namespace autopar::runtime::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Case {
  std::int64_t batches = 1;
  std::int64_t heads = 2;
  std::int64_t key_heads = 2;
  std::int64_t queries = 5;
  std::int64_t keys = 5;
  std::int64_t depth = 16;
  std::int64_t value_depth = 16;
  DataType type = DataType::float16;
  bool causal = false;
  std::optional<Tensor> mask = {};
  bool nan_to_zero = false;
  bool sequence_first = false;  ///< stored as [batch, sequence, head, depth]
};

/// Element [b, h, row, column] of a tensor stored either way.
double element(const Case& of, const Tensor& tensor, std::int64_t b, std::int64_t h,
               std::int64_t row, std::int64_t column) {
  return at(tensor, of.sequence_first ? Shape{b, row, h, column} : Shape{b, h, row, column});
}

double mask_at(const Tensor& mask, Shape index) {
  index.erase(index.begin(), index.end() - static_cast<std::ptrdiff_t>(mask.shape().size()));
  for (std::size_t d = 0; d < index.size(); ++d)
    if (mask.shape()[d] == 1) index[d] = 0;
  return at(mask, index);
}

constexpr double scale = 0.25;
constexpr double fill = -9.0;

std::vector<double> attention(const Case& of, const Tensor& q, const Tensor& k, const Tensor& v) {
  std::vector<double> result;
  const auto row = [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t g = h / (of.heads / of.key_heads);
    std::vector<double> scores;
    for (std::int64_t j = 0; j < of.keys; ++j) {
      double score = 0;
      for (std::int64_t d = 0; d < of.depth; ++d)
        score += element(of, q, b, h, i, d) * element(of, k, b, g, j, d);
      score *= scale;
      if (of.mask && of.mask->type() == DataType::boolean)
        score = mask_at(*of.mask, {b, h, i, j}) != 0 ? score : fill;
      else if (of.mask)
        score += mask_at(*of.mask, {b, h, i, j});
      if (of.causal && j > i + of.keys - of.queries) score = -infinity;
      scores.push_back(score);
    }
    const double largest = scores.empty() ? 0 : *std::ranges::max_element(scores);
    double sum = 0;
    for (double& score : scores) {
      score = std::exp(score - largest);
      sum += score;
    }
    for (std::int64_t e = 0; e < of.value_depth; ++e) {
      double mixed = 0;
      for (std::int64_t j = 0; j < of.keys; ++j)
        mixed += scores[static_cast<std::size_t>(j)] / sum * element(of, v, b, g, j, e);
      result.push_back(of.nan_to_zero && !(sum > 0) ? 0 : mixed);
    }
  };
  for (std::int64_t b = 0; b < of.batches; ++b) {
    if (of.sequence_first) {
      for (std::int64_t i = 0; i < of.queries; ++i)
        for (std::int64_t h = 0; h < of.heads; ++h) row(b, h, i);
    } else {
      for (std::int64_t h = 0; h < of.heads; ++h)
        for (std::int64_t i = 0; i < of.queries; ++i) row(b, h, i);
    }
  }
  return result;
}

NodeRun node_of(const Case& of, const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto shape = [&](std::int64_t heads, std::int64_t rows, std::int64_t columns) {
    return of.sequence_first ? Shape{of.batches, rows, heads, columns}
                             : Shape{of.batches, heads, rows, columns};
  };
  NodeRun node{"Attention",
               {{"scale", static_cast<float>(scale)},
                {"causal", std::int64_t{of.causal ? 1 : 0}},
                {"nan_to_zero", std::int64_t{of.nan_to_zero ? 1 : 0}}},
               {q, k, v},
               {{of.type, shape(of.heads, of.queries, of.value_depth)}}};
  node.domain = "autopar.internal";
  if (of.mask) {
    node.inputs.emplace_back(*of.mask);
    if (of.mask->type() == DataType::boolean) node.attributes["fill"] = static_cast<float>(fill);
  }
  if (of.sequence_first)
    for (const char* name : {"q_perm", "k_perm", "v_perm", "out_perm"})
      node.attributes[name] = std::vector<std::int64_t>{0, 2, 1, 3};
  return node;
}

void check_case(const Case& of, Random& random) {
  const auto tensor = [&](std::int64_t heads, std::int64_t rows, std::int64_t columns) {
    return random_floats(random,
                         of.sequence_first ? Shape{of.batches, rows, heads, columns}
                                           : Shape{of.batches, heads, rows, columns},
                         of.type);
  };
  const Tensor q = tensor(of.heads, of.queries, of.depth);
  const Tensor k = tensor(of.key_heads, of.keys, of.depth);
  const Tensor v = tensor(of.key_heads, of.keys, of.value_depth);
  const Tensor out = run_node(node_of(of, q, k, v)).front();
  const std::vector<double> expected = attention(of, q, k, v);
  const std::vector<double> values = doubles(out);
  REQUIRE(values.size() == expected.size());
  CAPTURE(name_of(of.type), of.heads, of.key_heads, of.queries, of.keys, of.depth, of.value_depth,
          of.causal, of.sequence_first);
  // Probabilities are rounded before they meet the values.
  const double tolerance = 2 * tolerance_of(of.type);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i]))
      REQUIRE(std::isnan(values[i]));
    else
      REQUIRE(values[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
  }
}

TEST_CASE("Attention of every depth, odd lengths and grouped heads equals a loop") {
  Random random(21);
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    for (const std::int64_t depth : {8, 32, 40, 64, 96, 128, 136, 256})
      check_case({.queries = 17, .keys = 33, .depth = depth, .value_depth = depth, .type = type},
                 random);
    check_case({.batches = 2, .heads = 6, .key_heads = 2, .queries = 3, .keys = 70, .type = type},
               random);
    check_case({.heads = 4, .key_heads = 1, .depth = 24, .value_depth = 64, .type = type}, random);
    check_case({.heads = 1, .key_heads = 1, .queries = 1, .keys = 1, .type = type}, random);
  }
}

TEST_CASE("Attention walks over many tiles of queries and keys, causally or not, in both layouts") {
  Random random(22);
  for (const bool sequence_first : {false, true}) {
    for (const bool causal : {false, true}) {
      check_case({.queries = 150, .keys = 150, .causal = causal, .sequence_first = sequence_first},
                 random);
      check_case({.queries = 10,
                  .keys = 140,
                  .depth = 136,
                  .value_depth = 136,
                  .causal = causal,
                  .sequence_first = sequence_first},
                 random);
    }
  }
}

TEST_CASE("Attention whose keys are shared by several blocks equals a loop") {
  Random random(27);
  for (const DataType type : {DataType::float16, DataType::bfloat16}) {
    for (const std::int64_t depth : {24, 64, 128, 256})
      check_case({.heads = 6,
                  .queries = 1,
                  .keys = 700,
                  .depth = depth,
                  .value_depth = depth,
                  .type = type},
                 random);
    for (const bool causal : {false, true})
      check_case({.batches = 2,
                  .heads = 8,
                  .key_heads = 2,
                  .queries = 9,
                  .keys = 401,
                  .depth = 64,
                  .value_depth = 32,
                  .type = type,
                  .causal = causal,
                  .sequence_first = true},
                 random);
    // Splits that nobody sees, and rows that see nothing.
    check_case({.queries = 300, .keys = 280, .type = type, .causal = true}, random);
    check_case({.queries = 300, .keys = 280, .type = type, .causal = true, .nan_to_zero = true},
               random);
  }
  for (const DataType mask_type : {DataType::boolean, DataType::float32, DataType::bfloat16})
    check_case({.batches = 2,
                .heads = 4,
                .key_heads = 2,
                .queries = 3,
                .keys = 400,
                .type = DataType::bfloat16,
                .mask = random_in(mask_type, {2, 1, 3, 400}, random, -2, 2)},
               random);
}

TEST_CASE("Attention of many matrices, with two tiles of rows a warp, equals a loop") {
  Random random(28);
  for (const DataType type : {DataType::float16, DataType::bfloat16})
    for (const std::int64_t depth : {32, 64, 128})
      check_case({.batches = 12,
                  .heads = 22,
                  .key_heads = 11,
                  .queries = 33,
                  .keys = 5,
                  .depth = depth,
                  .value_depth = depth,
                  .type = type,
                  .sequence_first = depth == 32},
                 random);
  check_case({.batches = 12,
              .heads = 11,
              .key_heads = 11,
              .queries = 70,
              .keys = 70,
              .causal = true,
              .mask = random_in(DataType::float16, {70, 70}, random, -2, 2)},
             random);
}

TEST_CASE("Queries before the first key of causal attention see nothing") {
  Random random(23);
  check_case({.queries = 80, .keys = 10, .causal = true}, random);
  check_case({.queries = 80, .keys = 10, .causal = true, .nan_to_zero = true}, random);
}

TEST_CASE("Attention under masks of every kind and shape equals a loop") {
  Random random(24);
  for (const Shape& shape : {Shape{2, 3, 20, 70}, Shape{2, 1, 1, 70}, Shape{1, 1, 20, 70},
                             Shape{20, 70}, Shape{2, 1, 20, 1}}) {
    for (const DataType mask_type : {DataType::boolean, DataType::float32, DataType::bfloat16}) {
      for (const bool causal : {false, true})
        check_case({.batches = 2,
                    .heads = 3,
                    .key_heads = 3,
                    .queries = 20,
                    .keys = 70,
                    .type = DataType::bfloat16,
                    .causal = causal,
                    .mask = random_in(mask_type, shape, random, -2, 2)},
                   random);
    }
  }
}

TEST_CASE("Keys that a mask hides with the lowest number or infinity get nothing") {
  Random random(25);
  for (const double hidden : {-infinity, -3.4028234663852886e38}) {
    std::vector<double> mask(70, 0);
    for (std::size_t i = 30; i < 70; ++i) mask[i] = hidden;
    check_case({.keys = 70, .mask = tensor_of(DataType::float32, {70}, mask)}, random);
    // Hidden altogether: equally much from all, or NaN, as Softmax.
    const std::vector<double> all(70, hidden);
    const Case nothing{.keys = 70, .mask = tensor_of(DataType::float32, {70}, all)};
    const Tensor ones =
        tensor_of(DataType::float16, {1, 2, 70, 16}, std::vector<double>(2 * 70 * 16, 1));
    const Tensor q =
        tensor_of(DataType::float16, {1, 2, 5, 16}, std::vector<double>(2 * 5 * 16, 1));
    for (const double value : doubles(run_node(node_of(nothing, q, ones, ones)).front()))
      CHECK((std::isinf(hidden) ? std::isnan(value) : value == Approx(1).epsilon(1e-3)));
  }
}

TEST_CASE("NaN in a value reaches rows that see it, whichever block reads it, and no others") {
  constexpr std::int64_t keys = 600;
  Random random(29);
  const auto zeros = [](std::int64_t rows) {
    return tensor_of(DataType::float16, {1, 1, rows, 16},
                     std::vector<double>(static_cast<std::size_t>(rows) * 16, 0));
  };
  std::vector<double> values(keys * 16, 1);
  values[500 * 16 + 3] = std::numeric_limits<double>::quiet_NaN();
  const Tensor v = tensor_of(DataType::float16, {1, 1, keys, 16}, values);
  std::vector<double> mask(keys, 0);
  const auto first_row = [&] {
    const Case of{.heads = 1,
                  .key_heads = 1,
                  .queries = 1,
                  .keys = keys,
                  .mask = tensor_of(DataType::float32, {keys}, mask)};
    return doubles(run_node(node_of(of, zeros(1), zeros(keys), v)).front());
  };
  std::vector<double> seen = first_row();
  CHECK(std::isnan(seen[3]));
  CHECK(seen[4] == Approx(1).epsilon(1e-3));
  mask[500] = -infinity;
  seen = first_row();
  CHECK(seen[3] == Approx(1).epsilon(1e-3));
}

TEST_CASE("NaN makes its row of attention NaN, no other") {
  Case of{.heads = 1, .key_heads = 1, .queries = 20, .keys = 20};
  std::vector<double> values(20 * 16, 0.5);
  const Tensor plain = tensor_of(of.type, {1, 1, 20, 16}, values);
  values[3 * 16 + 5] = std::numeric_limits<double>::quiet_NaN();
  const Tensor q = tensor_of(of.type, {1, 1, 20, 16}, values);
  const auto out = doubles(run_node(node_of(of, q, plain, plain)).front());
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::isnan(out[i]) == (i / 16 == 3));
}

/// A mask of this kind that hides the keys for which `hides(query, key)` holds.
enum class Hiding { causal, boolean, float32, half };
Case hiding_case(Hiding hiding, DataType type, std::int64_t queries, std::int64_t keys,
                 std::int64_t depth, const std::function<bool(std::int64_t, std::int64_t)>& hides) {
  Case of{.heads = 1, .key_heads = 1, .queries = queries, .keys = keys, .depth = depth};
  of.value_depth = depth;
  of.type = type;
  of.causal = hiding == Hiding::causal;
  if (of.causal) return of;
  const bool is_boolean = hiding == Hiding::boolean;
  std::vector<double> mask;
  for (std::int64_t i = 0; i < queries; ++i)
    for (std::int64_t j = 0; j < keys; ++j)
      mask.push_back(is_boolean ? !hides(i, j) : (hides(i, j) ? -infinity : 0.25));
  const DataType mask_type = is_boolean                  ? DataType::boolean
                             : hiding == Hiding::float32 ? DataType::float32
                                                         : type;
  of.mask = tensor_of(mask_type, {queries, keys}, mask);
  return of;
}

/// `number` in some columns of the keys or values that `is_odd(key)`.
Tensor with_odd_rows(const Tensor& tensor, double number,
                     const std::function<bool(std::int64_t)>& is_odd) {
  std::vector<double> values = doubles(tensor);
  const std::int64_t columns = tensor.shape().back();
  for (std::int64_t key = 0; key < tensor.shape()[2]; ++key)
    for (std::int64_t e = 0; e < columns; e += 3)
      if (is_odd(key)) values[static_cast<std::size_t>(key * columns + e)] = number;
  return tensor_of(tensor.type(), tensor.shape(), values);
}

/// Attends each query to the keys that it sees alone, in double: keys that it does not see are not
/// even read.
std::vector<double> attention_of_seen(
    const Case& of, const Tensor& q, const Tensor& k, const Tensor& v,
    const std::function<bool(std::int64_t, std::int64_t)>& hides) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < of.queries; ++i) {
    std::vector<std::pair<std::int64_t, double>> seen;
    for (std::int64_t j = 0; j < of.keys; ++j) {
      if (hides(i, j)) continue;
      double score = 0;
      for (std::int64_t d = 0; d < of.depth; ++d)
        score += at(q, {0, 0, i, d}) * at(k, {0, 0, j, d});
      seen.emplace_back(j, score * scale);
    }
    double largest = -infinity;
    for (const auto& [j, score] : seen) largest = std::max(largest, score);
    double sum = 0;
    for (auto& [j, score] : seen) sum += score = std::exp(score - largest);
    for (std::int64_t e = 0; e < of.value_depth; ++e) {
      double mixed = 0;
      for (const auto& [j, share] : seen) mixed += share / sum * at(v, {0, 0, j, e});
      result.push_back(mixed);
    }
  }
  return result;
}

void check_numbers(const std::vector<double>& actual, const std::vector<double>& expected,
                   DataType type) {
  REQUIRE(actual.size() == expected.size());
  const double tolerance = 2 * tolerance_of(type);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i, actual[i], expected[i]);
    if (std::isnan(expected[i]))
      REQUIRE(std::isnan(actual[i]));
    else if (std::isinf(expected[i]))
      REQUIRE(actual[i] == expected[i]);
    else
      REQUIRE(actual[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
  }
}

TEST_CASE("Values of keys that nobody sees, or not this query, do not reach what it gets") {
  Random random(27);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [queries, keys, depth] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t>{20, 20, 16},
        {5, 150, 24},
        {150, 150, 16},
        {9, 70, 136}}) {
    for (const DataType type : {DataType::float16, DataType::bfloat16}) {
      for (const Hiding hiding : {Hiding::causal, Hiding::boolean, Hiding::float32, Hiding::half}) {
        const bool is_causal = hiding == Hiding::causal;
        // Some keys are hidden from all, and some from every second query.
        const std::int64_t begin = keys / 2;
        const auto hides = [&, keys = keys, queries = queries](std::int64_t i, std::int64_t j) {
          if (is_causal) return j > i + keys - queries;
          return j >= begin && (j % 5 == 0 || i % 2 == 0);
        };
        const Case of = hiding_case(hiding, type, queries, keys, depth, hides);
        CAPTURE(queries, keys, depth, name_of(type), static_cast<int>(hiding));
        const Tensor q = random_floats(random, {1, 1, queries, depth}, type);
        const Tensor k = random_floats(random, {1, 1, keys, depth}, type);
        const Tensor v = random_floats(random, {1, 1, keys, depth}, type);
        for (const double odd : {nan, infinity, -infinity}) {
          const auto is_odd = [&, keys = keys](std::int64_t j) {
            return is_causal ? j == keys - 1 : j >= begin;
          };
          NodeRun node = node_of(of, q, k, with_odd_rows(v, odd, is_odd));
          if (hiding == Hiding::boolean) node.attributes["fill"] = static_cast<float>(-infinity);
          check_numbers(doubles(run_node(node).front()),
                        attention_of_seen(of, q, k, with_odd_rows(v, odd, is_odd), hides), type);
        }
        if (hiding == Hiding::float32 || hiding == Hiding::half) continue;  // NaN - inf is NaN
        const auto is_hidden_from_all = [&, keys = keys, queries = queries](std::int64_t j) {
          return is_causal ? false : j >= begin && j % 5 == 0;
        };
        NodeRun node = node_of(of, q, with_odd_rows(k, nan, is_hidden_from_all),
                               with_odd_rows(v, nan, is_hidden_from_all));
        if (hiding == Hiding::boolean) node.attributes["fill"] = static_cast<float>(-infinity);
        check_numbers(doubles(run_node(node).front()), attention_of_seen(of, q, k, v, hides), type);
      }
    }
  }
}

TEST_CASE("Attention without queries or batches is nothing") {
  Random random(26);
  check_case({.queries = 0}, random);
  check_case({.batches = 0}, random);
}

TEST_CASE("What Attention on GPUs does not serve is told before a pass makes it") {
  const auto serves = [](const Case& of) {
    const Shape q{of.batches, of.heads, of.queries, of.depth};
    const Shape k{of.batches, of.key_heads, of.keys, of.depth};
    const std::vector<TensorView> inputs{{of.type, q}, {of.type, k}, {of.type, k}};
    const std::vector<TensorView> outputs{{of.type, q}};
    const graph::Node node{"n", "Attention", "autopar.internal", {}, {}, {}};
    return cuda_operators().find(node.domain, node.op_type)->serves(node, inputs, outputs);
  };
  CHECK(serves({.queries = 70}));
  CHECK_FALSE(serves({.queries = 70, .type = DataType::float32}));
  CHECK_FALSE(serves({.queries = 70, .depth = 12}));
  CHECK_FALSE(serves({.queries = 70, .depth = 264}));
  CHECK(serves({.queries = 4, .depth = 264, .type = DataType::float32}));
  CHECK_FALSE(serves({.queries = 1, .type = DataType::int32}));
}

}  // namespace
}  // namespace autopar::runtime::testing
