#include "sharding/connect.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "sharding/connection_seconds.h"
#include "sharding/op_shard_spec.h"
#include "unit/sharding/simulated_devices.h"

using namespace autopar::sharding;
using autopar::graph::DataType;

namespace {

const std::vector<DeviceMesh> meshes{DeviceMesh({2}), DeviceMesh({3}), DeviceMesh({4}),
                                     DeviceMesh({2, 2}), DeviceMesh({2, 3})};

/// Every spec of the shape, partial ones included.
std::vector<TensorShardSpec> all_specs(const Shape& shape, const DeviceMesh& mesh,
                                       Reduce reduce = Reduce::sum) {
  std::vector<TensorShardSpec> result;
  for (const TensorShardSpec& spec : enumerate_tensor_shard_specs(shape, mesh)) {
    std::vector<int> unused;
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      const auto has = [axis](const std::vector<int>& axes) {
        return std::ranges::find(axes, axis) != axes.end();
      };
      if (std::ranges::none_of(spec.dims, has)) unused.push_back(axis);
    }
    for (unsigned mask = 0; mask < 1U << unused.size(); ++mask) {
      TensorShardSpec more = spec;
      for (std::size_t i = 0; i < unused.size(); ++i) {
        if ((mask >> i & 1U) != 0) more.partial.push_back(unused[i]);
      }
      if (more.is_partial()) more.reduce = reduce;
      result.push_back(more);
    }
  }
  return result;
}

bool is_connectable(const TensorShardSpec& src, const TensorShardSpec& dst) {
  return std::ranges::includes(src.partial, dst.partial) &&
         (!dst.is_partial() || src.reduce == dst.reduce);
}

/// The formulas of the cost model with a latency of 1 and a byte a second.
StepPrice plain_price(const DeviceMesh& mesh) {
  return [&mesh](const ReshardStep& step, const Shape& shape, DataType type) {
    if (step.kind == StepKind::slice) return 0.125;
    const double n = mesh.group_size(step.mesh_axes);
    const auto bytes = static_cast<double>(payload_bytes(step, shape, type, mesh, 0));
    const double share = step.kind == StepKind::all_to_all ? n * n : n;
    return (step.kind == StepKind::all_reduce ? 2 : 1) * (n - 1) * (1 + bytes / share);
  };
}

std::string kinds(const Connection& connection) {
  std::string result;
  for (const ReshardStep& step : connection.steps) {
    result += (result.empty() ? "" : ", ") + std::string(name_of(step.kind));
  }
  return result;
}

/// Whether one step leads from `a` to `b`, told from the two specs alone.
bool is_one_step(const TensorShardSpec& a, const TensorShardSpec& b) {
  const auto uses = [&a](int axis) {
    const auto has = [axis](const std::vector<int>& axes) {
      return std::ranges::find(axes, axis) != axes.end();
    };
    return has(a.partial) || std::ranges::any_of(a.dims, has);
  };
  std::vector<std::size_t> changed;
  for (std::size_t d = 0; d < a.dims.size(); ++d) {
    if (a.dims[d] != b.dims[d]) changed.push_back(d);
  }
  const auto grown = [](const std::vector<int>& small, const std::vector<int>& large) {
    return small.size() < large.size() && std::equal(small.begin(), small.end(), large.begin());
  };
  if (a.partial != b.partial) {
    if (!std::ranges::includes(a.partial, b.partial)) return false;
    if (b.is_partial() && a.reduce != b.reduce) return false;
    std::vector<int> finished;
    std::ranges::set_difference(a.partial, b.partial, std::back_inserter(finished));
    if (changed.empty()) return true;
    if (changed.size() > 1) return false;
    const std::vector<int>& from = a.dims[changed[0]];
    const std::vector<int>& to = b.dims[changed[0]];
    return grown(from, to) && std::is_permutation(to.begin() + std::ssize(from), to.end(),
                                                  finished.begin(), finished.end());
  }
  if (a.reduce != b.reduce) return false;
  if (changed.size() == 1) {
    const auto& from = a.dims[changed[0]];
    const auto& to = b.dims[changed[0]];
    if (grown(to, from)) return true;
    if (!grown(from, to)) return false;
    return std::none_of(to.begin() + std::ssize(from), to.end(), uses);
  }
  if (changed.size() != 2) return false;
  const auto moved = [&](std::size_t from, std::size_t to) {
    if (!grown(b.dims[from], a.dims[from]) || !grown(a.dims[to], b.dims[to])) return false;
    return std::equal(a.dims[from].begin() + std::ssize(b.dims[from]), a.dims[from].end(),
                      b.dims[to].begin() + std::ssize(a.dims[to]), b.dims[to].end());
  };
  return moved(changed[0], changed[1]) || moved(changed[1], changed[0]);
}

/// An arbitrary but fixed price for each pair of specs.
double arbitrary_price(const TensorShardSpec& before, const TensorShardSpec& after) {
  const std::size_t hash = std::hash<std::string>{}(to_string(before) + ">" + to_string(after));
  return 1 + static_cast<double>(hash % 1000) / 64;
}

}  // namespace

TEST_CASE("equal specs need no step") {
  const DeviceMesh mesh({4});
  const auto spec = TensorShardSpec::parse("S0R");
  const auto connection = connect(spec, spec, {8, 8}, DataType::float32, mesh, plain_price(mesh));
  CHECK(connection.steps.empty());
  CHECK(connection.seconds == 0);
}

TEST_CASE("each kind of difference has its collective") {
  const DeviceMesh mesh({4});
  const auto chain = [&](const char* src, const char* dst) {
    return kinds(connect(TensorShardSpec::parse(src), TensorShardSpec::parse(dst), {64, 64},
                         DataType::float32, mesh, plain_price(mesh)));
  };
  CHECK(chain("RR", "S0R") == "slice");
  CHECK(chain("S0R", "RR") == "all-gather");
  CHECK(chain("S0R", "RS0") == "all-to-all");
  CHECK(chain("RR+P0", "RR") == "all-reduce");
  CHECK(chain("RR+P0", "RS0") == "reduce-scatter");
}

TEST_CASE("two mesh axes are gathered at once where that is cheaper") {
  const DeviceMesh mesh({2, 2});
  const auto connection =
      connect(TensorShardSpec::parse("S01"), TensorShardSpec::parse("R"), {64}, DataType::float32,
              mesh, [](const ReshardStep&, const Shape&, DataType) { return 1.0; });
  REQUIRE(connection.steps.size() == 1);
  CHECK(connection.steps[0].mesh_axes == std::vector<int>{0, 1});
  CHECK(connection.steps[0].dim == 0);
}

TEST_CASE("axes are sliced, scattered and exchanged in one step, as one of a coarser mesh is") {
  const DeviceMesh mesh({2, 2, 2});
  const auto steps_between = [&](const char* src, const char* dst) {
    return connect(TensorShardSpec::parse(src), TensorShardSpec::parse(dst), {64, 64},
                   DataType::float32, mesh,
                   [](const ReshardStep&, const Shape&, DataType) { return 1.0; })
        .steps;
  };
  for (const auto& [src, dst, kind] :
       {std::tuple("RR", "S012R", StepKind::slice), std::tuple("RR", "S20R", StepKind::slice),
        std::tuple("S1R", "S1S20", StepKind::slice),
        std::tuple("RR+P02", "RS20", StepKind::reduce_scatter),
        std::tuple("RR+P012", "RR+P1", StepKind::all_reduce),
        std::tuple("S12R", "RS12", StepKind::all_to_all),
        std::tuple("S12S0", "RS012", StepKind::all_to_all)}) {
    const auto steps = steps_between(src, dst);
    CAPTURE(src, dst);
    REQUIRE(steps.size() == 1);
    CHECK(steps.front().kind == kind);
  }
}

TEST_CASE("a step takes axes in ascending order where a mesh has too many orders") {
  const DeviceMesh mesh(std::vector<int>(most_axes_stepped_in_any_order + 1, 2));
  const auto steps_between = [&](const char* src, const char* dst) {
    return connect(TensorShardSpec::parse(src), TensorShardSpec::parse(dst), {256},
                   DataType::float32, mesh,
                   [](const ReshardStep&, const Shape&, DataType) { return 1.0; })
        .steps.size();
  };
  CHECK(steps_between("R", "S0246") == 1);
  CHECK(steps_between("R", "S20") == 2);
  CHECK(steps_between("R+P0123456", "S0123456") == 1);
  CHECK(steps_between("R+P01", "S10") == 2);
}

TEST_CASE("an end that is partial where its start is not cannot be asked for") {
  const DeviceMesh mesh({2});
  const auto ask = [&](const char* src, const char* dst) {
    connect(TensorShardSpec::parse(src), TensorShardSpec::parse(dst), {4}, DataType::float32, mesh,
            plain_price(mesh));
  };
  CHECK_THROWS_AS(ask("R", "R+P0"), autopar::InternalError);
  CHECK_THROWS_AS(ask("R+P0", "R+P0max"), autopar::InternalError);
  CHECK_THROWS_AS(ask("R", "RR"), autopar::InternalError);
}

TEST_CASE("connections between all pairs of specs carry the data, uneven shares included") {
  std::mt19937 random(7);
  for (const DeviceMesh& mesh : meshes) {
    for (const std::size_t rank : {1U, 2U, 3U}) {
      if (rank == 3 && mesh.num_axes() == 2 && mesh.axis_size(1) == 2) continue;
      Shape shape;
      for (std::size_t d = 0; d < rank; ++d) {
        shape.push_back(std::uniform_int_distribution<std::int64_t>(2, 7)(random));
      }
      const auto reduce = static_cast<Reduce>(random() % 4);
      const auto specs = all_specs(shape, mesh, reduce);
      for (const TensorShardSpec& src : specs) {
        for (const TensorShardSpec& dst : specs) {
          if (!is_connectable(src, dst)) continue;
          const auto connection =
              connect(src, dst, shape, DataType::float32, mesh, plain_price(mesh));
          CAPTURE(to_string(mesh), autopar::graph::to_string(shape), to_string(src), to_string(dst),
                  kinds(connection));
          auto [whole, devices] = simulated::distribute(shape, src, mesh, random);
          const TensorShardSpec* at = &src;
          bool whole_way = true;
          for (const ReshardStep& step : connection.steps) {
            whole_way = whole_way && step.before == *at;
            at = &step.after;
            devices = simulated::after_step(step, devices, mesh);
            whole_way = whole_way && simulated::holds(devices, whole, step.after, mesh);
          }
          REQUIRE(whole_way);
          REQUIRE(*at == dst);
        }
      }
    }
  }
}

TEST_CASE("no chain of steps is cheaper than the connection") {
  struct Case {
    DeviceMesh mesh;
    Shape shape;
  };
  for (const auto& [mesh, shape] :
       {Case{DeviceMesh({3}), {6, 6, 6}}, Case{DeviceMesh({2, 2}), {8, 8}},
        Case{DeviceMesh({2, 3}), {6, 5, 4}}, Case{DeviceMesh({2, 2, 2}), {8}}}) {
    const auto specs = all_specs(shape, mesh);
    const std::size_t n = specs.size();
    // Floyd and Warshall's shortest paths between all pairs.
    std::vector<double> cost(n * n, std::numeric_limits<double>::infinity());
    for (std::size_t a = 0; a < n; ++a) {
      cost[a * n + a] = 0;
      for (std::size_t b = 0; b < n; ++b) {
        if (a != b && is_one_step(specs[a], specs[b])) {
          cost[a * n + b] = arbitrary_price(specs[a], specs[b]);
        }
      }
    }
    for (std::size_t via = 0; via < n; ++via) {
      for (std::size_t a = 0; a < n; ++a) {
        for (std::size_t b = 0; b < n; ++b) {
          cost[a * n + b] = std::min(cost[a * n + b], cost[a * n + via] + cost[via * n + b]);
        }
      }
    }
    const StepPrice price = [](const ReshardStep& step, const Shape&, DataType) {
      return arbitrary_price(step.before, step.after);
    };
    std::size_t connected = 0;
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        if (!is_connectable(specs[a], specs[b])) continue;
        CAPTURE(to_string(mesh), to_string(specs[a]), to_string(specs[b]));
        const auto connection = connect(specs[a], specs[b], shape, DataType::float32, mesh, price);
        REQUIRE(connection.seconds == Approx(cost[a * n + b]));
        double sum = 0;
        for (const ReshardStep& step : connection.steps) {
          REQUIRE(is_one_step(step.before, step.after));
          sum += price(step, shape, DataType::float32);
        }
        REQUIRE(sum == Approx(connection.seconds));
        ++connected;
      }
    }
    CHECK(connected > n);
  }
}

TEST_CASE("connections asked for one after another take what each takes alone") {
  for (const DeviceMesh& mesh : {DeviceMesh({3}), DeviceMesh({2, 3}), DeviceMesh({2, 2, 2})}) {
    const Shape shape = mesh.num_axes() == 3 ? Shape{8, 1} : Shape{6, 1, 5};
    const auto specs = all_specs(shape, mesh);
    ConnectionSeconds seconds(shape, DataType::float32, mesh, plain_price(mesh));
    const SymmetricAxes alike = mesh.num_axes() == 3   ? SymmetricAxes{0, 0, 0}
                                : mesh.num_axes() == 2 ? SymmetricAxes{0, 1}
                                                       : SymmetricAxes{0};
    ConnectionSeconds exchanging(
        shape, DataType::float32, mesh, plain_price(mesh),
        {.exchangeable = std::make_shared<AxisRenamings>(alike), .relaxed = {}});
    const std::vector<double> of_all = exchanging.between(specs, specs, {}, 2);
    for (std::size_t a = 0; a < specs.size(); ++a)
      for (std::size_t b = 0; b < specs.size(); ++b)
        CHECK(of_all[a * specs.size() + b] == Approx(seconds.of(specs[a], specs[b])));
    for (const TensorShardSpec& src : specs) {
      std::size_t connectable = 0;
      for (const TensorShardSpec& dst : specs) {
        CAPTURE(to_string(src), to_string(dst));
        if (!is_connectable(src, dst)) {
          CHECK(std::isinf(seconds.of(src, dst)));
          continue;
        }
        CHECK(seconds.of(src, dst) ==
              Approx(connect(src, dst, shape, DataType::float32, mesh, plain_price(mesh)).seconds));
        ++connectable;
      }
      CHECK(connectable > 1);
    }
  }
}

TEST_CASE("ways from specs that differ in which of exchangeable axes they use are found once") {
  const DeviceMesh mesh({2, 2, 2});
  const Shape shape{8, 8};
  int priced = 0;
  const StepPrice price = [&, plain = plain_price(mesh)](const ReshardStep& step, const Shape& of,
                                                         DataType type) {
    ++priced;
    return plain(step, of, type);
  };
  const auto ask = [&](ConnectionSeconds& seconds, const char* src, const char* dst) {
    const int before = priced;
    seconds.of(TensorShardSpec::parse(src), TensorShardSpec::parse(dst));
    return priced - before;
  };
  ConnectionSeconds alike(
      shape, DataType::float32, mesh, price,
      {.exchangeable = std::make_shared<AxisRenamings>(SymmetricAxes{0, 0, 0}), .relaxed = {}});
  CHECK(ask(alike, "S01R", "RS10") > 0);
  CHECK(ask(alike, "S21R", "RS12") == 0);
  ConnectionSeconds different(shape, DataType::float32, mesh, price);
  CHECK(ask(different, "S01R", "RS10") > 0);
  CHECK(ask(different, "S21R", "RS12") > 0);
}

TEST_CASE("connections that there was no time for can be asked for again") {
  const DeviceMesh mesh({2, 2, 2});
  const Shape shape{8, 8};
  const auto specs = all_specs(shape, mesh);
  ConnectionSeconds seconds(shape, DataType::float32, mesh, plain_price(mesh));
  ConnectionSeconds at_once(shape, DataType::float32, mesh, plain_price(mesh));
  const autopar::Stopwatch stopwatch;
  CHECK_THROWS_AS(seconds.between(specs, specs, autopar::TimeLimit(stopwatch, -1)),
                  autopar::OutOfTime);
  CHECK(seconds.between(specs, specs, autopar::TimeLimit(stopwatch, 1e6)) ==
        at_once.between(specs, specs));
}

TEST_CASE("a step's payload is what the rank's arrays hold, uneven shares included") {
  std::mt19937 random(11);
  for (const DeviceMesh& mesh : meshes) {
    for (const Shape& shape : std::vector<Shape>{{5}, {7, 3}, {2, 5}}) {
      const auto specs = all_specs(shape, mesh);
      for (const TensorShardSpec& src : specs) {
        for (const TensorShardSpec& dst : specs) {
          if (!is_one_step(src, dst)) continue;
          const auto connection =
              connect(src, dst, shape, DataType::float16, mesh,
                      [](const ReshardStep&, const Shape&, DataType) { return 1.0; });
          REQUIRE(connection.steps.size() == 1);
          const ReshardStep& step = connection.steps.front();
          const auto before = simulated::distribute(shape, src, mesh, random).devices;
          const auto after = simulated::after_step(step, before, mesh);
          for (int rank = 0; rank < mesh.num_devices(); ++rank) {
            const auto r = static_cast<std::size_t>(rank);
            const auto& counted = step.kind == StepKind::all_gather ? after[r] : before[r];
            const auto expected = step.kind == StepKind::slice
                                      ? 0
                                      : 2 * static_cast<std::int64_t>(counted.data.size());
            REQUIRE(payload_bytes(step, shape, DataType::float16, mesh, rank) == expected);
          }
        }
      }
    }
  }
}

TEST_CASE("nothing becomes partial, a replicated value least of all") {
  const auto can = [](const char* src, const char* dst) {
    return can_connect(TensorShardSpec::parse(src), TensorShardSpec::parse(dst));
  };
  CHECK(can("RR+P0", "RR"));
  CHECK(can("RR+P01", "S0R+P1"));
  CHECK(can("RS1+P0", "S1R+P0"));
  CHECK_FALSE(can("RR", "RR+P0"));
  CHECK_FALSE(can("S0R", "RR+P0"));
  CHECK_FALSE(can("RR+P1", "RR+P01"));
  CHECK_FALSE(can("RR+P0", "RR+P1"));
  CHECK_FALSE(can("RR+P0max", "RR+P0"));
}
