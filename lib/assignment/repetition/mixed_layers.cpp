#include "assignment/repetition/mixed_layers.h"

#include <utility>

namespace autopar::assignment {

namespace {

/// Cuts that are tried on either side: a layer less leaves more for what joins the two kinds.
constexpr int tried_cuts = 2;
constexpr double share_of_cut = 0.2;  ///< of the time left

/// Layers before the cut as in `first`, others and what is in no layer as in `second`.
Choice cut_at(int cut, const RepeatedLayers& layers, const Choice& first, const Choice& second) {
  Choice mixed = second;
  for (std::size_t i = 0; i < mixed.size(); ++i)
    if (layers.layer[i] != RepeatedLayers::none && layers.layer[i] < cut) mixed[i] = first[i];
  return mixed;
}

/// Whether a node may differ from the mixture that has this cut.
bool is_free(int layer, int cut, const RepeatedLayers& layers) {
  const bool is_at_cut = layer == cut - 1 || layer == cut;
  return layer == RepeatedLayers::none || layer == 0 || layer == layers.layers - 1 || is_at_cut;
}

Incumbent join_at(int cut, const Choice& mixed, Cost cutoff, const Subproblem& whole,
                  const RepeatedLayers& layers, SolveContext& context) {
  Subproblem joint = whole;
  joint.cutoff = cutoff;
  joint.starts = {};
  joint.deadline = whole.deadline.share(share_of_cut);
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    if (is_free(layers.layer[i], cut, layers)) continue;
    std::vector<Cost>& costs = joint.problem.nodes[i].costs;
    for (int s = 0; s < std::ssize(costs); ++s)
      if (s != mixed[i]) costs[s] = impossible;
  }
  return solve_subproblem(std::move(joint), context);
}

}  // namespace

Incumbent mix_layers(const Subproblem& whole, const RepeatedLayers& layers, const Choice& within,
                     const Choice& beyond, SolveContext& context) {
  Incumbent best;
  const auto try_cut = [&](int cut, const Choice& first, const Choice& second) {
    const Choice mixed = cut_at(cut, layers, first, second);
    const Cost cutoff = std::min(whole.cutoff, best.cost);
    const Incumbent joined = join_at(cut, mixed, cutoff, whole, layers, context);
    if (!joined.choice.empty()) offer(whole.problem, joined.choice, best);
  };
  int most = 0;  // layers as beyond the limits
  while (most < layers.layers &&
         within_limits(whole.problem, cut_at(most + 1, layers, beyond, within)))
    ++most;
  for (int fewer = 0; fewer < std::min(tried_cuts, most); ++fewer) {
    const int cut = most - fewer;
    try_cut(cut, beyond, within);
    try_cut(layers.layers - cut, within, beyond);
  }
  return best;
}

}  // namespace autopar::assignment
