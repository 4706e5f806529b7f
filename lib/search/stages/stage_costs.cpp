// Bounds. What holds for a stage of layers [i, k) on a mesh of n devices:
// 1. Its operators' shares without communication (operator_bound).
// 2. Its weights need n times a device's capacity, else it has no plan.
// 3. Parts of it. A block is a run of layers as a problem of its own, without limits, in which the
//    tensors that others make or read, too, cost nothing: whoever reads them has them as wanted.
//    A plan of the stage, looked at block by block, is a choice of each block's problem, and no
//    cost of it is counted twice: costs of nodes and edges are not negative, an edge between two
//    blocks is left out, and so is all that stored tensors cost which several blocks read. So the
//    sum of the blocks' optima is a bound. In the first block what arrives has to land and to be
//    spread, which only the readers within it are asked to pay.
//    Where a stage's weights are limited to a share of them, which is a sum over its weights, they
//    have a price in all blocks, and what the block's own weights may take is taken off again (a
//    Lagrangian relaxation: bounds hold for every price, and each view has one).
//    This needs that an operator has no strategy in the stage that it lacks in the block, which
//    could differ in what is kept partial (partial_flow.h): it is compared operator by operator,
//    and stages in which it differs have bound 1.
// Blocks of one layer come first. Where the pipeline wants a stage whose bound is not exact, blocks
// of 2, 4, 8... layers follow on its meshes, as long as few of them differ, and then the stage
// itself is searched, on the view of the least bound.

#include "search/stages/stage_costs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "assignment/saturating.h"
#include "base/error.h"
#include "base/interruption.h"
#include "search/operator_bound.h"
#include "search/plan_builder.h"
#include "search/stages/in_parallel.h"

namespace autopar::search {

namespace {

/// Blocks of a length are searched where no more than so many differ, besides single layers.
constexpr int most_kinds_of_blocks = 8;
/// For a bound alone.
constexpr double most_seconds_a_block = 10;
constexpr int most_price_steps = 8;
/// Of the time left, for one stage.
constexpr double share_of_stage = 0.1;
/// Of all time, for what is kept partial in which stage.
constexpr double share_of_flows = 0.1;

std::size_t at(int number) { return static_cast<std::size_t>(number); }

assignment::Cost to_cost(double seconds) { return std::llround(seconds / seconds_per_cost); }

/// Of the graph's operators, by NodeId.
std::vector<sharding::PartialUse> partial_uses(const graph::Graph& graph, KeepPartial keep) {
  NodeRules rules;
  for (const graph::Node& node : graph.nodes) rules.push_back(sharding::sharding_rule(graph, node));
  const PartialFlow flow(graph, rules, keep);
  std::vector<sharding::PartialUse> uses;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id)
    uses.push_back(flow.use_of(static_cast<graph::NodeId>(id)));
  return uses;
}

bool are_alike(const sharding::PartialUse& a, const sharding::PartialUse& b) {
  return a.groups == b.groups && a.kept == b.kept && a.reduces_later == b.reduces_later;
}

/// As the limit of MemoryPolicy::Kind::fair counts it (plan_builder).
std::int64_t fair_share(const graph::Value& value, int devices, std::int64_t least) {
  return std::max<std::int64_t>(value.constant->size_bytes() * 5 / 4 / devices, least);
}

/// A pin is for the stages that have what it names. One that is for operators in the whole model
/// is not for tensors where a stage has none of these, but for the one of exactly its name.
std::optional<Pin> pin_for(const graph::Graph& stage, Pin pin, bool is_for_operators) {
  if (is_for_operators) {
    if (names_operator(pin, stage)) return pin;
    const auto has_its_name = [&](const graph::Value& value) { return value.name == pin.name; };
    if (std::ranges::none_of(stage.values, has_its_name)) return std::nullopt;
    pin.inputs.reset();
    pin.reductions.reset();
  }
  try {
    Pins({pin}, stage);
    return pin;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Adds to what strategies cost what they take, rounded down.
void set_price(assignment::AssignmentProblem& problem, const std::vector<int>& nodes,
               double price) {
  if (price == 0) return;
  for (const int id : nodes) {
    assignment::AssignmentProblem::Node& node = problem.nodes[at(id)];
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      const double paid = price * static_cast<double>(node.usages[s]);
      node.costs[s] =
          assignment::plus(node.costs[s], static_cast<assignment::Cost>(std::min(
                                              paid, static_cast<double>(assignment::impossible))));
    }
  }
}

/// Of bounds; that of a block without one is `-impossible`.
assignment::Cost sum_of_bounds(assignment::Cost a, assignment::Cost b) {
  return a <= -assignment::impossible || b <= -assignment::impossible ? -assignment::impossible
                                                                      : assignment::plus(a, b);
}

}  // namespace

StageCosts::StageCosts(const graph::Graph& graph, const graph::StageCutter& cutter, LayerCuts cuts,
                       const cost::DeviceModel& device, std::vector<Submesh> submeshes,
                       const SearchOptions& options)
    : graph_(graph),
      cutter_(cutter),
      cuts_(std::move(cuts)),
      layers_(static_cast<int>(cuts_.size()) - 1),
      capacity_(options.memory.kind == MemoryPolicy::Kind::bytes ? options.memory.bytes
                                                                 : device.memory_bytes),
      submeshes_(std::move(submeshes)),
      options_(options),
      classes_(graph, cutter, cuts_, std::array{device.fused.get(), device.without_memory.get()},
               !options.pins.empty()) {
  for (std::size_t size = 0; size < submeshes_.size(); ++size) {
    auto& views = views_of_size_.emplace_back();
    for (const sharding::DeviceMesh& mesh : submeshes_[size].views) {
      views.push_back(static_cast<int>(views_.size()));
      views_.push_back(
          {.model = {device, mesh}, .size = static_cast<int>(size), .inner = {}, .first = {}});
    }
  }
  for (const Pin& pin : options_.pins) pins_operators_.push_back(names_operator(pin, graph_));
  find_operator_bounds(device);
  find_weights();
  find_shared_values();
  find_flows();
}

graph::StageGraph StageCosts::cut(int begin, int end) const {
  return cutter_.cut(cuts_[at(begin)], cuts_[at(end)]);
}

void StageCosts::find_operator_bounds(const cost::DeviceModel& device) {
  std::vector<int> devices;
  for (const Submesh& submesh : submeshes_) devices.push_back(submesh.devices);
  for (const std::vector<double>& shares : least_operator_seconds(devices, graph_, device)) {
    std::vector<assignment::Cost>& sums = operator_bounds_.emplace_back();
    assignment::Cost sum = 0;
    int layer = 0;
    for (std::size_t n = 0; n <= shares.size(); ++n) {
      for (; layer <= layers_ && at(cuts_[at(layer)]) == n; ++layer) sums.push_back(sum);
      if (n == shares.size()) break;
      // Rounded down, and further than the rounding of either goes.
      sum += std::max<assignment::Cost>(
          0, static_cast<assignment::Cost>(shares[n] / seconds_per_cost) - 1);
    }
  }
}

void StageCosts::find_weights() {
  weights_.assign(at(layers_ + 1) * at(layers_ + 1), 0);
  for (int begin = 0; begin < layers_; ++begin) {
    std::vector<bool> is_counted(graph_.values.size(), false);
    std::int64_t bytes = 0;
    for (int end = begin + 1; end <= layers_; ++end) {
      for (graph::NodeId n = cuts_[at(end) - 1]; n < cuts_[at(end)]; ++n) {
        for (const graph::ValueId input : graph_.node(n).inputs) {
          if (!graph_.is_constant(input) || is_counted[at(input)]) continue;
          is_counted[at(input)] = true;
          bytes += graph_.value(input).constant->size_bytes();
        }
      }
      weights_[place(begin, end)] = bytes;
    }
  }
}

void StageCosts::find_shared_values() {
  const std::vector<graph::NodeId> producers = graph::producers(graph_);
  for (int layer = 0; layer < layers_; ++layer) {
    for (graph::NodeId n = cuts_[at(layer)]; n < cuts_[at(layer) + 1]; ++n) {
      for (const graph::ValueId input : graph_.node(n).inputs) {
        if (input == graph::no_value || producers[at(input)] != graph::no_node) continue;
        const auto [entry, is_new] =
            readers_.try_emplace(graph_.value(input).name, std::pair(layer, layer));
        entry->second.second = layer;
      }
    }
  }
}

void StageCosts::find_flows() {
  flows_alike_.assign(at(classes_.count()), false);
  const auto has_one = [](const Submesh& submesh) { return submesh.devices == 1; };
  const bool has_blocks =
      options_.method == SearchMethod::ilp && !std::ranges::all_of(submeshes_, has_one);
  if (!has_blocks || !options_.pins.empty()) return;
  const assignment::Deadline deadline(share_of_flows * options_.time_limit_seconds);
  std::map<int, std::pair<int, int>> runs;  // one for each class
  for (int begin = 0; begin < layers_; ++begin) {
    for (int end = begin + 1; end <= layers_; ++end)
      runs.try_emplace(classes_.of(begin, end), begin, end);
  }
  std::map<int, std::vector<sharding::PartialUse>> of_layers;
  for (int layer = 0; layer < layers_; ++layer) {
    auto& uses = of_layers[classes_.of(layer, layer + 1)];
    if (uses.empty()) uses = partial_uses(cut(layer, layer + 1).graph, options_.keep_partial);
  }
  const std::vector<std::pair<int, std::pair<int, int>>> all(runs.begin(), runs.end());
  std::vector<char> are_safe(all.size(), 0);
  in_parallel(all.size(), [&](std::size_t i) {
    if (deadline.is_over()) return;
    const auto [begin, end] = all[i].second;
    const auto uses = partial_uses(cut(begin, end).graph, options_.keep_partial);
    std::size_t op = 0;
    bool is_alike = true;
    for (int layer = begin; layer < end; ++layer) {
      for (const auto& use : of_layers.at(classes_.of(layer, layer + 1)))
        is_alike = is_alike && are_alike(use, uses[op++]);
    }
    are_safe[i] = is_alike;
  });
  for (std::size_t i = 0; i < all.size(); ++i) flows_alike_[at(all[i].first)] = are_safe[i];
}

const StageCosts::Found* StageCosts::found(int view, int begin, int end) const {
  const auto entry = found_.find({classes_.of(begin, end), view});
  return entry == found_.end() ? nullptr : &entry->second;
}

assignment::Cost StageCosts::bound_on(int view, int begin, int end) const {
  const Found* known = found(view, begin, end);
  if (known != nullptr && known->is_done) return known->bound;
  return bound_without_search(view, begin, end);
}

assignment::Cost StageCosts::bound_without_search(int view, int begin, int end) const {
  const View& on = views_[at(view)];
  const std::vector<assignment::Cost>& operators = operator_bounds_[at(on.size)];
  assignment::Cost bound = operators[at(end)] - operators[at(begin)];
  if (!on.first.empty()) bound = std::max(bound, on.first[place(begin, end)]);
  return bound;
}

int StageCosts::view_of_least_bound(int size, int begin, int end) const {
  const std::vector<int>& views = views_of_size_[at(size)];
  return *std::ranges::min_element(
      views, {}, [&](int view) { return std::pair(bound_on(view, begin, end), view); });
}

assignment::Cost StageCosts::lower_bound(int size, int begin, int end) const {
  const std::int64_t devices = submeshes_[at(size)].devices;
  if (weights_[place(begin, end)] / devices > capacity_) return assignment::impossible;
  return bound_on(view_of_least_bound(size, begin, end), begin, end);
}

assignment::Cost StageCosts::certain_bound(int size, int begin, int end) const {
  if (weights_[place(begin, end)] / submeshes_[at(size)].devices > capacity_)
    return assignment::impossible;
  assignment::Cost least = assignment::impossible;
  for (const int view : views_of_size_[at(size)]) {
    const Found* known = found(view, begin, end);
    least = std::min(least, known != nullptr && !known->is_certain
                                ? bound_without_search(view, begin, end)
                                : bound_on(view, begin, end));
  }
  return least;
}

assignment::Cost StageCosts::cost(int size, int begin, int end) const {
  assignment::Cost least = assignment::impossible;
  for (const int view : views_of_size_[at(size)]) {
    if (const Found* known = found(view, begin, end)) least = std::min(least, known->cost);
  }
  return least;
}

bool StageCosts::is_settled(int size, int begin, int end) const {
  if (lower_bound(size, begin, end) >= assignment::impossible) return true;
  const Found* known = found(view_of_least_bound(size, begin, end), begin, end);
  return known != nullptr && known->is_done;
}

const plan::Plan& StageCosts::plan(int size, int begin, int end) const {
  const Found* best = nullptr;
  for (const int view : views_of_size_[at(size)]) {
    const Found* known = found(view, begin, end);
    if (known != nullptr && known->plan && (best == nullptr || known->cost < best->cost))
      best = known;
  }
  require(best != nullptr, "a stage that was chosen has a plan");
  return *best->plan;
}

std::string StageCosts::refusal(int size, int begin, int end) const {
  const std::int64_t devices = submeshes_[at(size)].devices;
  const std::int64_t weights = weights_[place(begin, end)];
  if (weights / devices > capacity_) {
    return fmt::format(
        "its weights take {:.1f} MiB of each of {} devices, of which {:.1f} MiB may "
        "be used: raise --memory or add devices",
        static_cast<double>(weights / devices) / 1048576.0, devices,
        static_cast<double>(capacity_) / 1048576.0);
  }
  std::string text;
  for (const int view : views_of_size_[at(size)]) {
    const Found* known = found(view, begin, end);
    if (known == nullptr || known->bound < assignment::impossible) return "";
    text = known->refusal;
  }
  return text;
}

// Searches

void StageCosts::advance(std::span<const StageChoice> stages, double seconds_left) {
  std::map<int, int> levels;  // by view, that are wanted
  std::vector<std::pair<int, StageChoice>> runs;
  for (const StageChoice& stage : stages) {
    if (is_settled(stage.size, stage.begin, stage.end)) continue;
    const int view = view_of_least_bound(stage.size, stage.begin, stage.end);
    const int most = std::bit_width(at(stage.end - stage.begin)) - 1;
    int level = views_[at(view)].level + 1;
    while (level <= most && !is_worth_refining(view, level)) ++level;
    const bool is_bounded_by_blocks = flows_alike_[at(classes_.of(stage.begin, stage.end))];
    if (is_bounded_by_blocks && level <= most) {
      for (const int other : views_of_size_[at(stage.size)])
        levels[other] = std::max(levels[other], level);
    } else {
      runs.emplace_back(view, stage);
    }
  }
  const assignment::Deadline deadline(seconds_left);
  if (!levels.empty()) refine(levels, deadline);
  search_all(runs, options_, deadline, true);
}

/// On the first view of each at first, and on all others where that has none.
void StageCosts::find_quickly(std::span<const StageChoice> stages, double seconds_left) {
  const assignment::Deadline deadline(seconds_left);
  SearchOptions options = options_;
  options.method = SearchMethod::recursive;
  options.bound = false;
  for (const bool is_first : {true, false}) {
    std::vector<std::pair<int, StageChoice>> runs;
    for (const StageChoice& stage : stages) {
      if (cost(stage.size, stage.begin, stage.end) < assignment::impossible) continue;
      const std::vector<int>& views = views_of_size_[at(stage.size)];
      for (const int view : views) {
        const bool is_tried = found(view, stage.begin, stage.end) != nullptr;
        if (!is_tried && (!is_first || view == views.front())) runs.emplace_back(view, stage);
      }
    }
    search_all(runs, options, deadline, false);
  }
}

/// Those that are final are left out where the time is over when their turn comes.
void StageCosts::search_all(const std::vector<std::pair<int, StageChoice>>& runs,
                            const SearchOptions& options, const assignment::Deadline& deadline,
                            bool is_final) {
  std::map<std::pair<int, int>, StageChoice> distinct;
  for (const auto& [view, stage] : runs)
    distinct.try_emplace({classes_.of(stage.begin, stage.end), view}, stage);
  const std::vector<std::pair<std::pair<int, int>, StageChoice>> jobs(distinct.begin(),
                                                                      distinct.end());
  const double share = share_of_stage * std::max(0.0, deadline.left());
  std::vector<std::optional<Found>> results(jobs.size());
  in_parallel(jobs.size(), [&](std::size_t i) {
    if (is_final && deadline.is_over()) return;
    SearchOptions own = options;
    own.time_limit_seconds = std::max(0.0, std::min(share, deadline.left()));
    own.threads = threads_of_each(jobs.size());
    results[i] = search(jobs[i].first.second, jobs[i].second.begin, jobs[i].second.end, own);
  });
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!results[i]) continue;
    Found& result = *results[i];
    if (result.plan) glpk_seconds_ += result.plan->summary.glpk_seconds;
    const auto [entry, is_new] = found_.try_emplace(jobs[i].first);
    Found& known = entry->second;
    result.is_done = is_final;
    is_certain_ = is_certain_ && (!is_final || result.is_certain);
    if (is_new || is_final || result.cost < known.cost) known = std::move(result);
  }
}

SearchOptions StageCosts::options_for(const graph::StageGraph& stage, SearchOptions options) const {
  options.warns = false;
  options.pins.clear();
  for (std::size_t i = 0; i < options_.pins.size(); ++i) {
    if (auto pin = pin_for(stage.graph, options_.pins[i], pins_operators_[i]))
      options.pins.push_back(std::move(*pin));
  }
  return options;
}

StageCosts::Found StageCosts::search(int view, int begin, int end, SearchOptions options) const {
  const graph::StageGraph stage = cut(begin, end);
  options = options_for(stage, std::move(options));
  if (begin > 0) options.rank0_bytes = 0;  // it is in the first stage
  const bool is_exact = options.method == SearchMethod::ilp;
  Found result;
  try {
    plan::Plan plan = search_plan(stage, views_[at(view)].model, options);
    result.cost = to_cost(plan.summary.cost_seconds);
    // What a quick method finds is what is compared.
    result.is_certain = is_exact;
    result.bound =
        is_exact ? std::min(result.cost, to_cost(plan.summary.lower_bound_seconds)) : result.cost;
    result.plan = std::make_shared<const plan::Plan>(std::move(plan));
  } catch (const NothingFits& error) {
    result.bound = assignment::impossible;
    result.is_certain = error.is_proven;
    result.refusal = error.what();
  } catch (const Error& error) {  // a pin that leaves nothing on this submesh, say
    result.bound = assignment::impossible;
    result.refusal = error.what();
  }
  return result;
}

// Bounds by blocks

/// Whether few blocks of that length differ: for many it is no less work than the stages.
bool StageCosts::is_worth_refining(int view, int level) const {
  if (options_.method != SearchMethod::ilp || views_[at(view)].model.mesh().num_devices() == 1)
    return false;
  if (level == 0) return true;
  std::set<int> kinds;
  const int length = 1 << level;
  for (int begin = 0; begin + length <= layers_; ++begin)
    kinds.insert(classes_.of(begin, begin + length));
  return static_cast<int>(kinds.size()) <= most_kinds_of_blocks;
}

StageCosts::SharedFlags StageCosts::shared_flags(int begin, int end) const {
  const graph::StageGraph stage = cut(begin, end);
  SharedFlags flags(stage.graph.values.size(), false);
  for (std::size_t v = 0; v < flags.size(); ++v) {
    const auto readers = readers_.find(stage.graph.values[v].name);
    if (readers == readers_.end()) continue;
    flags[v] = readers->second.first < begin || readers->second.second >= end;
  }
  return flags;
}

void StageCosts::refine(const std::map<int, int>& levels, const assignment::Deadline& deadline) {
  std::vector<View*> fresh;
  for (const auto& [view, level] : levels) {
    if (views_[at(view)].inner.empty()) fresh.push_back(&views_[at(view)]);
  }
  in_parallel(fresh.size(), [&](std::size_t i) { begin_bounds(*fresh[i], deadline.left()); });
  using Key = std::tuple<int, int, bool, SharedFlags>;
  std::map<Key, Block> wanted;
  std::map<std::pair<int, int>, SharedFlags> flags;
  std::vector<std::pair<Block, Key>> blocks;
  for (const auto& [view, level] : levels) {
    const int length = 1 << level;
    for (int begin = 0; begin + length <= layers_; ++begin) {
      const int kind = classes_.of(begin, begin + length);
      if (!flows_alike_[at(kind)]) continue;
      auto& shared = flags[{begin, length}];
      if (shared.empty()) shared = shared_flags(begin, begin + length);
      for (const bool is_first : {false, true}) {
        const Block block{begin, begin + length, view, is_first};
        Key key{kind, view, is_first, shared};
        if (!relaxed_.contains(key)) wanted.try_emplace(key, block);
        blocks.emplace_back(block, std::move(key));
      }
    }
  }
  const std::vector<std::pair<Key, Block>> jobs(wanted.begin(), wanted.end());
  std::vector<assignment::Cost> bounds(jobs.size(), 0);
  in_parallel(jobs.size(),
              [&](std::size_t i) { bounds[i] = relaxed_bound(jobs[i].second, deadline.left()); });
  for (std::size_t i = 0; i < jobs.size(); ++i) relaxed_.emplace(jobs[i].first, bounds[i]);
  for (const auto& [block, key] : blocks) {
    View& on = views_[at(block.view)];
    assignment::Cost& bound = (block.is_first ? on.first : on.inner)[place(block.begin, block.end)];
    bound = std::max(bound, relaxed_.at(key));
  }
  for (const auto& [view, level] : levels) {
    views_[at(view)].level = std::max(views_[at(view)].level, level);
    compose(views_[at(view)]);
  }
}

/// Without any block's but what operators take.
void StageCosts::begin_bounds(View& view, double seconds_left) {
  view.price = price_of_weights(static_cast<int>(&view - views_.data()), seconds_left);
  view.inner.assign(at(layers_ + 1) * at(layers_ + 1), -assignment::impossible);
  if (view.price == 0) {
    const std::vector<assignment::Cost>& operators = operator_bounds_[at(view.size)];
    for (int layer = 0; layer < layers_; ++layer)
      view.inner[place(layer, layer + 1)] = operators[at(layer) + 1] - operators[at(layer)];
  }
  view.first = view.inner;
}

/// The best partition of every run into blocks that are known.
void StageCosts::compose(View& view) {
  for (int length = 2; length <= layers_; ++length) {
    for (int begin = 0; begin + length <= layers_; ++begin) {
      const int end = begin + length;
      if (!flows_alike_[at(classes_.of(begin, end))]) continue;
      assignment::Cost& inner = view.inner[place(begin, end)];
      assignment::Cost& first = view.first[place(begin, end)];
      for (int between = begin + 1; between < end; ++between) {
        const assignment::Cost rest = view.inner[place(between, end)];
        inner = std::max(inner, sum_of_bounds(view.inner[place(begin, between)], rest));
        first = std::max(first, sum_of_bounds(view.first[place(begin, between)], rest));
      }
    }
  }
}

StageCosts::Relaxation StageCosts::relaxation(const Block& block) const {
  const graph::StageGraph stage = cut(block.begin, block.end);
  SearchOptions options;
  options.keep_partial = options_.keep_partial;
  options.memory = {MemoryPolicy::Kind::bytes, std::int64_t{1} << 60};  // none is looked at
  const cost::CostModel& model = views_[at(block.view)].model;
  const std::span<const graph::ValueId> received(stage.received);
  PlanProblem built = build_plan_problem(stage.graph, model, options,
                                         block.is_first ? received : received.first(0));
  Relaxation made{.problem = std::move(built.problem), .weights = {}};
  made.problem.usage_limits.clear();
  const SharedFlags shared = shared_flags(block.begin, block.end);
  std::set<int> free_nodes;
  for (const auto& [value, stored] : built.stored) {
    if (shared[at(value)]) free_nodes.insert(stored.node);
    if (!stage.graph.is_constant(value)) continue;
    const std::int64_t least = std::ranges::min(made.problem.nodes[at(stored.node)].usages);
    const std::int64_t fair =
        fair_share(stage.graph.value(value), model.mesh().num_devices(), least);
    if (shared[at(value)]) {
      made.slack += fair - least;
    } else {
      made.fair += fair;
      made.weights.push_back(stored.node);
    }
  }
  if (!block.is_first) {
    for (const graph::ValueId value : stage.received)
      free_nodes.insert(built.stored.at(value).node);
  }
  std::erase_if(made.problem.edges, [&](const assignment::AssignmentProblem::Edge& edge) {
    return free_nodes.contains(edge.a) || free_nodes.contains(edge.b);
  });
  return made;
}

assignment::Cost StageCosts::relaxed_bound(const Block& block, double seconds_left) const {
  const double price = views_[at(block.view)].price;
  if (seconds_left <= 0 || was_interrupted()) return price > 0 ? -assignment::impossible : 0;
  Relaxation relaxed = relaxation(block);
  set_price(relaxed.problem, relaxed.weights, price);
  const assignment::Solution solution =
      solve(relaxed.problem, {.time_limit_seconds = std::min(seconds_left, most_seconds_a_block),
                              .patience_seconds = 1,
                              .threads = 1});
  // What a price makes impossible may be had all the same.
  if (solution.status == assignment::Status::infeasible)
    return price > 0 ? -assignment::impossible : assignment::impossible;
  const double allowed = price * static_cast<double>(relaxed.fair + relaxed.slack);
  if (allowed >= static_cast<double>(assignment::impossible)) return -assignment::impossible;
  return solution.lower_bound - static_cast<assignment::Cost>(std::ceil(allowed));
}

/// Under which a layer of the most frequent kind has the greatest bound: where two tangents of the
/// bound, which is a concave function of the price, meet, until they are one.
double StageCosts::price_of_weights(int view, double seconds_left) const {
  if (options_.memory.kind != MemoryPolicy::Kind::fair) return 0;
  if (seconds_left <= 0 || was_interrupted()) return 0;
  const assignment::Deadline deadline(std::min(seconds_left, most_seconds_a_block));
  std::map<int, std::pair<int, int>> kinds;  // how many, and one of them
  for (int layer = 0; layer < layers_; ++layer) {
    auto& [count, one] = kinds[classes_.of(layer, layer + 1)];
    ++count;
    one = layer;
  }
  const auto by_count = [](const auto& kind) { return kind.second.first; };
  const int layer = std::ranges::max_element(kinds, {}, by_count)->second.second;
  const Relaxation relaxed = relaxation({layer, layer + 1, view, false});
  struct Point {
    double price;
    double bound;
    double slope;  ///< bytes above what may be taken
  };
  const auto at_price = [&](double price) {
    assignment::AssignmentProblem problem = relaxed.problem;
    set_price(problem, relaxed.weights, price);
    const assignment::Solution solution =
        solve(problem, {.time_limit_seconds = std::max(0.0, deadline.left()),
                        .patience_seconds = 1,
                        .threads = 1});
    Point point{price, -price * static_cast<double>(relaxed.fair), 0};
    if (solution.choice.empty()) return point;
    point.bound += static_cast<double>(solution.cost);
    std::int64_t taken = 0;
    for (const int node : relaxed.weights)
      taken += problem.nodes[at(node)].usages[at(solution.choice[at(node)])];
    point.slope = static_cast<double>(taken - relaxed.fair);
    return point;
  };
  Point low = at_price(0);
  if (low.slope <= 0 || relaxed.fair == 0) return 0;
  Point high = at_price(std::max(1.0, low.bound) / static_cast<double>(relaxed.fair));
  for (int k = 0; k < most_price_steps && high.slope > 0 && !deadline.is_over(); ++k) {
    low = high;
    high = at_price(8 * high.price);
  }
  for (int k = 0; k < most_price_steps && high.slope < 0 && !deadline.is_over(); ++k) {
    const double price =
        (high.bound - low.bound + low.slope * low.price - high.slope * high.price) /
        (low.slope - high.slope);
    if (!(price > low.price && price < high.price)) break;
    const Point between = at_price(price);
    const double tangents = low.bound + low.slope * (price - low.price);
    (between.slope > 0 ? low : high) = between;
    if (between.bound >= tangents - 1) break;
  }
  return low.bound > high.bound ? low.price : high.price;
}

}  // namespace autopar::search
