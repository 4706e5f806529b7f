#include "cost/collective_set.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "cost/cost_model.h"
#include "sharding/connection_seconds.h"

using namespace autopar;
using graph::DataType;
using sharding::DeviceMesh;
using sharding::Reduce;
using sharding::ReshardStep;
using sharding::StepKind;
using sharding::TensorShardSpec;

namespace {

ReshardStep gather(const char* before, const char* after, std::vector<int> axes, int dim) {
  return {.kind = StepKind::all_gather,
          .mesh_axes = std::move(axes),
          .dim = dim,
          .before = TensorShardSpec::parse(before),
          .after = TensorShardSpec::parse(after)};
}

ReshardStep reduction(const char* before, std::vector<int> axes, Reduce reduce) {
  ReshardStep step{.kind = StepKind::all_reduce,
                   .mesh_axes = std::move(axes),
                   .reduce = reduce,
                   .before = TensorShardSpec::parse(before),
                   .after = TensorShardSpec::parse("RR")};
  return step;
}

}  // namespace

TEST_CASE("a runtime's collectives are of equal shares, types and groups that it has") {
  const auto ort = cost::onnx_runtime_collectives();
  const auto trt = cost::tensorrt_collectives();
  const DeviceMesh line({2});
  const DeviceMesh square({2, 2});
  const auto has = [](const auto& set, const ReshardStep& step, const graph::Shape& shape,
                      const DeviceMesh& mesh, DataType type = DataType::float32) {
    return set->has(step, shape, type, mesh);
  };
  const ReshardStep rows = gather("S0R", "RR", {0}, 0);
  CHECK(has(ort, rows, {4, 3}, line));
  CHECK_FALSE(has(ort, rows, {5, 4}, line));
  CHECK(has(ort, rows, {4, 3}, line, DataType::int64));
  CHECK_FALSE(has(ort, rows, {4, 3}, line, DataType::int32));
  CHECK_FALSE(has(trt, rows, {4, 3}, line, DataType::float64));

  // One axis of a square is not the world.
  CHECK_FALSE(has(ort, rows, {4, 4}, square));
  CHECK(has(trt, rows, {4, 4}, square));
  CHECK(has(ort, gather("S01R", "RR", {0, 1}, 0), {4, 4}, square));
  // Along the axes the other way round, shares are not in the order of ranks.
  CHECK_FALSE(has(ort, gather("S10R", "RR", {1, 0}, 0), {4, 4}, square));
  CHECK_FALSE(has(trt, gather("S10R", "RR", {1, 0}, 0), {4, 4}, square));

  // Shares may differ between groups, but not within one.
  CHECK(has(trt, gather("S0S1", "S0R", {1}, 1), {3, 4}, square));
  CHECK_FALSE(has(trt, gather("S0S1", "S0R", {1}, 1), {4, 3}, square));

  CHECK(has(ort, reduction("RR+P0", {0}, Reduce::sum), {3, 3}, line));
  CHECK_FALSE(has(ort, reduction("RR+P0max", {0}, Reduce::max), {3, 3}, line));
  CHECK(has(trt, reduction("RR+P0max", {0}, Reduce::max), {3, 3}, line));

  ReshardStep scatter = reduction("RR+P0", {0}, Reduce::sum);
  scatter.kind = StepKind::reduce_scatter;
  scatter.dim = 0;
  scatter.after = TensorShardSpec::parse("S0R");
  CHECK_FALSE(has(ort, scatter, {4, 3}, line));
  CHECK(has(trt, scatter, {4, 3}, line));
  CHECK_FALSE(has(trt, scatter, {3, 4}, line));

  ReshardStep slice = gather("RR", "S0R", {0}, 0);
  slice.kind = StepKind::slice;
  CHECK(has(ort, slice, {5, 4}, line, DataType::int8));
  CHECK(has(ort, gather("S0R", "RR", {0}, 0), {5, 4}, DeviceMesh({1, 2})));  // moves nothing
}

TEST_CASE("a collective that the device lacks has an infinite price, and transposes take time") {
  cost::DeviceModel device = cost::load_device_model("h200");
  const cost::CostModel with_all(device, DeviceMesh({2}));
  device.collectives = cost::tensorrt_collectives();
  const cost::CostModel with_few(device, DeviceMesh({2}));
  const auto seconds = [](const cost::CostModel& model, const ReshardStep& step,
                          const graph::Shape& shape) {
    return model.step_seconds(step, shape, DataType::float32);
  };
  const ReshardStep rows = gather("S0R", "RR", {0}, 0);
  const ReshardStep columns = gather("RS0", "RR", {0}, 1);
  CHECK(seconds(with_few, rows, {64, 64}) == seconds(with_all, rows, {64, 64}));
  CHECK(seconds(with_few, columns, {64, 64}) >
        seconds(with_all, columns, {64, 64}) + device.launch_seconds);
  CHECK(std::isinf(seconds(with_few, rows, {65, 64})));
  CHECK(std::isfinite(seconds(with_all, rows, {65, 64})));

  const auto from = TensorShardSpec::parse("S0R");
  const auto way = [&](const graph::Shape& shape, const char* to) {
    const DeviceMesh mesh({2});
    sharding::ConnectionSeconds connections(shape, DataType::float32, mesh, with_few.step_price());
    return connections.of(from, TensorShardSpec::parse(to));
  };
  CHECK(std::isfinite(way({64, 64}, "RS0")));  // gathered, then sliced
  CHECK(std::isinf(way({65, 64}, "RR")));
  CHECK(way({65, 64}, "S0R") == 0);
}
