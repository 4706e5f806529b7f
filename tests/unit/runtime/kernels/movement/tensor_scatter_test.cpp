// TensorScatter against a loop.

#include "unit/runtime/loops.h"

namespace autopar::runtime::testing {
namespace {

TEST_CASE("TensorScatter writes into a cache along any dimension, around its end or not") {
  Random random(61);
  for (const DataType type :
       {DataType::float32, DataType::float16, DataType::int64, DataType::int8})
    for (const auto& [shape, axis] :
         {std::pair{Shape{3, 2, 6, 5}, std::int64_t{-2}},
          std::pair{Shape{3, 6, 4}, std::int64_t{1}}, std::pair{Shape{2, 3, 6}, std::int64_t{-1}}})
      for (const std::int64_t updates : {0, 1, 4, 6})
        for (const int indices : {0, 1, 2}) {  // none, within, around
          const auto rank = static_cast<std::int64_t>(shape.size());
          const auto d = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
          Shape given = shape;
          given[d] = updates;
          const Tensor cache = random_in(type, shape, random, -9, 9);
          const Tensor update = random_in(type, given, random, -9, 9);
          const Tensor first =
              random_in(DataType::int64, {shape[0]}, random, 0,
                        static_cast<double>(indices == 2 ? 6 : shape[d] - updates + 1) - 1e-9);
          std::vector<double> values = doubles(cache);
          for_each_index(given, [&, &shape = shape](const Shape& from) {
            Shape to = from;
            if (indices > 0) to[d] += static_cast<std::int64_t>(at(first, {from[0]}));
            if (indices == 2) to[d] %= shape[d];
            std::int64_t place = 0;
            for (std::size_t e = 0; e < to.size(); ++e) place = place * shape[e] + to[e];
            values[static_cast<std::size_t>(place)] = at(update, from);
          });
          NodeRun node{"TensorScatter", {{"axis", axis}}, {cache, update}, {{type, shape}}};
          if (indices > 0) node.inputs.emplace_back(first);
          if (indices == 2) node.attributes["mode"] = std::string("circular");
          CAPTURE(name_of(type), shape, axis, updates, indices);
          CHECK(doubles(run_node(node).front()) == values);
        }
}

TEST_CASE("TensorScatter of shapes that do not fit is an error that names the node") {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(DataType::float32, shape); };
  CHECK_THROWS_WITH(run_node({"TensorScatter",
                              {},
                              {zeros({2, 3, 4}), zeros({2, 5, 4})},
                              {{DataType::float32, {2, 3, 4}}}}),
                    Catch::Contains("the_node"));
}

}  // namespace
}  // namespace autopar::runtime::testing
