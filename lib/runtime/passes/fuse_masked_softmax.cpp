#include <array>

#include "runtime/passes/passes.h"
#include "runtime/passes/softmax_form.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

class MaskedSoftmaxFusion {
 public:
  MaskedSoftmaxFusion(Graph& graph, const KernelTable& kernels)
      : graph_(graph), kernels_(kernels), matcher_(graph) {}

  /// Nodes go from the last to the first: what follows the softmax comes before it.
  void run() {
    for (std::size_t n = graph_.nodes.size(); n-- > 0;)
      if (const auto fused = fused_into(graph_.nodes[n])) graph_.nodes[n] = *fused;
  }

 private:
  std::optional<Node> fused_into(const Node& root) const {
    if (root.outputs.size() != 1 || root.outputs[0] == graph::no_value) return std::nullopt;
    for (const bool through_casts : {true, false}) {
      const auto form = match_softmax(matcher_, root.outputs[0], 1, through_casts);
      if (!form) return std::nullopt;
      if (auto node = make(root, *form)) return node;
    }
    return std::nullopt;
  }

  std::optional<Node> make(const Node& root, const SoftmaxForm& form) const {
    const bool is_plain = form.masks.empty() && form.scale == 1 && !form.nan_to_zero;
    const ValueId out = root.outputs[0];
    const DataType type = matcher_.type(out);
    if (is_plain || matcher_.type(form.scores) != type || !Matcher::is_attribute(form.scale, type))
      return std::nullopt;
    Node node{root.name, "MaskedSoftmax", internal_domain, {form.scores}, {out}, {}};
    node.attributes["scale"] = static_cast<float>(form.scale);
    if (form.nan_to_zero) node.attributes["nan_to_zero"] = std::int64_t{1};
    if (!form.masks.empty()) {
      const Mask& mask = form.masks[0];
      if (!mask.keeps || (mask.fill && !Matcher::is_attribute(*mask.fill, type)))
        return std::nullopt;
      node.inputs.push_back(mask.value);
      if (mask.fill) node.attributes["fill"] = static_cast<float>(*mask.fill);
    }
    const bool fits = matcher_.is_closed(out, node.inputs) && can_run(kernels_, graph_, node);
    return fits ? std::optional(node) : std::nullopt;
  }

  Graph& graph_;
  const KernelTable& kernels_;
  Matcher matcher_;
};

}  // namespace

void fuse_masked_softmax(Graph& graph, const KernelTable& kernels) {
  MaskedSoftmaxFusion(graph, kernels).run();
}

}  // namespace autopar::runtime::passes
