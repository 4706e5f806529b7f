#include "search/search_meshes.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/interruption.h"
#include "base/stopwatch.h"
#include "search/operator_bound.h"

namespace autopar::search {

namespace {

/// A mesh axis more multiplies an operator's strategies by about 5, and the tables of two operators
/// by the square of it; searching them has been seen to take up to 40 times as long.
constexpr double growth_an_axis = 40;

constexpr double infinity = std::numeric_limits<double>::infinity();

class MeshesSearch {
 public:
  MeshesSearch(const graph::Graph& graph, std::span<const cost::CostModel> meshes,
               const SearchOptions& options)
      : graph_(graph),
        meshes_(meshes),
        options_(options),
        least_(least_seconds_on(meshes.front().mesh().num_devices(), graph,
                                meshes.front().device())) {}

  SolvedPlan run() && {
    for (std::size_t i = 0; i < meshes_.size(); ++i) {
      if (may_be_worth_it(i)) {
        search(i);
      } else {
        leave_out(meshes_[i].mesh());
      }
    }
    if (!best_) refuse();
    conclude(best_->plan.summary);
    return std::move(*best_);
  }

 private:
  double seconds_left() const { return options_.time_limit_seconds - stopwatch_.seconds(); }

  bool may_be_worth_it(std::size_t i) const {
    if (i == 0) return true;
    if (was_interrupted()) return !best_;
    if (best_ && best_->plan.summary.cost_seconds <= least_) return false;
    return expected_seconds(meshes_[i].mesh().num_axes()) < seconds_left();
  }

  /// By what meshes of fewer axes took.
  double expected_seconds(int axes) const {
    const auto fewer = longest_.lower_bound(axes);
    if (fewer == longest_.begin()) return 0;
    const auto& [known, seconds] = *std::prev(fewer);
    return seconds * std::pow(growth_an_axis, axes - known);
  }

  /// What is left is shared by the meshes of as many axes, and those of more take a share together.
  double share_of_time(std::size_t i) const {
    std::size_t shares = i + 1 == meshes_.size() ? 0 : 1;
    for (std::size_t k = i; k < meshes_.size(); ++k) {
      if (meshes_[k].mesh().num_axes() == meshes_[i].mesh().num_axes()) ++shares;
    }
    return std::max(0.0, seconds_left()) / static_cast<double>(shares);
  }

  void search(std::size_t i) {
    SearchOptions options = options_;
    options.time_limit_seconds = share_of_time(i);
    options.warns = options_.warns && i == 0;
    const Stopwatch stopwatch;
    plan::MeshTrial trial{.mesh = meshes_[i].mesh()};
    try {
      SolvedPlan solved = search_solved_plan(graph_, meshes_[i], options);
      trial.cost_seconds = solved.plan.summary.cost_seconds;
      trial.lower_bound_seconds =
          std::max(solved.plan.summary.lower_bound_seconds, std::min(least_, *trial.cost_seconds));
      glpk_seconds_ += solved.plan.summary.glpk_seconds;
      if (!best_ || trial.cost_seconds < best_->plan.summary.cost_seconds) {
        best_ = std::move(solved);
      }
    } catch (const NothingFits& error) {
      trial.lower_bound_seconds = error.is_proven ? infinity : least_;
      trial.refusal = error.what();
      if (error.least_bytes < least_bytes_ || !refusal_) refusal_ = std::current_exception();
      least_bytes_ = std::min(least_bytes_, error.least_bytes);
    } catch (const Error& error) {  // a pin that fits other meshes alone, say
      trial.lower_bound_seconds = infinity;
      trial.refusal = error.what();
      if (!refusal_) refusal_ = std::current_exception();
    }
    double& longest = longest_[meshes_[i].mesh().num_axes()];
    longest = std::max(longest, stopwatch.seconds());
    trials_.push_back(std::move(trial));
  }

  /// With the error that names the least memory, proven where it is so of all meshes.
  [[noreturn]] void refuse() const {
    const bool is_proven = std::ranges::all_of(trials_, [](const plan::MeshTrial& trial) {
      return trial.lower_bound_seconds == infinity;
    });
    try {
      std::rethrow_exception(refusal_);
    } catch (const NothingFits& error) {
      throw NothingFits(error.what(), error.least_bytes, is_proven);
    }
  }

  void leave_out(const sharding::DeviceMesh& mesh) {
    trials_.push_back({.mesh = mesh, .lower_bound_seconds = least_});
  }

  void conclude(plan::PlanSummary& summary) {
    double bound = infinity;
    for (const plan::MeshTrial& trial : trials_) bound = std::min(bound, trial.lower_bound_seconds);
    // Costs are rounded to picoseconds, which bounds by operators are not.
    summary.lower_bound_seconds = std::min(bound, summary.cost_seconds);
    summary.proven_optimal = bound >= summary.cost_seconds;
    summary.search_seconds = stopwatch_.seconds();
    summary.glpk_seconds = glpk_seconds_;
    summary.meshes = std::move(trials_);
  }

  const InterruptionGuard guard_{SIGINT};  ///< Ctrl-C: the best mesh so far will do
  const Stopwatch stopwatch_;
  const graph::Graph& graph_;
  const std::span<const cost::CostModel> meshes_;
  const SearchOptions& options_;
  const double least_;  ///< no plan on any mesh takes less
  std::optional<SolvedPlan> best_;
  std::vector<plan::MeshTrial> trials_;
  std::map<int, double> longest_;  ///< seconds of a search, by number of axes
  std::exception_ptr refusal_;
  std::int64_t least_bytes_ = std::numeric_limits<std::int64_t>::max();
  double glpk_seconds_ = 0;
};

}  // namespace

SolvedPlan search_meshes(const graph::Graph& graph, std::span<const cost::CostModel> meshes,
                         const SearchOptions& options) {
  require(!meshes.empty(), "a search has a mesh");
  if (meshes.size() == 1) return search_solved_plan(graph, meshes.front(), options);
  return MeshesSearch(graph, meshes, options).run();
}

}  // namespace autopar::search
