#include "runtime/devices/cpu_device.h"

#include <omp.h>

#include <catch2/catch.hpp>

#include "graph/tensor.h"
#include "runtime/executable.h"

namespace autopar::runtime {
namespace {

TEST_CASE("Folding constants leaves the number of threads to the device that compiles") {
  const int before = omp_get_max_threads();
  {
    const CpuDevice device(before + 2);
    graph::Graph graph;
    graph.outputs = {
        graph.add_constant("c", graph::Tensor::of_int64({1}, std::vector<std::int64_t>{7}))};
    CHECK(evaluate_constants(graph));
    CHECK(omp_get_max_threads() == device.threads());
  }
  CHECK(omp_get_max_threads() == before);
}

}  // namespace
}  // namespace autopar::runtime
