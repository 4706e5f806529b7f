#include "runtime/shape_cache.h"

#include <catch2/catch.hpp>

#include "base/error.h"

using namespace autopar;
using namespace autopar::runtime;
using Catch::Matchers::Contains;

namespace {

using graph::DataType;
using graph::Shape;
using graph::Tensor;

bundle::ProfileInfo profile(const Shape& shape) {
  bundle::ProfileInfo profile;
  profile.inputs = {{.name = "x", .type = DataType::float32, .shape = shape}};
  return profile;
}

bundle::MetaInfo two_profiles() {
  bundle::MetaInfo info;
  info.profiles = {profile({1, 4}), profile({2, 4})};
  return info;
}

NamedTensors input(const Shape& shape) { return {{"x", Tensor::zeros(DataType::float32, shape)}}; }

std::size_t find(ShapeCache& cache, const NamedTensors& inputs) {
  InputShapes shapes;
  for (const auto& [name, tensor] : inputs) shapes.emplace(name, tensor.shape());
  return cache.find(shapes, inputs, {});
}

/// Counts what it makes; refuses more than 100 rows.
struct Source {
  int made = 0;

  SessionOptions options(std::int64_t cache_bytes) {
    SessionOptions options;
    options.shape_cache_bytes = cache_bytes;
    options.shapes = [this](const InputShapes& shapes) {
      if (shapes.at("x")[0] > 100) fail("too many rows");
      ++made;
      return ShapedProgram{profile(shapes.at("x")), [](int) { return graph::Graph(); }, "digest"};
    };
    return options;
  }
};

}  // namespace

TEST_CASE("a profile's shape is the profile's, and others are made once") {
  const bundle::MetaInfo info = two_profiles();
  Source source;
  ShapeCache cache(info, "bundle", source.options(1000));
  CHECK(find(cache, input({2, 4})) == 1);
  CHECK(find(cache, input({1, 4})) == 0);
  CHECK(source.made == 0);
  const std::size_t three = find(cache, input({3, 4}));
  CHECK(three == 2);
  CHECK(cache.program(three).profile.inputs.front().shape == Shape{3, 4});
  CHECK(cache.keep(three, 10).empty());
  CHECK(find(cache, input({3, 4})) == three);
  CHECK(source.made == 1);
}

TEST_CASE("what was used least recently is dropped, never what is in use") {
  const bundle::MetaInfo info = two_profiles();
  Source source;
  ShapeCache cache(info, "bundle", source.options(100));
  CHECK(cache.keep(find(cache, input({1, 4})), 40).empty());
  const std::size_t three = find(cache, input({3, 4}));
  CHECK(cache.keep(three, 40).empty());
  CHECK(cache.keep(find(cache, input({1, 4})), 40).empty());
  const std::size_t five = find(cache, input({5, 4}));
  CHECK(cache.keep(five, 40) == std::vector{three});
  CHECK(source.made == 2);
  const std::size_t again = find(cache, input({3, 4}));
  CHECK(source.made == 3);
  CHECK(cache.keep(again, 500) == std::vector<std::size_t>{0, five});
  CHECK(cache.keep(find(cache, input({1, 4})), 40) == std::vector{again});
}

TEST_CASE("inputs that no shape can mend are refused, and so is a shape by whoever makes it") {
  const bundle::MetaInfo info = two_profiles();
  Source source;
  ShapeCache cache(info, "bundle", source.options(100));
  CHECK_THROWS_WITH(find(cache, input({3})), Contains("takes float32 of 2 dimensions"));
  CHECK_THROWS_WITH(find(cache, {{"y", Tensor::zeros(DataType::float32, {1})}}),
                    Contains("no such input"));
  CHECK_THROWS_WITH(find(cache, input({101, 4})), Contains("too many rows"));
  CHECK(find(cache, input({100, 4})) == 2);
}

TEST_CASE("without a source the first profile's refusal stands") {
  const bundle::MetaInfo info = two_profiles();
  ShapeCache cache(info, "bundle", {});
  CHECK(find(cache, input({3, 4})) == 0);
}

TEST_CASE("what ranks have dropped is made anew, and what they have not compiled yet is not") {
  const bundle::MetaInfo info = two_profiles();
  Source source;
  ShapeCache cache(info, "bundle", source.options(1000));
  cache.keep(find(cache, input({1, 4})), 40);
  cache.keep(find(cache, input({3, 4})), 40);
  const std::size_t five = find(cache, input({5, 4}));
  cache.drop_all();
  CHECK(source.made == 2);
  CHECK(find(cache, input({5, 4})) == five);
  CHECK(find(cache, input({1, 4})) == 0);
  CHECK(source.made == 2);
  find(cache, input({3, 4}));
  CHECK(source.made == 3);
}
