#include <filesystem>

#include "graph/onnx/onnx_import.h"
#include "unit/runtime/passes/spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

struct Expected {
  std::string model;
  int normalizations;  ///< LayerNormalization and RMSNormalization
  int gelus;
  int rotaries;
  int attentions;
  graph::ShapeBindings shapes;
};

TEST_CASE("Each layer of the tiny models is found, whichever exporter wrote it") {
  for (const Expected& each :
       {Expected{
            "bert",
            5,
            2,
            0,
            2,
            {{"input_ids", {2, 16}}, {"attention_mask", {2, 16}}, {"token_type_ids", {2, 16}}}},
        Expected{"gpt2", 5, 2, 0, 2, {{"input_ids", {2, 16}}}},
        Expected{"llama", 5, 0, 4, 2, {{"input_ids", {2, 16}}}},
        Expected{"vit", 5, 2, 0, 2, {{"pixel_values", {2, 3, 32, 32}}}},
        Expected{"mlp", 0, 1, 0, 0, {{"x", {2, 48}}}}})
    for (const std::string exporter : {"dynamo", "torchscript"}) {
      graph::ImportOptions how;
      how.evaluate = evaluate_constants;
      how.is_native = [](std::string_view domain, std::string_view op_type) {
        return cpu_kernels().find(domain, op_type) != nullptr;
      };
      how.shapes = each.shapes;
      if (exporter == "torchscript" && (each.model == "gpt2" || each.model == "llama"))
        how.shapes["attention_mask"] = {2, 16};
      const std::filesystem::path folder(AUTOPAR_SOURCE_DIR);
      Graph graph =
          load_onnx(folder / "models/tiny" / (each.model + "-" + exporter) / "model.onnx", how);
      passes::optimize(graph, every_kernel());
      check_invariants(graph);
      CAPTURE(each.model, exporter);
      CHECK(count(graph, "LayerNormalization") + count(graph, "RMSNormalization") ==
            each.normalizations);
      const auto activated = std::ranges::count_if(graph.nodes, [](const graph::Node& node) {
        return node.string_attribute("activation", "").starts_with("Gelu");
      });
      CHECK(count(graph, "Gelu") + activated == each.gelus);
      CHECK(count(graph, "RotaryEmbedding") == each.rotaries);
      CHECK(count(graph, "Attention") == each.attentions);
      CHECK(count(graph, "Softmax") + count(graph, "MaskedSoftmax") == 0);
    }
}

}  // namespace
}  // namespace autopar::runtime
