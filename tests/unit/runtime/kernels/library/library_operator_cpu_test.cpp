// Kernels of libraries: they run, get scratch memory, and are refused where they write what they
// must not, or do not write what they must.

#include "runtime/kernels/library/library_operator.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>

#include "graph/operators/library_operator.h"
#include "runtime/device.h"
#include "runtime/kernels/library/guarded_block.h"
#include "unit/runtime/run_node.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using Catch::Contains;

namespace {

constexpr const char* domain = "test.kernels";

int same_shape(const AutoparNode* node, AutoparOutput* outputs, char*) {
  outputs[0].type = node->inputs[0].type;
  outputs[0].rank = node->inputs[0].rank;
  std::copy_n(node->inputs[0].shape, node->inputs[0].rank, outputs[0].shape);
  return 0;
}

std::int64_t size_of(const AutoparTensor& tensor) {
  std::int64_t size = 1;
  for (int d = 0; d < tensor.rank; ++d) size *= tensor.shape[d];
  return size;
}

/// Writes 2 x to so many elements of y.
void double_some(const AutoparRun& run, std::int64_t count) {
  const auto* x = static_cast<const float*>(run.inputs[0].data);
  auto* y = static_cast<float*>(run.outputs[0].data);
  for (std::int64_t i = 0; i < count; ++i) y[i] = 2 * x[std::min(i, size_of(run.inputs[0]) - 1)];
}

int double_all(const AutoparRun* run, char*) {
  double_some(*run, size_of(run->inputs[0]));
  return 0;
}

/// Runs a node of a new operator with this kernel.
Tensor run_with(const char* name, AutoparKernel kernel, AutoparScratch scratch = nullptr,
                Shape shape = {2, 3}) {
  static std::deque<AutoparOperator> operators;  // libraries are never unloaded
  AutoparOperator* const op = &operators.emplace_back();
  op->domain = domain;
  op->name = name;
  op->version = 1;
  op->min_inputs = op->max_inputs = op->min_outputs = op->max_outputs = 1;
  op->shapes = same_shape;
  op->cpu = kernel;
  op->scratch_bytes = scratch;
  graph::add_operators({AUTOPAR_OPERATOR_ABI, 1, op}, "lib.so");
  std::vector<float> values(static_cast<std::size_t>(graph::num_elements(shape)), 3.0F);
  graph::Graph graph;
  graph.opsets = {{"", 20}, {domain, 1}};
  graph::Node node{"n", name, domain, {}, {}, {}};
  node.inputs = {graph.add_value({"x", DataType::float32, shape, {}})};
  node.outputs = {graph.add_value({"y", DataType::float32, shape, {}})};
  graph.inputs = node.inputs;
  graph.outputs = node.outputs;
  graph.nodes = {node};
  Executable executable(graph, {});
  const auto run = [&] {
    executable.write_input(0, Tensor::of_float(shape, values));
    executable.run();
    return executable.read_output(0);
  };
  const Tensor checked = run();
  Tensor in_place = run();
  CHECK(std::ranges::equal(checked.bytes(), in_place.bytes()));
  return in_place;
}

std::string fault_of(const char* name, AutoparKernel kernel, AutoparScratch scratch = nullptr) {
  try {
    run_with(name, kernel, scratch);
  } catch (const graph::OperatorFault& fault) {
    return fault.what();
  }
  return "no fault";
}

}  // namespace

TEST_CASE("a library's kernel runs on the CPU, and a GPU has none without a CUDA kernel") {
  const Tensor doubled = run_with("Double", double_all);
  CHECK(std::ranges::all_of(doubled.values<float>(), [](float value) { return value == 6.0F; }));
  CHECK(cpu_kernels().find(domain, "Double") != nullptr);
  CHECK(cpu_kernels().find(domain, "Double") == cpu_kernels().find(domain, "Double"));
  CHECK(cpu_kernels().find(domain, "Nothing") == nullptr);
  CHECK(find_library_kernel(domain, "Double", /*on_gpu=*/true) == nullptr);
}

TEST_CASE("a library's kernel has the scratch memory that it asks for") {
  const auto asks = [](const AutoparNode*, const AutoparTensor* outputs, std::int64_t* bytes,
                       char*) {
    *bytes = 4 * size_of(outputs[0]);
    return 0;
  };
  const auto uses = [](const AutoparRun* run, char*) {
    const auto bytes = static_cast<std::size_t>(4 * size_of(run->outputs[0]));
    std::memcpy(run->scratch, run->inputs[0].data, bytes);
    std::memcpy(run->outputs[0].data, run->scratch, bytes);
    return reinterpret_cast<std::uintptr_t>(run->scratch) % 64 == 0 ? 0 : 1;
  };
  CHECK(run_with("Scratch", uses, asks).values<float>()[5] == 3.0F);
  CHECK_THAT(fault_of("NoScratch", uses), Contains("writes outside of its 0 bytes of scratch"));
  CHECK_THAT(fault_of("NegativeScratch", double_all,
                      [](const AutoparNode*, const AutoparTensor*, std::int64_t* bytes, char*) {
                        *bytes = -1;
                        return 0;
                      }),
             Contains("asks for -1 bytes"));
}

TEST_CASE("a kernel that writes outside of its outputs, or not all of them, is refused") {
  CHECK_THAT(fault_of("Past",
                      [](const AutoparRun* run, char*) {
                        double_some(*run, size_of(run->outputs[0]) + 1);
                        return 0;
                      }),
             Contains("node 'n': test.kernels::Past: its kernel writes outside of output 0") &&
                 Contains("float32 2x3") && Contains("mend the library"));
  CHECK_THAT(fault_of("Before",
                      [](const AutoparRun* run, char*) {
                        double_some(*run, size_of(run->outputs[0]));
                        static_cast<char*>(run->outputs[0].data)[-1] = 0;
                        return 0;
                      }),
             Contains("writes outside of output 0"));
  CHECK_THAT(fault_of("Short",
                      [](const AutoparRun* run, char*) {
                        double_some(*run, size_of(run->outputs[0]) - 2);
                        return 0;
                      }),
             Contains("leaves 2 of the 6 elements of output 0, float32 2x3, unwritten"));
}

TEST_CASE("a kernel that fails tells why; one that would make nothing is not called") {
  const auto fails = [](const AutoparRun*, char* error) {
    std::strcpy(error, "no such mode");
    return 3;
  };
  CHECK_THROWS_WITH(run_with("Fails", fails), "node 'n': test.kernels::Fails: no such mode");
  CHECK(run_with("Empty", fails, nullptr, {0, 3}).elements() == 0);
}

TEST_CASE("guards tell what was written around a block, and fills what was not in it") {
  const GuardedBlock untouched(6, std::byte{1});
  CHECK(untouched.guards_are_whole());
  CHECK(untouched.bytes().size() == 6);
  const GuardedBlock other(6, std::byte{2});
  CHECK(unwritten_elements(untouched, other, 4) == 2);
  untouched.bytes()[1] = std::byte{2};  // as the other's fill, which is still a change
  CHECK(unwritten_elements(untouched, other, 4) == 1);
  other.bytes()[5] = std::byte{1};
  CHECK(unwritten_elements(untouched, other, 4) == 0);
  const GuardedBlock written(6, std::byte{1});
  written.bytes().data()[6] = std::byte{2};
  CHECK_FALSE(written.guards_are_whole());
}
