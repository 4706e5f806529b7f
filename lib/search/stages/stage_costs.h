#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "assignment/deadline.h"
#include "search/search_plan.h"
#include "search/stages/block_bounds.h"
#include "search/stages/stage_facts.h"
#include "search/stages/stage_sequence.h"

namespace autopar::search {

/// The cost of every run of layers on every submesh: bounds at first, and the search's where it is
/// asked for. Runs that are alike are searched once. Keeps references.
///
/// A stage of layers [begin, end) on a mesh of n devices costs no less than its operators' shares
/// without communication (operator_bound.h), nor than its parts (block_bounds.h), and has no plan
/// where its weights need more than n times a device's capacity. Blocks of one layer are solved
/// first. Where a sequence wants a stage whose bound is not exact, blocks of 2, 4, 8... layers
/// follow on its meshes, as long as few of them differ, and then the stage itself is searched, on
/// the view of the least bound.
class StageCosts {
 public:
  explicit StageCosts(StageFacts facts) : facts_(std::move(facts)), blocks_(facts_) {}
  StageCosts(const StageCosts&) = delete;
  StageCosts& operator=(const StageCosts&) = delete;

  int layers() const { return facts_.layers(); }
  /// The cost to reckon with for a stage, wherever its devices begin: no plan is known to cost
  /// less, and none will be found that does; `impossible` where none will be found at all.
  assignment::Cost lower_bound(const StageChoice& stage) const;
  /// No plan costs less, whatever was found: lower than lower_bound() where a search was by a
  /// method without a bound, or had no time to tell whether anything fits.
  assignment::Cost certain_bound(const StageChoice& stage) const;
  bool is_certain() const { return is_certain_; }  ///< both bounds are the same everywhere
  /// The cheapest plan's that is known; `impossible` where none is.
  assignment::Cost cost(const StageChoice& stage) const;
  /// Whether more search would change neither: then both agree, but for searches that were stopped.
  bool is_settled(const StageChoice& stage) const;
  /// Brings each of these that is not settled nearer to it, on all cores.
  void advance(std::span<const StageChoice> stages, double seconds_left);
  /// Finds a plan of each of these that has none, by the quick method, which may take longer.
  void find_quickly(std::span<const StageChoice> stages, double seconds_left);
  /// The plan that cost() is of.
  const plan::Plan& plan(const StageChoice& stage) const;
  /// Why the run has no plan on the submesh, as far as it is known; empty where it may have one, or
  /// where pins alone say that it is no stage.
  std::string refusal(const StageChoice& stage) const;

  graph::StageGraph cut(int begin, int end) const { return facts_.cut(begin, end); }
  int searches() const { return static_cast<int>(found_.size()); }
  double glpk_seconds() const { return glpk_seconds_; }

  /// The outcome of a stage's search on a view.
  struct Found {
    assignment::Cost cost = assignment::impossible;
    assignment::Cost bound = 0;
    bool is_certain = true;
    bool is_done = false;  ///< searched by the method that was asked for
    std::shared_ptr<const plan::Plan> plan;
    std::string refusal;
    double glpk_seconds = 0;
  };

 private:
  bool is_impossible(const StageChoice& stage) const;  ///< without a search
  const Found* found(int view, const StageChoice& stage) const;
  const Found* cheapest(const StageChoice& stage) const;
  assignment::Cost bound_on(int view, const StageChoice& stage) const;
  assignment::Cost bound_without_search(int view, const StageChoice& stage) const;
  int view_of_least_bound(const StageChoice& stage) const;
  void search_all(const std::vector<std::pair<int, StageChoice>>& runs,
                  const SearchOptions& options, const assignment::Deadline& deadline,
                  bool is_final);

  const StageFacts facts_;
  BlockBounds blocks_;
  std::map<std::pair<int, int>, Found> found_;  ///< by class and view
  bool is_certain_ = true;
  double glpk_seconds_ = 0;
};

}  // namespace autopar::search
