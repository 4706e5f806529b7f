#include "runtime/devices/cpu_device.h"

#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <thread>

#include "graph/tensor.h"
#include "runtime/executable.h"
#include "runtime/kernels/cpu/onednn.h"
#include "unit/runtime/run_node.h"

namespace autopar::runtime {
namespace {

using testing::Tensor;

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

TEST_CASE("No call of oneDNN waits for one that got no memory") {
  const pid_t child = fork();  // since nothing of this process could use oneDNN then
  if (child == 0) {
    int told = 0;
    try {
      cpu::within_onednn([]() -> int { throw std::bad_alloc(); });
    } catch (const std::bad_alloc&) {
      ++told;
    }
    try {
      cpu::within_onednn([] { return 0; });
    } catch (const Error& error) {
      told +=
          std::string_view(error.what()).find("start it again") == std::string_view::npos ? 0 : 1;
    }
    _exit(told);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
}

/// With constant weights, by oneDNN in float32, by loops in float64.
std::vector<double> convolved(const Tensor& in, const Tensor& weights, DataType type) {
  const auto as_type = [&](const Tensor& tensor) {
    return testing::tensor_of(type, tensor.shape(), testing::doubles(tensor));
  };
  const Shape out{in.shape()[0], weights.shape()[0], in.shape()[2], in.shape()[3]};
  return testing::doubles(testing::run_node({"Conv",
                                             {{"pads", std::vector<std::int64_t>(4, 1)}},
                                             {as_type(in), as_type(weights)},
                                             {{type, out}},
                                             {1}})
                              .front());
}

/// As QuantizedConv does.
void describe_convolution_of_bytes() {
  const auto any = [](const Shape& shape, dnnl::memory::data_type type) {
    return dnnl::memory::desc(shape, type, dnnl::memory::format_tag::any);
  };
  const dnnl::memory::dims none{0, 0};
  using Type = dnnl::memory::data_type;
  cpu::describe_primitive<dnnl::convolution_forward>(
      cpu::user_scratchpad(), dnnl::prop_kind::forward_inference,
      dnnl::algorithm::convolution_direct, any({1, 16, 8, 8}, Type::s8),
      any({64, 16, 1, 1}, Type::s8), any({1, 64, 8, 8}, Type::f32), dnnl::memory::dims{1, 1}, none,
      none, none);
}

TEST_CASE("Convolutions are made right beside those of bytes that other threads make") {
  const int remembered = dnnl::get_primitive_cache_capacity();
  dnnl::set_primitive_cache_capacity(0);  // each one is made anew
  std::mt19937 random(1);
  const auto draw = [&](const Shape& shape) {
    return testing::random_in(DataType::float32, shape, random, -1, 1);
  };
  std::vector<std::jthread> others;
  for (int i = 0; i < 2; ++i)
    others.emplace_back([](const std::stop_token& stop) {
      while (!stop.stop_requested()) describe_convolution_of_bytes();
    });
  int wrong = 0;
  for (std::int64_t round = 0; round < 1000; ++round) {
    const Tensor in = draw({2, 2 + round % 2, 8, 8});
    const Tensor weights = draw({8, 2 + round % 2, 3, 3});
    const auto is_near = [](double a, double b) { return std::abs(a - b) < 1e-4; };
    if (!std::ranges::equal(convolved(in, weights, DataType::float32),
                            convolved(in, weights, DataType::float64), is_near))
      ++wrong;
  }
  dnnl::set_primitive_cache_capacity(remembered);
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace autopar::runtime
