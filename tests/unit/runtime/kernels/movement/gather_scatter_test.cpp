// Gather, Scatter and their kin against their definitions.

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <numeric>

#include "base/mapped_file.h"
#include "base/temporary_folder.h"
#include "unit/runtime/kernels/movement/movement.h"

namespace autopar::runtime {
namespace {

using namespace testing;

Tensor random_indices(std::mt19937& random, const Shape& shape, std::int64_t extent,
                      DataType type = DataType::int64) {
  std::vector<double> values(static_cast<std::size_t>(graph::num_elements(shape)));
  for (double& value : values)
    value = static_cast<double>(random() % static_cast<std::uint64_t>(2 * extent)) -
            static_cast<double>(extent);
  return tensor_of(type, shape, values);
}

TEST_CASE("Gather along every axis, with negative indices of both types") {
  std::mt19937 random(7);
  for (const DataType type : one_of_each_size)
    for (const DataType index_type : {DataType::int32, DataType::int64})
      for (std::int64_t axis = 0; axis < 3; ++axis) {
        const auto d = static_cast<std::size_t>(axis);
        const Tensor x = random_in(type, {3, 4, 5}, random, 0, 100);
        const Tensor indices = random_indices(random, {2, 3}, x.shape()[d], index_type);
        Shape to = x.shape();
        to[d] = 3;
        to.insert(to.begin() + axis, 2);
        NodeRun node{"Gather", {{"axis", axis}}, {x, indices}, {{type, to}}};
        check_movement(run_node(node)[0], [&](const Shape& i) {
          Shape source = i;
          source.erase(source.begin() + axis);
          source[d] = wrapped(at(indices, {i[d], i[d + 1]}), x.shape()[d]);
          return at(x, source);
        });
      }
}

TEST_CASE("Gather reads the rows of a large table from its file") {
  const TemporaryFolder folder;
  const Tensor table = counting(DataType::float32, {5000, 300});
  std::ofstream(folder / "table", std::ios::binary)
      .write(reinterpret_cast<const char*>(table.bytes().data()),
             static_cast<std::streamsize>(table.size_bytes()));
  const auto file = MappedFile::open(folder / "table");
  const Tensor mapped = Tensor::mapped(table.type(), table.shape(), file->bytes().data(), file);
  std::mt19937 random(9);
  for (const std::int64_t rows : {1, 200}) {
    const Tensor indices = random_indices(random, {rows}, 5000);
    NodeRun node{"Gather", {}, {table, indices}, {{DataType::float32, {rows, 300}}}, {0}};
    node.threads = 2;
    const auto expected = doubles(run_node(node)[0]);
    node.inputs[0] = mapped;
    CHECK(doubles(run_node(node)[0]) == expected);
    // Nothing of the table need be in memory, but others may read it all the same.
    graph::Graph graph = make_graph(node);
    graph.nodes.push_back({"again", "ReduceMax", "", {graph.nodes[0].inputs[0]}, {}, {}});
    graph.nodes[1].outputs = {graph.add_value({"max", DataType::float32, {1, 1}, std::nullopt})};
    graph.outputs.push_back(graph.nodes[1].outputs[0]);
    Executable executable(graph, {.device = device_under_test()});
    const auto outputs = run(executable, graph, {indices});
    CHECK(doubles(outputs[0]) == expected);
    CHECK(doubles(outputs[1]) == std::vector<double>{5000 * 300 - 1});
  }
}

TEST_CASE("A large Gather is shared among threads, and a scalar index drops its axis") {
  std::mt19937 random(8);
  const Tensor table = counting(DataType::float32, {50, 300});
  const Tensor indices = random_indices(random, {200}, 50);
  NodeRun node{"Gather", {}, {table, indices}, {{DataType::float32, {200, 300}}}};
  node.threads = 3;
  const auto y = doubles(run_node(node)[0]);
  for (std::size_t i = 0; i < 200; ++i)
    CHECK(y[i * 300 + 7] == static_cast<double>(wrapped(doubles(indices)[i], 50) * 300 + 7));
  const std::int64_t last = -1;
  const Tensor row = run_node({"Gather",
                               {},
                               {table, Tensor::of_int64({}, std::span(&last, 1))},
                               {{DataType::float32, {300}}}})[0];
  CHECK(doubles(row)[0] == 49 * 300);
}

TEST_CASE("An index out of range is an error that names the node, at run time") {
  const Tensor x = counting(DataType::float32, {3, 2});
  const auto f = DataType::float32;
  const Tensor rows = Tensor::zeros(f, {2, 2});
  const Tensor updates = Tensor::zeros(f, {2, 1});
  for (const DataType type : {DataType::int32, DataType::int64})
    for (const std::int64_t index : {2, -3, 3, -4, 1 << 30}) {
      const Tensor flat = tensor_of(type, {2}, {0, static_cast<double>(index)});
      const Tensor column = flat.reshaped({2, 1});
      std::vector<NodeRun> runs = {
          {"Gather", {}, {x, flat}, {{f, {2, 2}}}},
          {"GatherElements", {}, {x, column}, {{f, {2, 1}}}},
          {"ScatterElements", {}, {x, column, updates}, {{f, {3, 2}}}},
          {"ScatterElements",
           {{"reduction", std::string("add")}},
           {x, column, updates},
           {{f, {3, 2}}}},
      };
      if (type == DataType::int64) {
        runs.push_back({"GatherND", {}, {x, column}, {{f, {2, 2}}}});
        runs.push_back({"ScatterND", {}, {x, column, rows}, {{f, {3, 2}}}});
        runs.push_back(
            {"ScatterND", {{"reduction", std::string("max")}}, {x, column, rows}, {{f, {3, 2}}}});
      }
      for (const NodeRun& node : runs) {
        CAPTURE(node.op_type, index);
        if (index >= -3 && index < 3)
          CHECK_NOTHROW(run_node(node));
        else
          CHECK_THROWS_WITH(run_node(node), Catch::Contains("the_node") &&
                                                Catch::Contains(std::to_string(index)) &&
                                                Catch::Contains("3 elements"));
      }
    }
}

TEST_CASE("GatherElements and ScatterElements agree with their definition") {
  std::mt19937 random(9);
  for (const DataType type : one_of_each_size)
    for (std::int64_t axis = 0; axis < 3; ++axis) {
      const auto d = static_cast<std::size_t>(axis);
      const Shape shape{3, 4, 5};
      const Tensor x = random_in(type, shape, random, 0, 100);
      const Tensor indices = random_indices(random, {2, 4, 3}, shape[d]);
      const auto source = [&](const Shape& i) {
        Shape index = i;
        index[d] = wrapped(at(indices, i), shape[d]);
        return index;
      };
      const Tensor gathered =
          run_node({"GatherElements", {{"axis", axis}}, {x, indices}, {{type, {2, 4, 3}}}})[0];
      check_movement(gathered, [&](const Shape& i) { return at(x, source(i)); });
      const Tensor updates = random_in(type, {2, 4, 3}, random, 0, 100);
      std::map<Shape, double> written;
      for_each_index({2, 4, 3}, [&](const Shape& i) { written[source(i)] = at(updates, i); });
      const Tensor scattered = run_node(
          {"ScatterElements", {{"axis", axis}}, {x, indices, updates}, {{type, shape}}})[0];
      check_movement(scattered,
                     [&](const Shape& i) { return written.contains(i) ? written[i] : at(x, i); });
    }
}

TEST_CASE("Elements and slices that many indices name, on several threads") {
  std::mt19937 random(12);
  const Shape shape{6, 90, 70};
  const auto f = DataType::float32;
  const Tensor x = random_in(f, shape, random, 0, 1000);
  for (const Shape& indexed : {Shape{6, 90, 70}, Shape{2, 80, 70}, Shape{6, 90, 64}})
    for (std::int64_t axis = 0; axis < 3; ++axis) {
      const auto d = static_cast<std::size_t>(axis);
      const Tensor indices = random_indices(random, indexed, shape[d]);
      const Tensor updates = random_in(f, indexed, random, 0, 1000);
      const auto source = [&](const Shape& i) {
        Shape index = i;
        index[d] = wrapped(at(indices, i), shape[d]);
        return index;
      };
      CAPTURE(axis, graph::to_string(indexed));
      check_movement(run_node({.op_type = "GatherElements",
                               .attributes = {{"axis", axis}},
                               .inputs = {x, indices},
                               .outputs = {{f, indexed}},
                               .threads = 3})[0],
                     [&](const Shape& i) { return at(x, source(i)); });
      std::map<Shape, double> sums;
      for_each_index(indexed, [&](const Shape& i) {
        double& sum = sums.try_emplace(source(i), at(x, source(i))).first->second;
        sum = static_cast<float>(sum) + static_cast<float>(at(updates, i));
      });
      check_movement(run_node({.op_type = "ScatterElements",
                               .attributes = {{"axis", axis}, {"reduction", std::string("add")}},
                               .inputs = {x, indices, updates},
                               .outputs = {{f, shape}},
                               .threads = 3})[0],
                     [&](const Shape& i) { return sums.contains(i) ? sums[i] : at(x, i); });
    }
  const Tensor slices = random_indices(random, {200, 1}, 6);
  const Tensor updates = random_in(f, {200, 90, 70}, random, 0, 1000);
  check_movement(run_node({.op_type = "GatherND",
                           .attributes = {},
                           .inputs = {x, slices},
                           .outputs = {{f, {200, 90, 70}}},
                           .threads = 3})[0],
                 [&](const Shape& i) {
                   return at(x, {wrapped(at(slices, {i[0], 0}), 6), i[1], i[2]});
                 });
  std::map<std::int64_t, std::int64_t> last;
  for (std::int64_t i = 0; i < 200; ++i) last[wrapped(at(slices, {i, 0}), 6)] = i;
  check_movement(run_node({.op_type = "ScatterND",
                           .attributes = {},
                           .inputs = {x, slices, updates},
                           .outputs = {{f, shape}},
                           .threads = 3})[0],
                 [&](const Shape& i) {
                   return last.contains(i[0]) ? at(updates, {last[i[0]], i[1], i[2]}) : at(x, i);
                 });
}

TEST_CASE("Scatter with a reduction combines all updates of an element") {
  const std::vector<std::pair<std::string, std::vector<double>>> truths = {
      {"add", {6, 1, 9}}, {"mul", {8, 1, 14}}, {"max", {4, 1, 7}}, {"min", {1, 1, 2}}};
  for (const auto& [reduction, truth] : truths)
    for (const DataType type : {DataType::float32, DataType::float64, DataType::float16,
                                DataType::bfloat16, DataType::int32, DataType::uint8}) {
      const Tensor x = tensor_of(type, {3}, {1, 1, 2});
      const Tensor updates = tensor_of(type, {3}, {4, 7, reduction == "add" ? 1.0 : 2.0});
      CAPTURE(reduction, name_of(type));
      CHECK(doubles(run_node({"ScatterElements",
                              {{"reduction", reduction}},
                              {x, ints({0, 2, 0}), updates},
                              {{type, {3}}}})[0]) == truth);
      const Tensor column = Tensor::of_int64({3, 1}, std::array<std::int64_t, 3>{0, -1, 0});
      CHECK(
          doubles(run_node(
              {"ScatterND", {{"reduction", reduction}}, {x, column, updates}, {{type, {3}}}})[0]) ==
          truth);
    }
}

TEST_CASE("Updates that meet at an element are combined in their order") {
  std::mt19937 random(11);
  const std::map<std::string, std::function<float(float, float)>> truths = {
      {"none", [](float, float y) { return y; }},
      {"add", std::plus<float>{}},
      {"mul", std::multiplies<float>{}},
      {"max", [](float x, float y) { return std::max(x, y); }},
      {"min", [](float x, float y) { return std::min(x, y); }}};
  const auto f = DataType::float32;
  for (const auto& [reduction, combine] : truths)
    for (const std::int64_t count : {1, 7, 700}) {
      const Tensor x = random_in(f, {5, 3}, random, 0.5, 2);
      const Tensor updates = random_in(f, {count, 3}, random, 0.5, 2);
      const Tensor slices = random_indices(random, {count, 1}, 5);
      const Tensor elements = random_indices(random, {count, 3}, 5);
      std::vector<double> by_slice = doubles(x);
      std::vector<double> by_element = doubles(x);
      const auto put = [&, &combining = combine](double& place, double update) {
        place = combining(static_cast<float>(place), static_cast<float>(update));
      };
      const auto all_updates = doubles(updates);
      const auto all_slices = doubles(slices);
      const auto all_elements = doubles(elements);
      for (std::size_t i = 0; i < all_updates.size(); ++i) {
        const auto slice = static_cast<std::size_t>(wrapped(all_slices[i / 3], 5));
        const auto element = static_cast<std::size_t>(wrapped(all_elements[i], 5));
        put(by_slice[slice * 3 + i % 3], all_updates[i]);
        put(by_element[element * 3 + i % 3], all_updates[i]);
      }
      CAPTURE(reduction, count);
      const std::map<std::string, Attribute> attributes = {{"reduction", reduction}};
      CHECK(doubles(run_node({"ScatterND", attributes, {x, slices, updates}, {{f, {5, 3}}}})[0]) ==
            by_slice);
      CHECK(doubles(run_node(
                {"ScatterElements", attributes, {x, elements, updates}, {{f, {5, 3}}}})[0]) ==
            by_element);
    }
}

TEST_CASE("GatherND and ScatterND name slices, and GatherND knows batches") {
  std::mt19937 random(10);
  for (const DataType type : one_of_each_size) {
    const Tensor x = random_in(type, {3, 4, 5}, random, 0, 100);
    const Tensor indices = random_indices(random, {2, 3, 2}, 3);
    const auto first = [&](const Shape& i) { return wrapped(at(indices, {i[0], i[1], 0}), 3); };
    const auto second = [&](const Shape& i) { return wrapped(at(indices, {i[0], i[1], 1}), 4); };
    const Tensor slices = run_node({"GatherND", {}, {x, indices}, {{type, {2, 3, 5}}}})[0];
    check_movement(slices, [&](const Shape& i) { return at(x, {first(i), second(i), i[2]}); });

    const Tensor batched_indices = random_indices(random, {3, 2, 1}, 4);
    const Tensor batched = run_node({"GatherND",
                                     {{"batch_dims", std::int64_t{1}}},
                                     {x, batched_indices},
                                     {{type, {3, 2, 5}}}})[0];
    check_movement(batched, [&](const Shape& i) {
      return at(x, {i[0], wrapped(at(batched_indices, {i[0], i[1], 0}), 4), i[2]});
    });

    const Tensor updates = random_in(type, {2, 3, 5}, random, 0, 100);
    std::map<Shape, double> written;
    for_each_index({2, 3, 5}, [&](const Shape& i) {
      written[{first(i), second(i), i[2]}] = at(updates, i);
    });
    const Tensor scattered =
        run_node({"ScatterND", {}, {x, indices, updates}, {{type, {3, 4, 5}}}})[0];
    check_movement(scattered,
                   [&](const Shape& i) { return written.contains(i) ? written[i] : at(x, i); });
  }
}

}  // namespace
}  // namespace autopar::runtime
