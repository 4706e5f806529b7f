// A strategy file, as `--strategy` takes it: plans are searched that keep to it.

#include <onnx/defs/parser.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "fuzzer.h"
#include "planner/planner.h"

namespace autopar::fuzz {
namespace {

constexpr const char* text = R"(<ir_version: 8, opset_import: ["" : 18]>
  model (float[4, 6] x) => (float[4, 6] y)
  <float[6, 8] w = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8,
                    1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}> {
    [product] h = MatMul(x, w)
    [relu] r = Relu(h)
    [turned] t = Transpose <perm = [1, 0]> (w)
    [back] b = MatMul(r, t)
    [sum] y = Add(b, x)
  })";

planner::Model made_model() {
  onnx::ModelProto proto;
  require(onnx::OnnxParser::Parse(proto, text).IsOK(), "the model is one");
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "model.onnx";
  std::ofstream(file, std::ios::binary) << proto.SerializeAsString();
  return planner::load_model({.file = file});
}

}  // namespace

void try_input(Bytes input) {
  static const planner::Model model = made_model();
  planner::PlanOptions options{.ngpus = 4, .mesh = "2x2", .search = "propagation"};
  options.strategy = file_of(input);
  planner::plan(model, options);
  options.ngpus = 2;
  options.mesh = "";
  options.stages = "2";
  allow_error([&] { planner::plan(model, options); });
}

}  // namespace autopar::fuzz
