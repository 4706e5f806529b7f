#include "sharding/tensor_shard_spec.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "sharding/op_shard_spec.h"

using namespace autopar::sharding;
using autopar::Error;

namespace {

TensorShardSpec random_spec(std::mt19937& random) {
  std::vector<int> axes(10);
  std::iota(axes.begin(), axes.end(), 0);
  std::shuffle(axes.begin(), axes.end(), random);
  TensorShardSpec spec = TensorShardSpec::replicated(random() % 5);
  for (const int axis : axes) {
    const std::size_t target = random() % (spec.dims.size() + 3);
    if (target < spec.dims.size()) {
      spec.dims[target].push_back(axis);
    } else if (target == spec.dims.size()) {
      spec.partial.push_back(axis);
    }
  }
  std::ranges::sort(spec.partial);
  if (spec.is_partial()) spec.reduce = static_cast<Reduce>(random() % 4);
  return spec;
}

}  // namespace

TEST_CASE("a spec's text says what splits each dimension and what is partial") {
  const TensorShardSpec spec = TensorShardSpec::parse("RS20S1+P34max");
  CHECK(spec.dims == std::vector<std::vector<int>>{{}, {2, 0}, {1}});
  CHECK(spec.partial == std::vector<int>{3, 4});
  CHECK(spec.reduce == Reduce::max);
  CHECK(TensorShardSpec::parse(".").dims.empty());
  CHECK(TensorShardSpec::parse("RRR") == TensorShardSpec::replicated(3));
  CHECK(TensorShardSpec::parse("RR") == TensorShardSpec::replicated(2));
}

TEST_CASE("parsing and printing specs are inverse") {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const TensorShardSpec spec = random_spec(random);
    CAPTURE(to_string(spec));
    CHECK(TensorShardSpec::parse(to_string(spec)) == spec);
  }
  for (const char* text : {".", "R", "S0", "RS01", "S10R", "RR+P0", ".+P01mean", "S1R+P0min"}) {
    CHECK(to_string(TensorShardSpec::parse(text)) == text);
  }
}

TEST_CASE("a text that is no spec is refused and quoted") {
  for (const char* text : {"",    "S",   "X",      "RS",        "S0S0",     "S00",    "RR+P",
                           "+P0", "R+",  "RR+P10", "RR+P0sum",  "RR+P0avg", "RR+P00", "S0+P0",
                           "r",   "R R", ".R",     "RR+P0max ", "S-1",      "0"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(TensorShardSpec::parse(text),
                      Catch::Contains("'" + std::string(text) + "'") && Catch::Contains("RS0"));
  }
}

TEST_CASE("reductions have their names") {
  CHECK(name_of(Reduce::sum) == "sum");
  CHECK(name_of(Reduce::max) == "max");
  CHECK(name_of(Reduce::min) == "min");
  CHECK(name_of(Reduce::mean) == "mean");
}

TEST_CASE("shares are ceil(size / parts) each, the last smaller or empty") {
  CHECK(shard_range(50257, 4, 0) == Range{0, 12565});
  CHECK(shard_range(50257, 4, 3) == Range{37695, 50257});
  CHECK(shard_range(5, 4, 2) == Range{4, 5});
  CHECK(shard_range(5, 4, 3) == Range{5, 5});
  CHECK(shard_range(2, 4, 1) == Range{1, 2});
  CHECK(shard_range(2, 4, 3) == Range{2, 2});
  CHECK(shard_range(0, 3, 1) == Range{0, 0});
}

TEST_CASE("shares cover a dimension exactly once, in order") {
  for (std::int64_t size = 0; size < 40; ++size) {
    for (int parts = 1; parts < 12; ++parts) {
      std::int64_t next = 0;
      for (int index = 0; index < parts; ++index) {
        const Range range = shard_range(size, parts, index);
        CHECK(range.begin == next);
        CHECK(range.size() >= 0);
        CHECK(range.size() <= shard_range(size, parts, 0).size());
        next = range.end;
      }
      CHECK(next == size);
    }
  }
}

TEST_CASE("several axes split a dimension one after the other") {
  const DeviceMesh mesh({2, 2});
  const Shape shape{5};
  const auto range = [&](const char* spec, int rank) {
    return local_ranges(TensorShardSpec::parse(spec), shape, mesh, rank).front();
  };
  // First by axis 0 into 3 and 2, then by axis 1: not the shares of 4, which are 2, 2, 1 and 0.
  CHECK(range("S01", 0) == Range{0, 2});
  CHECK(range("S01", 1) == Range{2, 3});
  CHECK(range("S01", 2) == Range{3, 4});
  CHECK(range("S01", 3) == Range{4, 5});
  CHECK(range("S10", 1) == Range{3, 4});
}

TEST_CASE("local ranges tile the tensor, once for each replica") {
  for (const DeviceMesh& mesh :
       {DeviceMesh({1}), DeviceMesh({3}), DeviceMesh({2, 3}), DeviceMesh({2, 2, 2})}) {
    for (const Shape& shape : std::vector<Shape>{{}, {7}, {5, 4}, {2, 3, 7}}) {
      for (const TensorShardSpec& spec : enumerate_tensor_shard_specs(shape, mesh)) {
        CAPTURE(to_string(spec), to_string(mesh));
        std::vector<int> covered(static_cast<std::size_t>(autopar::graph::num_elements(shape)), 0);
        std::int64_t largest = 0;
        for (int rank = 0; rank < mesh.num_devices(); ++rank) {
          const auto ranges = local_ranges(spec, shape, mesh, rank);
          std::vector<std::size_t> offsets{0};
          for (std::size_t d = 0; d < shape.size(); ++d) {
            std::vector<std::size_t> next;
            for (const std::size_t offset : offsets) {
              for (std::int64_t i = ranges[d].begin; i < ranges[d].end; ++i) {
                next.push_back(offset * static_cast<std::size_t>(shape[d]) +
                               static_cast<std::size_t>(i));
              }
            }
            offsets = next;
          }
          for (const std::size_t offset : offsets) ++covered[offset];
          const Shape local = local_shape(spec, shape, mesh, rank);
          CHECK(autopar::graph::num_elements(local) == static_cast<std::int64_t>(offsets.size()));
          largest = std::max(largest, autopar::graph::num_elements(local));
        }
        int split = 1;
        for (const auto& axes : spec.dims) split *= mesh.group_size(axes);
        CHECK(std::ranges::all_of(covered,
                                  [&](int times) { return times == mesh.num_devices() / split; }));
        CHECK(autopar::graph::num_elements(largest_local_shape(spec, shape, mesh)) == largest);
      }
    }
  }
}

TEST_CASE("every spec of a tensor is enumerated once, replicated first") {
  const auto texts = [](const Shape& shape, const DeviceMesh& mesh) {
    std::vector<std::string> result;
    for (const auto& spec : enumerate_tensor_shard_specs(shape, mesh)) {
      result.push_back(to_string(spec));
    }
    return result;
  };
  CHECK(texts({4, 6}, DeviceMesh({2})) == std::vector<std::string>{"RR", "S0R", "RS0"});
  CHECK(texts({1, 6}, DeviceMesh({2})) == std::vector<std::string>{"RR", "RS0"});
  CHECK(texts({4, 6}, DeviceMesh({1})) == std::vector<std::string>{"RR"});
  CHECK(texts({}, DeviceMesh({2})) == std::vector<std::string>{"."});
  auto all = texts({4, 6}, DeviceMesh({2, 2}));
  CHECK(all.front() == "RR");
  std::ranges::sort(all);
  CHECK(all == std::vector<std::string>{"RR", "RS0", "RS01", "RS1", "RS10", "S01R", "S0R", "S0S1",
                                        "S10R", "S1R", "S1S0"});
}
