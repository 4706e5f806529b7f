// RotaryEmbedding, ONNX's and the compiler's, against loops in double.

#include "unit/runtime/loops.h"

namespace autopar::runtime::testing {
namespace {

struct Form {
  std::int64_t batches = 2;
  std::int64_t heads = 3;
  std::int64_t positions = 4;
  std::int64_t columns = 8;
  std::int64_t turned = 8;
  bool packed = false;
  bool interleaved = false;
  bool has_positions = true;
  DataType type = DataType::float32;
};

std::size_t place(const Form& of, std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t c) {
  return static_cast<std::size_t>(of.packed
                                      ? ((b * of.positions + s) * of.heads + h) * of.columns + c
                                      : ((b * of.heads + h) * of.positions + s) * of.columns + c);
}

void check_form(const Form& of, Random& random) {
  const std::int64_t half = of.turned / 2;
  const Shape shape = of.packed ? Shape{of.batches, of.positions, of.heads * of.columns}
                                : Shape{of.batches, of.heads, of.positions, of.columns};
  const Shape table = of.has_positions ? Shape{7, half} : Shape{of.batches, of.positions, half};
  const Tensor x = random_floats(random, shape, of.type);
  const Tensor cos = random_floats(random, table, of.type);
  const Tensor sin = random_floats(random, table, of.type);
  const Tensor positions = random_in(DataType::int64, {of.batches, of.positions}, random, 0, 7);
  NodeRun node{"RotaryEmbedding", {}, {x, cos, sin}, {{of.type, shape}}};
  if (of.has_positions) node.inputs.emplace_back(positions);
  if (of.packed) node.attributes["num_heads"] = of.heads;
  if (of.interleaved) node.attributes["interleaved"] = std::int64_t{1};
  if (of.turned != of.columns) node.attributes["rotary_embedding_dim"] = of.turned;

  std::vector<double> expected = doubles(x);
  for_each_index({of.batches, of.heads, of.positions, half}, [&](const Shape& i) {
    const std::int64_t row = of.has_positions
                                 ? static_cast<std::int64_t>(at(positions, {i[0], i[2]}))
                                 : i[0] * of.positions + i[2];
    const double c = number_at(cos, static_cast<std::size_t>(row * half + i[3]));
    const double s = number_at(sin, static_cast<std::size_t>(row * half + i[3]));
    const std::size_t first = place(of, i[0], i[1], i[2], of.interleaved ? 2 * i[3] : i[3]);
    const std::size_t second =
        place(of, i[0], i[1], i[2], of.interleaved ? 2 * i[3] + 1 : i[3] + half);
    const double a = number_at(x, first);
    const double b = number_at(x, second);
    expected[first] = a * c - b * s;
    expected[second] = b * c + a * s;
  });
  CAPTURE(name_of(of.type), of.packed, of.interleaved, of.has_positions, of.columns, of.turned);
  check_close(run_node(node).front(), expected, 4);
}

TEST_CASE("ONNX's RotaryEmbedding equals a loop in every form") {
  Random random(51);
  for (const DataType type : float_types)
    for (const bool packed : {false, true})
      for (const bool interleaved : {false, true})
        for (const bool has_positions : {false, true})
          for (const auto& [columns, turned] :
               {std::pair{8, 8}, std::pair{10, 4}, std::pair{6, 6}, std::pair{64, 32}})
            check_form({.columns = columns,
                        .turned = turned,
                        .packed = packed,
                        .interleaved = interleaved,
                        .has_positions = has_positions,
                        .type = type},
                       random);
  check_form({.batches = 0}, random);
  check_form({.positions = 0}, random);
  check_form({.heads = 40, .positions = 80, .columns = 16, .turned = 16}, random);
}

TEST_CASE("The compiler's RotaryEmbedding equals a loop") {
  Random random(52);
  for (const DataType type : float_types)
    for (const Shape& factor : {Shape{2, 1, 5, 12}, Shape{5, 12}, Shape{2, 3, 5, 12}}) {
      const Shape shape{2, 3, 5, 12};
      const Tensor x = random_floats(random, shape, type);
      const Tensor cos = random_floats(random, factor, type);
      const Tensor sin = random_floats(random, factor, type);
      std::vector<double> expected;
      for_each_index(shape, [&](const Shape& index) {
        Shape other = index;
        other.back() += index.back() < 6 ? 6 : -6;
        const double across = index.back() < 6 ? -at(x, other) : at(x, other);
        expected.push_back(at(x, index) * at(cos, index) + across * at(sin, index));
      });
      NodeRun node{"RotaryEmbedding", {}, {x, cos, sin}, {{type, shape}}};
      node.domain = "autopar.internal";
      check_close(run_node(node).front(), expected, 4);
    }
}

TEST_CASE("RotaryEmbedding whose tables do not fit is an error that names the node") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(DataType::float32, shape); };
  NodeRun node{
      "RotaryEmbedding",
      {},
      {zeros({1, 2, 3, 8}), zeros({5, 3}), zeros({5, 3}), Tensor::zeros(DataType::int64, {1, 3})},
      {{DataType::float32, {1, 2, 3, 8}}}};
  CHECK_THROWS_WITH(run_node(node), Catch::Contains("the_node"));
}

}  // namespace
}  // namespace autopar::runtime::testing
