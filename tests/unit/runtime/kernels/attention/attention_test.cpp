// ONNX's Attention in all its forms against a loop in double.

#include <algorithm>
#include <limits>

#include "unit/runtime/loops.h"

namespace autopar::runtime::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Form {
  std::int64_t batches = 1;
  std::int64_t heads = 2;
  std::int64_t key_heads = 2;
  std::int64_t queries = 5;
  std::int64_t new_keys = 5;
  std::int64_t past = 0;
  std::int64_t depth = 8;
  std::int64_t value_depth = 8;
  DataType type = DataType::float32;
  bool packed = false;
  bool causal = false;
  bool has_present = false;
  double softcap = 0;
  std::int64_t left = -1;
  std::int64_t right = -1;
  std::optional<double> scale = {};
  std::optional<Tensor> mask = {};
  std::optional<std::vector<double>> lengths = {};
  int mode = -1;  ///< of the output of scores
  int threads = 1;

  std::int64_t keys() const { return past + new_keys; }
};

struct Given {
  Tensor q, k, v;
  std::optional<Tensor> past_k, past_v;
};

struct Expected {
  std::vector<double> out, present_k, present_v, scores;
};

/// Element of [batch, heads, rows, columns], or [batch, rows, heads x columns].
double element(const Form& of, const Tensor& tensor, std::int64_t heads, const Shape& index) {
  const Shape& shape = tensor.shape();
  if (!of.packed) return at(tensor, index);
  const std::int64_t columns = shape[2] / heads;
  return number_at(tensor, static_cast<std::size_t>((index[0] * shape[1] + index[2]) * shape[2] +
                                                    index[1] * columns + index[3]));
}

double mask_of(const Form& of, const Shape& index) {
  const Tensor& mask = *of.mask;
  const bool is_bool = mask.type() == DataType::boolean;
  if (mask.shape().back() != 1 && index[3] >= mask.shape().back()) return -infinity;
  const double value = at(mask, index);
  return is_bool ? (value != 0 ? 0 : -infinity) : value;
}

Expected attend(const Form& of, const Given& given) {
  Expected expected;
  const auto cached = [&](const Tensor& now, const std::optional<Tensor>& past, const Shape& i) {
    return i[2] < of.past ? at(*past, i)
                          : element(of, now, of.key_heads, {i[0], i[1], i[2] - of.past, i[3]});
  };
  for_each_index({of.batches, of.key_heads, of.keys(), of.depth}, [&](const Shape& i) {
    expected.present_k.push_back(cached(given.k, given.past_k, i));
  });
  for_each_index({of.batches, of.key_heads, of.keys(), of.value_depth}, [&](const Shape& i) {
    expected.present_v.push_back(cached(given.v, given.past_v, i));
  });
  std::vector<double> out(
      static_cast<std::size_t>(of.batches * of.heads * of.queries * of.value_depth));
  const double scale = of.scale.value_or(1 / std::sqrt(static_cast<double>(of.depth)));
  for_each_index({of.batches, of.heads, of.queries}, [&](const Shape& row) {
    const std::int64_t group = row[1] / (of.heads / of.key_heads);
    const std::int64_t valid =
        of.lengths ? static_cast<std::int64_t>((*of.lengths)[static_cast<std::size_t>(row[0])])
                   : of.keys();
    const std::int64_t position = row[2] + (of.lengths ? valid - of.queries : of.past);
    std::vector<double> p;
    bool sees_any = false;
    for (std::int64_t t = 0; t < of.keys(); ++t) {
      double raw = 0;
      for (std::int64_t d = 0; d < of.depth; ++d)
        raw += element(of, given.q, of.heads, {row[0], row[1], row[2], d}) *
               cached(given.k, given.past_k, {row[0], group, t, d});
      raw *= scale;
      const double capped = of.softcap > 0 ? of.softcap * std::tanh(raw / of.softcap) : raw;
      double bias = of.mask ? mask_of(of, {row[0], row[1], row[2], t}) : 0;
      if (of.causal && t > position) bias = -infinity;
      if (of.left >= 0 && t < position - of.left) bias = -infinity;
      if (of.right >= 0 && t > position + of.right) bias = -infinity;
      if (t >= valid) bias = -infinity;
      sees_any = sees_any || bias > -infinity;
      p.push_back(capped + bias);
      if (of.mode >= 0) expected.scores.push_back(of.mode == 0 ? raw : capped);
      if (of.mode >= 2) expected.scores.back() = p.back();
    }
    const double largest = p.empty() ? 0 : *std::ranges::max_element(p);
    double sum = 0;
    for (double& x : p) sum += x = sees_any ? std::exp(x - largest) : 0;
    for (std::int64_t t = 0; t < of.keys(); ++t) {
      const double share = sees_any ? p[static_cast<std::size_t>(t)] / sum : 0;
      if (of.mode == 3)
        expected.scores[expected.scores.size() - static_cast<std::size_t>(of.keys() - t)] = share;
      for (std::int64_t e = 0; e < of.value_depth; ++e) {
        const std::int64_t place =
            of.packed ? ((row[0] * of.queries + row[2]) * of.heads + row[1]) * of.value_depth + e
                      : ((row[0] * of.heads + row[1]) * of.queries + row[2]) * of.value_depth + e;
        out[static_cast<std::size_t>(place)] +=
            share * cached(given.v, given.past_v, {row[0], group, t, e});
      }
    }
  });
  expected.out = out;
  return expected;
}

Shape stored(const Form& of, std::int64_t heads, std::int64_t rows, std::int64_t columns) {
  return of.packed ? Shape{of.batches, rows, heads * columns}
                   : Shape{of.batches, heads, rows, columns};
}

NodeRun node_of(const Form& of, const Given& given) {
  NodeRun node{"Attention",
               {},
               {given.q, given.k, given.v, of.mask, given.past_k, given.past_v},
               {{of.type, stored(of, of.heads, of.queries, of.value_depth)}}};
  node.threads = of.threads;
  if (of.packed) {
    node.attributes["q_num_heads"] = of.heads;
    node.attributes["kv_num_heads"] = of.key_heads;
  }
  if (of.causal) node.attributes["is_causal"] = std::int64_t{1};
  if (of.softcap > 0) node.attributes["softcap"] = static_cast<float>(of.softcap);
  if (of.scale) node.attributes["scale"] = static_cast<float>(*of.scale);
  if (of.left >= 0) node.attributes["left_window_size"] = of.left;
  if (of.right >= 0) node.attributes["right_window_size"] = of.right;
  if (of.lengths) node.inputs.emplace_back(tensor_of(DataType::int64, {of.batches}, *of.lengths));
  if (of.has_present || of.mode >= 0) {
    node.outputs.push_back({of.type, {of.batches, of.key_heads, of.keys(), of.depth}});
    node.outputs.push_back({of.type, {of.batches, of.key_heads, of.keys(), of.value_depth}});
  }
  if (of.mode >= 0) {
    node.attributes["qk_matmul_output_mode"] = std::int64_t{of.mode};
    node.outputs.push_back({of.type, {of.batches, of.heads, of.queries, of.keys()}});
  }
  return node;
}

void check_numbers(const Tensor& actual, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> values = doubles(actual);
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isinf(expected[i]))
      REQUIRE(values[i] == expected[i]);
    else
      REQUIRE(values[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
  }
}

Given random_given(const Form& of, Random& random) {
  const auto tensor = [&](const Shape& shape) { return random_floats(random, shape, of.type); };
  Given given{tensor(stored(of, of.heads, of.queries, of.depth)),
              tensor(stored(of, of.key_heads, of.new_keys, of.depth)),
              tensor(stored(of, of.key_heads, of.new_keys, of.value_depth)),
              {},
              {}};
  if (of.past > 0) {
    given.past_k = tensor({of.batches, of.key_heads, of.past, of.depth});
    given.past_v = tensor({of.batches, of.key_heads, of.past, of.value_depth});
  }
  return given;
}

void check_form(const Form& of, Random& random) {
  const Given given = random_given(of, random);
  const Expected expected = attend(of, given);
  CAPTURE(name_of(of.type), of.batches, of.heads, of.key_heads, of.queries, of.new_keys, of.past,
          of.depth, of.value_depth, of.packed, of.causal, of.softcap, of.left, of.right, of.mode);
  const auto outputs = run_node(node_of(of, given));
  const double tolerance = of.type == DataType::float32 ? 1e-5 : 3 * tolerance_of(of.type);
  check_numbers(outputs[0], expected.out, tolerance);
  if (outputs.size() > 2) {
    CHECK(doubles(outputs[1]) == expected.present_k);
    CHECK(doubles(outputs[2]) == expected.present_v);
  }
  if (outputs.size() > 3) check_numbers(outputs[3], expected.scores, 2 * tolerance);
}

TEST_CASE("ONNX's Attention equals a loop in every form") {
  Random random(41);
  const auto pick = [&](int n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  for (int i = 0; i < 400; ++i) {
    Form of;
    of.type = float_types[static_cast<std::size_t>(pick(4))];
    of.batches = 1 + pick(3);
    of.key_heads = 1 + pick(3);
    of.heads = of.key_heads * (1 + pick(3));
    of.queries = 1 + pick(6);
    of.new_keys = pick(3) == 0 ? of.queries : 1 + pick(9);
    of.past = pick(3) == 0 ? 1 + pick(7) : 0;
    of.depth = 1 + pick(20);
    of.value_depth = pick(2) == 0 ? of.depth : 1 + pick(20);
    of.packed = pick(2) == 0;
    of.causal = pick(2) == 0;
    of.has_present = pick(3) == 0;
    if (pick(4) == 0) of.softcap = 0.5 + static_cast<double>(pick(4));
    if (pick(4) == 0) of.left = pick(4);
    if (pick(4) == 0) of.right = pick(4);
    if (pick(2) == 0) of.scale = 0.25;
    if (pick(3) == 0) of.mode = static_cast<int>(pick(4));
    of.threads = 1 + static_cast<int>(pick(3));
    if (pick(3) == 0 && of.past == 0 && !of.has_present && of.mode < 0) {
      of.lengths.emplace();
      for (std::int64_t b = 0; b < of.batches; ++b)
        of.lengths->push_back(static_cast<double>(pick(static_cast<int>(of.keys()) + 1)));
    }
    if (pick(2) == 0) {
      Shape shape{of.batches, of.heads, of.queries, of.keys()};
      for (std::size_t d = 0; d < 3; ++d)
        if (pick(2) == 0) shape[d] = 1;
      if (pick(4) == 0 && of.keys() > 3) shape[3] = of.keys() - 1;
      if (pick(3) == 0) shape.erase(shape.begin(), shape.begin() + pick(4));
      of.mask = random_in(pick(2) == 0 ? DataType::boolean : of.type, shape, random, -2, 2);
    }
    CAPTURE(i);
    check_form(of, random);
  }
}

TEST_CASE("Attention goes block by block over many queries and keys") {
  Random random(42);
  for (const bool causal : {false, true})
    for (const bool packed : {false, true}) {
      check_form(
          {.queries = 150, .new_keys = 150, .packed = packed, .causal = causal, .threads = 3},
          random);
      check_form({.heads = 6,
                  .queries = 1,
                  .new_keys = 1,
                  .past = 300,
                  .packed = packed,
                  .causal = causal,
                  .has_present = true,
                  .threads = 2},
                 random);
      check_form({.queries = 140,
                  .new_keys = 20,
                  .past = 130,
                  .packed = packed,
                  .causal = causal,
                  .left = 17,
                  .mode = 3},
                 random);
    }
}

TEST_CASE("Rows that a mask hides altogether are zeros, whatever the keys hold") {
  Random random(43);
  for (const DataType type : float_types)
    for (const bool is_bool : {false, true}) {
      Form of{.queries = 3, .new_keys = 4, .type = type, .mode = 3};
      std::vector<double> mask(12, is_bool ? 1 : 0);
      for (std::size_t i = 4; i < 8; ++i) mask[i] = is_bool ? 0 : -infinity;
      of.mask = tensor_of(is_bool ? DataType::boolean : type, {3, 4}, mask);
      check_form(of, random);
    }
}

/// `number` in all rows of [batch, head, row, column] behind the batch's length.
Tensor with_odd_rows(const Tensor& tensor, const std::vector<double>& lengths, double number) {
  std::vector<double> values = doubles(tensor);
  std::size_t next = 0;
  for_each_index(tensor.shape(), [&](const Shape& i) {
    if (static_cast<double>(i[2]) >= lengths[static_cast<std::size_t>(i[0])]) values[next] = number;
    ++next;
  });
  return tensor_of(tensor.type(), tensor.shape(), values);
}

TEST_CASE("What lies in a cache behind its valid keys is not seen, be it no number") {
  Random random(46);
  for (const DataType type : float_types)
    for (const bool causal : {false, true}) {
      const std::vector<double> lengths{2, 4};
      const Form of{.batches = 2,
                    .queries = 2,
                    .new_keys = 5,
                    .type = type,
                    .causal = causal,
                    .lengths = lengths};
      const Given given = random_given(of, random);
      const std::vector<double> expected = attend(of, given).out;
      for (const double number : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}) {
        Given odd = given;
        odd.k = with_odd_rows(given.k, lengths, number);
        odd.v = with_odd_rows(given.v, lengths, number);
        CAPTURE(name_of(type), causal, number);
        check_close(run_node(node_of(of, odd))[0], expected);
      }
    }
}

TEST_CASE("Attention of no queries, keys or batches") {
  Random random(44);
  check_form({.queries = 0}, random);
  check_form({.new_keys = 0}, random);
  check_form({.batches = 0}, random);
  check_form({.queries = 2, .new_keys = 0, .past = 3, .has_present = true}, random);
}

TEST_CASE("Attention whose shapes do not fit is an error that names the node") {
  Random random(45);
  const Form of{.mask = Tensor::zeros(DataType::float32, {3, 5})};
  CHECK_THROWS_WITH(run_node(node_of(of, random_given(of, random))), Catch::Contains("the_node"));
  const Form long_past{.queries = 1, .new_keys = 4, .lengths = {{5.0}}};
  NodeRun node = node_of(long_past, random_given(long_past, random));
  node.inputs.pop_back();
  node.inputs.pop_back();
  node.inputs.emplace_back();
  node.inputs.back() = Tensor::zeros(DataType::float32, {1, 2, 3, 8});
  CHECK_THROWS_WITH(run_node(node), Catch::Contains("the_node"));
}

}  // namespace
}  // namespace autopar::runtime::testing
