// Splits a model of one input over two devices and runs the shards in this process, on the CPU:
//   split_and_run MODEL.onnx NAME=SHAPE BUNDLE
#include <autopar/error.h>
#include <autopar/planner.h>
#include <autopar/session.h>
#include <autopar/shape_source.h>

#include <cstdio>
#include <numeric>
#include <vector>

namespace planner = autopar::planner;
namespace runtime = autopar::runtime;
using autopar::graph::Tensor;

int main(int argc, char** argv) try {
  if (argc != 4) throw autopar::Error("usage: split_and_run MODEL.onnx NAME=SHAPE BUNDLE");
  const planner::Model model = planner::load_model({.file = argv[1], .shapes = {argv[2]}});
  const planner::Plan plan = planner::plan(model, {.ngpus = 2});
  planner::write_bundle(plan, {.out = argv[3]});
  std::printf("%d ranks, %.3g s a run predicted\n", plan.summary().ranks,
              plan.summary().cost_seconds);

  runtime::Session session(argv[3], {.shapes = planner::shape_source(argv[3])});
  const runtime::ModelPort input = session.inputs().front();
  std::vector<float> numbers(Tensor::zeros(input.type, *input.shape).elements());
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  for (int i = 0; i < 2; ++i) {  // weights and memory stay between runs
    const Tensor x = Tensor::of_float(*input.shape, numbers);
    for (const auto& [name, y] : session.run({{input.name, x}}).outputs)
      std::printf("%s[0] = %.6g\n", name.c_str(), y.values<float>()[0]);
  }
} catch (const autopar::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
