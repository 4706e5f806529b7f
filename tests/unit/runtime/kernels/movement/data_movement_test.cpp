#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>

#include "unit/runtime/kernels/movement/movement.h"

namespace autopar::runtime {
namespace {

using namespace testing;

Shape random_shape(std::mt19937& random, std::size_t rank, int most) {
  Shape shape(rank);
  for (auto& extent : shape) extent = 1 + random() % static_cast<unsigned>(most);
  return shape;
}

TEST_CASE("Transpose by any permutation of up to five dimensions, for every element size") {
  std::mt19937 random(1);
  for (int round = 0; round < 120; ++round) {
    const std::size_t rank = random() % 6;
    const Shape shape = random_shape(random, rank, round % 3 == 0 ? 2 : 7);
    std::vector<std::int64_t> perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), random);
    Shape to;
    for (const std::int64_t d : perm) to.push_back(shape[static_cast<std::size_t>(d)]);
    const DataType type = one_of_each_size[random() % 4];
    const Tensor x = random_in(type, shape, random, 0, 100);
    const Tensor y = run_node({"Transpose", {{"perm", perm}}, {x}, {{type, to}}})[0];
    check_movement(y, [&](const Shape& index) {
      Shape source(rank);
      for (std::size_t d = 0; d < rank; ++d) source[static_cast<std::size_t>(perm[d])] = index[d];
      return at(x, source);
    });
  }
}

TEST_CASE("Complex numbers of 16 bytes are moved as they are") {
  std::vector<double> parts(12);
  std::iota(parts.begin(), parts.end(), 0.0);
  Tensor x = Tensor::zeros(DataType::complex128, {3, 2});
  std::ranges::copy(std::as_bytes(std::span(parts)), x.mutable_bytes().begin());
  const Tensor y = run_node({"Transpose", {}, {x}, {{DataType::complex128, {2, 3}}}})[0];
  const auto* moved = reinterpret_cast<const double*>(y.data());
  CHECK(std::vector(moved, moved + 12) ==
        std::vector<double>{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11});
}

TEST_CASE("Transpose reverses all dimensions by default and shares large matrices among threads") {
  using Matrix = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [rows, columns] :
       {Matrix{301, 203}, Matrix{9001, 3}, Matrix{3, 9001}, Matrix{8200, 17}})
    for (const DataType type :
         {DataType::float32, DataType::uint8, DataType::int16, DataType::float64}) {
      CAPTURE(rows, columns, name_of(type));
      const Tensor x = counting(type, {rows, columns});
      NodeRun node{"Transpose", {}, {x}, {{type, {columns, rows}}}};
      node.threads = 3;
      const std::vector<double> from = doubles(x);
      const std::vector<double> y = doubles(run_node(node)[0]);
      for (std::int64_t i = 0; i < columns; ++i)
        for (std::int64_t j = 0; j < rows; ++j)
          if (y[static_cast<std::size_t>(i * rows + j)] !=
              from[static_cast<std::size_t>(j * columns + i)])
            FAIL("at " << i << ", " << j);
    }
}

TEST_CASE("Slice with any starts, ends and steps, negative ones too") {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const std::size_t rank = 1 + random() % 4;
    const Shape shape = random_shape(random, rank, 8);
    std::vector<std::int64_t> axes(rank);
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), random);
    axes.resize(1 + random() % rank);
    std::vector<std::int64_t> starts, ends, steps;
    Shape to = shape;
    std::vector<std::vector<std::int64_t>> taken(rank);  // by dimension, as Python's range takes
    for (std::size_t d = 0; d < rank; ++d)
      for (std::int64_t i = 0; i < shape[d]; ++i) taken[d].push_back(i);
    for (auto& axis : axes) {
      const auto d = static_cast<std::size_t>(axis);
      const std::int64_t extent = shape[d];
      std::int64_t step = static_cast<std::int64_t>(random() % 7) - 3;
      if (step == 0) step = 1;
      const std::int64_t start = static_cast<std::int64_t>(random() % 24) - 12;
      std::int64_t end = static_cast<std::int64_t>(random() % 24) - 12;
      if (random() % 5 == 0) end = step > 0 ? INT64_MAX : INT64_MIN;
      starts.push_back(start);
      ends.push_back(end);
      steps.push_back(step);
      const auto from_front = [&](std::int64_t i, std::int64_t low, std::int64_t high) {
        return std::clamp(i < 0 && i > INT64_MIN / 2 ? i + extent : i, low, high);
      };
      const std::int64_t low = step > 0 ? 0 : -1;
      const std::int64_t high = step > 0 ? extent : extent - 1;
      const std::int64_t last = from_front(end, low, high);
      taken[d].clear();
      for (std::int64_t i = from_front(start, step > 0 ? 0 : 0, high);
           step > 0 ? i < last : i > last; i += step)
        taken[d].push_back(i);
      to[d] = static_cast<std::int64_t>(taken[d].size());
      if (random() % 2 == 0) axis -= static_cast<std::int64_t>(rank);
    }
    const DataType type = one_of_each_size[random() % 4];
    const Tensor x = random_in(type, shape, random, 0, 100);
    const Tensor y = run_node({"Slice",
                               {},
                               {x, ints(starts), ints(ends), ints(axes), ints(steps)},
                               {{type, to}},
                               {1, 2, 3, 4}})[0];
    check_movement(y, [&](const Shape& index) {
      Shape source(rank);
      for (std::size_t d = 0; d < rank; ++d)
        source[d] = taken[d][static_cast<std::size_t>(index[d])];
      return at(x, source);
    });
  }
}

TEST_CASE("Slice whose starts are no constant is an error that names the node") {
  const Tensor x = counting(DataType::float32, {4});
  CHECK_THROWS_WITH(run_node({"Slice", {}, {x, ints({0}), ints({2})}, {{DataType::float32, {2}}}}),
                    Catch::Contains("the_node") && Catch::Contains("starts"));
}

TEST_CASE("Split and Concat are inverse along every dimension, uneven and empty pieces too") {
  std::mt19937 random(3);
  for (const DataType type : one_of_each_size)
    for (std::int64_t axis = -3; axis < 3; ++axis) {
      const auto d = static_cast<std::size_t>(axis < 0 ? axis + 3 : axis);
      Shape shape{4, 5, 6};
      shape[d] = 7;
      const Tensor x = random_in(type, shape, random, 0, 100);
      std::vector<std::pair<DataType, Shape>> pieces;
      for (const std::int64_t extent : {3, 0, 4}) {
        Shape piece = shape;
        piece[d] = extent;
        pieces.emplace_back(type, piece);
      }
      const auto split = run_node({"Split", {{"axis", axis}}, {x, ints({3, 0, 4})}, pieces, {1}});
      const std::int64_t begins[] = {0, 3, 3};
      for (std::size_t i = 0; i < 3; ++i)
        check_movement(split[i], [&](const Shape& index) {
          Shape source = index;
          source[d] += begins[i];
          return at(x, source);
        });
      const Tensor joined = run_node(
          {"Concat", {{"axis", axis}}, {split[0], split[1], split[2]}, {{type, shape}}})[0];
      CHECK(doubles(joined) == doubles(x));
    }
}

TEST_CASE("Expand and Tile") {
  std::mt19937 random(4);
  for (const DataType type : one_of_each_size) {
    const Tensor x = random_in(type, {3, 1, 4}, random, 0, 100);
    const Tensor expanded =
        run_node({"Expand", {}, {x, ints({2, 1, 5, 1})}, {{type, {2, 3, 5, 4}}}, {1}})[0];
    check_movement(expanded, [&](const Shape& i) { return at(x, {i[1], 0, i[3]}); });
    const Tensor tiled = run_node({"Tile", {}, {x, ints({2, 3, 2})}, {{type, {6, 3, 8}}}, {1}})[0];
    check_movement(tiled, [&](const Shape& i) { return at(x, {i[0] % 3, 0, i[2] % 4}); });
  }
}

TEST_CASE("DepthToSpace in both modes, and SpaceToDepth is its inverse") {
  const Tensor x = counting(DataType::float32, {2, 12, 3, 4});
  const auto run_mode = [&](const char* mode) {
    return run_node({"DepthToSpace",
                     {{"blocksize", std::int64_t{2}}, {"mode", std::string(mode)}},
                     {x},
                     {{DataType::float32, {2, 3, 6, 8}}}})[0];
  };
  check_movement(run_mode("DCR"), [&](const Shape& i) {
    return at(x, {i[0], (i[2] % 2 * 2 + i[3] % 2) * 3 + i[1], i[2] / 2, i[3] / 2});
  });
  check_movement(run_mode("CRD"), [&](const Shape& i) {
    return at(x, {i[0], i[1] * 4 + i[2] % 2 * 2 + i[3] % 2, i[2] / 2, i[3] / 2});
  });
  const Tensor back = run_node({"SpaceToDepth",
                                {{"blocksize", std::int64_t{2}}},
                                {run_mode("DCR")},
                                {{DataType::float32, {2, 12, 3, 4}}}})[0];
  CHECK(doubles(back) == doubles(x));
}

TEST_CASE("Pad in every mode") {
  std::mt19937 random(5);
  const auto source_of = [](const std::string& mode, std::int64_t i, std::int64_t n) {
    if (mode == "edge") return std::clamp<std::int64_t>(i, 0, n - 1);
    if (mode == "wrap") return (i + 10 * n) % n;
    while (mode == "reflect" && (i < 0 || i >= n)) i = i < 0 ? -i : 2 * (n - 1) - i;
    return i;
  };
  for (const char* mode : {"constant", "edge", "reflect", "wrap"})
    for (const DataType type : one_of_each_size) {
      const Tensor x = random_in(type, {2, 3, 4}, random, 0, 100);
      const Tensor y = run_node({"Pad",
                                 {{"mode", std::string(mode)}},
                                 {x, ints({2, 3, 1, 0}), tensor_of(type, {}, {1}), ints({1, -1})},
                                 {{type, {2, 6, 7}}},
                                 {1, 3}})[0];
      check_movement(y, [&](const Shape& i) -> double {
        const std::int64_t row = source_of(mode, i[1] - 2, 3);
        const std::int64_t column = source_of(mode, i[2] - 3, 4);
        const bool is_inside = row >= 0 && row < 3 && column >= 0 && column < 4;
        return is_inside ? at(x, {i[0], row, column}) : 1;
      });
    }
}

TEST_CASE("Negative pads crop, and a constant Pad fills with zero by default") {
  const Tensor x = counting(DataType::int32, {2, 5});
  const Tensor y =
      run_node({"Pad", {}, {x, ints({1, -2, 0, 1})}, {{DataType::int32, {3, 4}}}, {1}})[0];
  CHECK(y.to_int64s() == std::vector<std::int64_t>{0, 0, 0, 0, 2, 3, 4, 0, 7, 8, 9, 0});
}

TEST_CASE("Pad of outer dimensions moves whole rows, and extends as often as asked") {
  std::mt19937 random(12);
  for (const char* mode : {"constant", "edge", "reflect", "wrap"})
    for (const std::int64_t width : {1, 3, 8, 20}) {
      const auto type = DataType::float16;
      const Tensor x = random_in(type, {3, 2, width}, random, 0, 100);
      const Tensor y = run_node({"Pad",
                                 {{"mode", std::string(mode)}},
                                 {x, ints({9, 5}), tensor_of(type, {}, {7}), ints({0})},
                                 {{type, {17, 2, width}}},
                                 {1, 3}})[0];
      // Where 0, 1, 2 continues from -9 on.
      const std::map<std::string, std::string> places = {{"constant", ".........012....."},
                                                         {"edge", "00000000001222222"},
                                                         {"reflect", "10121012101210121"},
                                                         {"wrap", "01201201201201201"}};
      check_movement(y, [&](const Shape& i) -> double {
        const char place = places.at(mode)[static_cast<std::size_t>(i[0])];
        return place == '.' ? 7 : at(x, {place - '0', i[1], i[2]});
      });
    }
}

TEST_CASE("Trilu keeps one triangle of every matrix") {
  std::mt19937 random(6);
  for (const DataType type : one_of_each_size)
    for (const std::int64_t upper : {0, 1})
      for (std::int64_t k = -6; k <= 6; ++k) {
        const Tensor x = random_in(type, {2, 4, 5}, random, 1, 100);
        const Tensor y = run_node({"Trilu",
                                   {{"upper", upper}},
                                   {x, Tensor::of_int64({}, std::span(&k, 1))},
                                   {{type, {2, 4, 5}}}})[0];
        check_movement(y, [&](const Shape& i) {
          const bool is_kept = upper ? i[2] >= i[1] + k : i[2] <= i[1] + k;
          return is_kept ? at(x, i) : 0;
        });
      }
}

TEST_CASE("Views keep their bytes") {
  const Tensor x = counting(DataType::float32, {2, 3, 4});
  for (const char* op_type :
       {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"}) {
    const Tensor y = run_node({op_type, {}, {x}, {{DataType::float32, {6, 4}}}})[0];
    CHECK(doubles(y) == doubles(x));
  }
}

TEST_CASE("Dropout in inference keeps everything, and training is refused") {
  const Tensor x = counting(DataType::float32, {3});
  const auto with_mask =
      run_node({"Dropout", {}, {x}, {{DataType::float32, {3}}, {DataType::boolean, {3}}}});
  CHECK(doubles(with_mask[0]) == doubles(x));
  CHECK(doubles(with_mask[1]) == std::vector<double>{1, 1, 1});
  const Tensor ratio = tensor_of(DataType::float32, {}, {0.5});
  const Tensor training = tensor_of(DataType::boolean, {}, {1});
  CHECK_THROWS_WITH(
      run_node({"Dropout", {}, {x, ratio, training}, {{DataType::float32, {3}}}, {1, 2}}),
      Catch::Contains("the_node") && Catch::Contains("training"));
}

TEST_CASE("OneHot puts its depth at any axis and leaves indices out of range off") {
  const Tensor values = tensor_of(DataType::float32, {2}, {3, 8});
  for (std::int64_t axis = -1; axis < 3; ++axis) {
    const DataType index_type = axis < 0    ? DataType::float32
                                : axis == 1 ? DataType::int8
                                            : DataType::int64;
    const Tensor indices = tensor_of(index_type, {2, 2}, {0, -1, 2, 5});
    const std::size_t d = axis < 0 ? 2 : static_cast<std::size_t>(axis);
    Shape to{2, 2};
    to.insert(to.begin() + static_cast<std::ptrdiff_t>(d), 3);
    const Tensor y = run_node({"OneHot",
                               {{"axis", axis}},
                               {indices, ints({3}), values},
                               {{DataType::float32, to}},
                               {1}})[0];
    check_movement(y, [&](const Shape& i) {
      Shape source = i;
      source.erase(source.begin() + static_cast<std::ptrdiff_t>(d));
      return wrapped(at(indices, source), 3) == i[d] ? 8.0 : 3.0;
    });
  }
}

// Generators

TEST_CASE("Range, EyeLike, ConstantOfShape, Constant, Shape and Size") {
  for (const DataType type :
       {DataType::float32, DataType::float64, DataType::int16, DataType::int32, DataType::int64}) {
    const Tensor y =
        run_node({"Range",
                  {},
                  {tensor_of(type, {}, {7}), tensor_of(type, {}, {-2}), tensor_of(type, {}, {-3})},
                  {{type, {3}}}})[0];
    CHECK(doubles(y) == std::vector<double>{7, 4, 1});
  }
  const Tensor x = Tensor::zeros(DataType::float32, {2, 3});
  for (const DataType type : {DataType::float32, DataType::float64, DataType::float16,
                              DataType::bfloat16, DataType::int32, DataType::boolean})
    CHECK(doubles(run_node({"EyeLike", {{"k", std::int64_t{1}}}, {x}, {{type, {2, 3}}}})[0]) ==
          std::vector<double>{0, 1, 0, 0, 0, 1});
  CHECK(doubles(run_node({"EyeLike", {{"k", std::int64_t{-1}}}, {x}, {{x.type(), {2, 3}}}})[0]) ==
        std::vector<double>{0, 0, 0, 1, 0, 0});
  CHECK(doubles(run_node({"EyeLike", {{"k", std::int64_t{-9}}}, {x}, {{x.type(), {2, 3}}}})[0]) ==
        std::vector<double>(6, 0));
  const Tensor seven = tensor_of(DataType::float16, {1}, {7});
  CHECK(doubles(run_node({"ConstantOfShape",
                          {{"value", seven}},
                          {ints({2, 1})},
                          {{DataType::float16, {2, 1}}},
                          {0}})[0]) == std::vector<double>{7, 7});
  CHECK(
      doubles(run_node({"ConstantOfShape", {}, {ints({2})}, {{DataType::float32, {2}}}, {0}})[0]) ==
      std::vector<double>{0, 0});
  CHECK(doubles(run_node({"Constant", {{"value", seven}}, {}, {{DataType::float16, {1}}}})[0]) ==
        std::vector<double>{7});
  CHECK(run_node({"Constant",
                  {{"value_ints", std::vector<std::int64_t>{4, 5}}},
                  {},
                  {{DataType::int64, {2}}}})[0]
            .to_int64s() == std::vector<std::int64_t>{4, 5});
  const Tensor wide = Tensor::zeros(DataType::boolean, {2, 3, 4});
  CHECK(run_node({"Shape", {}, {wide}, {{DataType::int64, {3}}}})[0].to_int64s() ==
        std::vector<std::int64_t>{2, 3, 4});
  CHECK(run_node({"Shape",
                  {{"start", std::int64_t{-2}}, {"end", std::int64_t{-1}}},
                  {wide},
                  {{DataType::int64, {1}}}})[0]
            .to_int64s() == std::vector<std::int64_t>{3});
  CHECK(run_node({"Size", {}, {wide}, {{DataType::int64, {}}}})[0].to_int64s()[0] == 24);
}

TEST_CASE("Data movement of empty tensors") {
  const Tensor x = Tensor::zeros(DataType::float32, {0, 3});
  const auto f = DataType::float32;
  CHECK(run_node({"Transpose", {}, {x}, {{f, {3, 0}}}})[0].elements() == 0);
  CHECK(run_node({"Reshape", {}, {x, ints({3, 0})}, {{f, {3, 0}}}, {1}})[0].elements() == 0);
  CHECK(run_node({"Slice", {}, {x, ints({1}), ints({2}), ints({1})}, {{f, {0, 1}}}, {1, 2, 3}})[0]
            .elements() == 0);
  CHECK(run_node({"Expand", {}, {x, ints({2, 0, 3})}, {{f, {2, 0, 3}}}, {1}})[0].elements() == 0);
  CHECK(run_node({"Tile", {}, {x, ints({2, 2})}, {{f, {0, 6}}}, {1}})[0].elements() == 0);
  CHECK(run_node({"Gather", {}, {counting(f, {4, 3}), ints({})}, {{f, {0, 3}}}})[0].elements() ==
        0);
  CHECK(run_node({"Trilu", {}, {x}, {{f, {0, 3}}}})[0].elements() == 0);
  const Tensor y = counting(f, {2, 3});
  CHECK(doubles(run_node({"Concat", {{"axis", std::int64_t{0}}}, {x, y, x}, {{f, {2, 3}}}})[0]) ==
        doubles(y));
  CHECK(doubles(run_node({"Pad", {}, {x, ints({1, 0, 0, 0})}, {{f, {1, 3}}}, {1}})[0]) ==
        std::vector<double>{0, 0, 0});
  CHECK(doubles(run_node(
            {"ScatterND", {}, {y, Tensor::zeros(DataType::int64, {0, 1}), x}, {{f, {2, 3}}}})[0]) ==
        doubles(y));
}

TEST_CASE("Types of four bits are refused, with the node's name") {
  const Tensor x = Tensor::zeros(DataType::int4, {2, 2});
  CHECK_THROWS_WITH(run_node({"Transpose", {}, {x}, {{DataType::int4, {2, 2}}}}),
                    Catch::Contains("the_node") && Catch::Contains("int4"));
}

}  // namespace
}  // namespace autopar::runtime
