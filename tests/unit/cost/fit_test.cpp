#include "cost/fit.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "cost/device_file.h"
#include "cost/experiments.h"

using autopar::TemporaryFolder;
using namespace autopar::cost;
using autopar::graph::DataType;
using autopar::sharding::StepKind;

namespace {

constexpr std::array collectives = {StepKind::all_reduce, StepKind::all_gather,
                                    StepKind::reduce_scatter, StepKind::all_to_all};

/// Within a factor of 1 +- `relative`, the same for the same seed.
class Noise {
 public:
  Noise(double relative, unsigned seed) : relative_(relative), random_(seed) {}
  double operator()(double seconds) {
    return seconds * std::uniform_real_distribution<double>(1 - relative_, 1 + relative_)(random_);
  }

 private:
  double relative_;
  std::mt19937 random_;
};

DeviceModel true_device() {
  DeviceModel device;
  device.flops_per_second = {
      {DataType::float32, SizedRate({{1e5, 1e10}, {1e7, 5e10}, {1e9, 9e10}})},
      {DataType::float16, 2e10}};
  device.memory_bytes_per_second = SizedRate({{8e4, 8e10}, {8e6, 2e10}, {8e7, 1e10}});
  device.weight_bytes_per_second = 2e10;
  device.overlap = 0.3;
  device.launch_seconds = 2e-6;
  device.element_seconds = {{"Tanh", 3e-9}, {"Softmax", 1e-9}};
  Link first{2e-6, 4e9};
  first.by_kind = {{StepKind::all_reduce, {3e-6, 2e9}},
                   {StepKind::all_gather, {1e-6, 8e9}},
                   {StepKind::reduce_scatter, {2e-6, 4e9}},
                   {StepKind::all_to_all, {2e-6, 5e9}}};
  Link second{2e-5, 1e9};
  device.links = {first, second};
  return device;
}

/// What a device of these numbers would be measured to take.
Measurements measured(const DeviceModel& device, Noise noise) {
  Measurements all{.mesh_axes = 2};
  const CostModel model(device, autopar::sharding::DeviceMesh({1}));
  const auto add = [&](const std::string& op_type, DataType type, const Work& work) {
    all.operators.push_back({op_type, type, work, noise(model.work_seconds(work, type, op_type))});
  };
  for (const double elements : {1e2, 3e2, 1e3, 1e4, 1e5, 1e6, 1e7})
    add(memory_operator, DataType::float32, {.bytes = 8 * elements, .elements = elements});
  for (const double elements : {1e4, 3e4, 5e4}) {
    for (const char* op_type : {"Tanh", "Softmax"})
      add(op_type, DataType::float32, {.bytes = 8 * elements, .elements = elements});
  }
  for (const DataType type : {DataType::float32, DataType::float16}) {
    for (const double operations : {1e5, 1e6, 1e7, 1e8, 1e9, 1e10}) {
      add("MatMul", type,
          {.operations = operations, .product_operations = operations, .bytes = 1e3});
    }
  }
  for (const double weights : {1e6, 1e7}) {  // half an operation a byte: rows of one
    for (const double rows : {1, 32, 128}) {
      const double operations = weights / 2 * rows;
      add("MatMul", DataType::float32,
          {.operations = operations,
           .product_operations = operations,
           .bytes = 1e4,
           .weight_bytes = weights});
    }
  }
  for (int axis = 0; axis < 2; ++axis) {
    for (const StepKind kind : collectives) {
      for (const double bytes : {1e2, 1e4, 1e5, 1e6, 1e7}) {
        const double seconds = rounds_of(kind, 4, bytes).seconds(device.link(axis).speed(kind));
        all.collectives.push_back({kind, axis, 4, bytes, noise(seconds)});
      }
    }
  }
  return all;
}

void check_near(const DeviceModel& fitted, double relative) {
  const DeviceModel truth = true_device();
  const auto near = [relative](double number) { return Approx(number).epsilon(relative); };
  CHECK(fitted.launch_seconds == near(truth.launch_seconds));
  for (const double bytes : {8e4, 8e5, 8e6, 8e7}) {
    CHECK(fitted.memory_bytes_per_second.at(bytes) ==
          near(truth.memory_bytes_per_second.at(bytes)));
  }
  for (const double operations : {1e6, 1e7, 1e8, 1e9, 1e10}) {
    // Sizes that are near one another make one rate.
    CHECK(fitted.flops(DataType::float32).at(operations) ==
          Approx(truth.flops(DataType::float32).at(operations)).epsilon(relative + 0.25));
    CHECK(fitted.flops(DataType::float16).at(operations) == near(2e10));
  }
  CHECK(fitted.weight_bytes_per_second ==
        Approx(truth.weight_bytes_per_second).epsilon(relative + 0.2));  // and a row's arithmetic
  for (const auto& [op_type, seconds] : truth.element_seconds)
    CHECK(fitted.element_seconds.at(op_type) == Approx(seconds).epsilon(relative + 0.05));
  REQUIRE(fitted.links.size() == 2);
  for (int axis = 0; axis < 2; ++axis) {
    for (const StepKind kind : collectives) {
      const LinkSpeed speed = fitted.link(axis).speed(kind);
      CHECK(speed.latency_seconds == near(truth.link(axis).speed(kind).latency_seconds));
      CHECK(speed.bytes_per_second == near(truth.link(axis).speed(kind).bytes_per_second));
    }
  }
}

/// That --device takes what calibrate writes.
void check_is_loaded_again(DeviceModel fitted) {
  fitted.name = "fitted";
  fitted.source = "a test";
  fitted.memory_bytes = 1 << 30;
  const TemporaryFolder folder;
  const auto file = folder / "fitted.json";
  save_device_file(file, fitted);
  DeviceModel loaded;
  CHECK_NOTHROW(loaded = load_device_file(file));
  CHECK(device_json(loaded) == device_json(fitted));
}

}  // namespace

TEST_CASE("a line through points on one is found, with no negative number") {
  using Points = std::vector<std::pair<double, double>>;
  const Line exact = fit_line(Points{{0, 1}, {1, 3}, {10, 21}});
  CHECK(exact.intercept == Approx(1));
  CHECK(exact.slope == Approx(2));
  const Line through_origin = fit_line(Points{{1, 1}, {10, 100}});  // else -10 at 0
  CHECK(through_origin.intercept == 0);
  CHECK(through_origin.slope > 1);
  const Line level = fit_line(Points{{1, 10}, {10, 9}});
  CHECK(level.slope == 0);
  CHECK(level.intercept == Approx(9.5).epsilon(0.1));
  const Line single = fit_line(Points{{4, 8}});
  CHECK(single.intercept == 0);
  CHECK(single.slope == Approx(2));
}

TEST_CASE("errors count relative to what was measured") {
  // A second that is 1 % off weighs no more than a microsecond that is.
  const Line line = fit_line(
      std::vector<std::pair<double, double>>{{0, 1e-6}, {1, 1.1e-6}, {1e7, 1.01}, {2e7, 1.99}});
  CHECK(line.intercept == Approx(1e-6).epsilon(0.02));
  CHECK(line.slope == Approx(1e-7).epsilon(0.02));
}

TEST_CASE("a device is found again from what it would be measured to take") {
  check_near(fit_device(measured(true_device(), Noise(0, 1))), 0.02);
}

TEST_CASE("noise moves the numbers of a device by little more than itself") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const DeviceModel fitted = fit_device(measured(true_device(), Noise(0.05, seed)));
    check_near(fitted, 0.3);
    check_is_loaded_again(fitted);
  }
}

TEST_CASE("however bad the noise, what is fitted is a device file's") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const DeviceModel fitted = fit_device(measured(true_device(), Noise(0.9, seed)));
    CAPTURE(seed);
    CHECK(fitted.memory_bytes_per_second.takes_longer_for_more());
    for (const auto& [type, rate] : fitted.flops_per_second) CHECK(rate.takes_longer_for_more());
    CHECK(fitted.launch_seconds >= 0);
    for (const Link& link : fitted.links) {
      CHECK(link.latency_seconds >= 0);
      CHECK(link.bytes_per_second > 0);
    }
    check_is_loaded_again(fitted);
  }
}

TEST_CASE("an axis of one rank has the slowest link of the others") {
  Measurements all = measured(true_device(), Noise(0, 1));
  all.mesh_axes = 3;
  DeviceModel fitted = fit_device(all);
  REQUIRE(fitted.links.size() == 3);
  CHECK(fitted.link(2) == fitted.link(1));
  std::erase_if(all.collectives, [](const CollectiveSample& s) { return s.mesh_axis == 0; });
  fitted = fit_device(all);
  REQUIRE(fitted.links.size() == 3);
  CHECK(fitted.link(0) == fitted.link(1));
  CHECK(fitted.link(1).bytes_per_second == Approx(1e9).epsilon(0.02));
  all.collectives.clear();
  CHECK(fit_device(all).link(0).latency_seconds == 0);
}

TEST_CASE("small operators of one size tell a launch, too") {
  Measurements all = measured(true_device(), Noise(0, 1));
  std::erase_if(all.operators, [](const OperatorSample& s) {
    return s.op_type == memory_operator && s.work.elements > 1e2 && s.work.elements < 1e4;
  });
  CHECK(fit_device(all).launch_seconds == Approx(2e-6).epsilon(0.02));
}

TEST_CASE("a product that is faster than a launch does not spoil the rates") {
  Measurements all = measured(true_device(), Noise(0, 1));
  for (OperatorSample& sample : all.operators) {
    if (sample.work.operations == 1e5) sample.seconds = 1e-6;  // half a launch
  }
  const DeviceModel fitted = fit_device(all);
  check_is_loaded_again(fitted);
  CHECK(fitted.flops(DataType::float32).at(1e9) == Approx(9e10).epsilon(0.3));
}

TEST_CASE("without products of float32 or memory traffic there is no device") {
  Measurements all = measured(true_device(), Noise(0, 1));
  std::erase_if(all.operators, [](const OperatorSample& s) {
    return s.op_type == "MatMul" && s.type == DataType::float32;
  });
  CHECK_THROWS_WITH(fit_device(all), Catch::Contains("float32"));
  all = measured(true_device(), Noise(0, 1));
  std::erase_if(all.operators,
                [](const OperatorSample& s) { return s.op_type == memory_operator; });
  CHECK_THROWS_WITH(fit_device(all), Catch::Contains("memory"));
}

TEST_CASE("the quality of a fit is told by kind") {
  const Measurements all = measured(true_device(), Noise(0, 1));
  const auto exact = fit_quality(true_device(), all);
  for (const FitQuality& each : exact) {
    CAPTURE(each.what);
    CHECK(each.worst_error < 1e-9);
  }
  const auto found = std::ranges::find(exact, "all-reduce over mesh axis 1", &FitQuality::what);
  REQUIRE(found != exact.end());
  CHECK(found->samples == 5);
  DeviceModel wrong = true_device();
  wrong.flops_per_second[DataType::float16] = 4e10;
  for (const FitQuality& each : fit_quality(wrong, all)) {
    if (each.what == "MatMul float16") CHECK(each.worst_error == Approx(0.5).epsilon(0.01));
  }
}

TEST_CASE("experiments are of nodes that are alike, with work to tell of") {
  for (const Extent extent : {Extent::quick, Extent::full}) {
    bool has_memory = false;
    bool has_product = false;
    for (const ExperimentMaker& make : operator_experiments(extent)) {
      const OperatorExperiment each = make();
      CAPTURE(each.op_type);
      CHECK(each.graph.nodes.size() > 1);
      CHECK(each.work.bytes > 0);
      CHECK(each.work.elements > 0);
      CHECK(each.work.is_launched);
      has_memory |= each.op_type == memory_operator;
      has_product |= each.work.operations > 0;
      CHECK((each.op_type == "MatMul") == (each.work.operations > 0));
    }
    CHECK(has_memory);
    CHECK(has_product);
  }
}

TEST_CASE("collectives are measured over each axis of more than one rank, in one order") {
  const autopar::sharding::DeviceMesh mesh({2, 1, 3});
  const auto first = collective_experiments(Extent::quick, mesh, 0);
  const auto last = collective_experiments(Extent::quick, mesh, 5);
  REQUIRE(first.size() == last.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].kind == last[i].kind);
    CHECK(first[i].mesh_axis == last[i].mesh_axis);
    CHECK(first[i].mesh_axis != 1);
    CHECK(first[i].bytes == last[i].bytes);
  }
}
