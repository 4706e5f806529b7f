#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "assignment/deadline.h"
#include "cost/cost_model.h"
#include "graph/stage_graph.h"
#include "search/search_plan.h"
#include "search/stages/layers.h"
#include "search/stages/run_classes.h"
#include "search/stages/stage_sequence.h"
#include "search/stages/submeshes.h"

namespace autopar::search {

/// What every run of layers costs on every submesh: bounds at first, and what the search of
/// strategies finds where it is asked for. Runs that are alike are searched once. Keeps references.
class StageCosts {
 public:
  StageCosts(const graph::Graph& graph, const graph::StageCutter& cutter, LayerCuts cuts,
             const cost::DeviceModel& device, std::vector<Submesh> submeshes,
             const SearchOptions& options);

  int layers() const { return layers_; }
  /// What to reckon with for layers [begin, end) on that submesh: no plan is known to cost less,
  /// and none will be found that does; `impossible` where none will be found at all.
  assignment::Cost lower_bound(int size, int begin, int end) const;
  /// No plan costs less, whatever was found: lower than lower_bound() where a search was by a
  /// method without a bound, or had no time to tell whether anything fits.
  assignment::Cost certain_bound(int size, int begin, int end) const;
  bool is_certain() const { return is_certain_; }  ///< both bounds are the same everywhere
  /// The cheapest plan's that is known; `impossible` where none is.
  assignment::Cost cost(int size, int begin, int end) const;
  /// Whether more search would change neither: then both agree, but for searches that were stopped.
  bool is_settled(int size, int begin, int end) const;
  /// Brings each of these that is not settled nearer to it, on all cores.
  void advance(std::span<const StageChoice> stages, double seconds_left);
  /// A plan of each of these that has none, by the quick method, which may take longer.
  void find_quickly(std::span<const StageChoice> stages, double seconds_left);
  /// The plan that cost() is of.
  const plan::Plan& plan(int size, int begin, int end) const;
  /// Why the run has no plan on the submesh, as far as it is known; empty where it may have one.
  std::string refusal(int size, int begin, int end) const;

  graph::StageGraph cut(int begin, int end) const;
  int searches() const { return static_cast<int>(found_.size()); }
  double glpk_seconds() const { return glpk_seconds_; }

 private:
  struct Found {
    assignment::Cost cost = assignment::impossible;
    assignment::Cost bound = 0;
    bool is_certain = true;
    bool is_done = false;  ///< searched by the method that was asked for
    std::shared_ptr<const plan::Plan> plan;
    std::string refusal;
  };
  /// A run that stands for all of its class, on one view; with `is_first`, what arrives is priced.
  struct Block {
    int begin;
    int end;
    int view;
    bool is_first;
  };
  struct View {
    cost::CostModel model;
    int size;
    double price = 0;  ///< of a byte of weights, in the bounds of blocks
    int level = -1;    ///< bounds of blocks of up to 2^level layers are in `inner` and `first`
    std::vector<assignment::Cost> inner;  ///< by begin and end: as a part of any stage
    std::vector<assignment::Cost> first;  ///< as the first part of a stage
  };
  using SharedFlags = std::vector<bool>;
  /// A block's problem.
  struct Relaxation {
    assignment::AssignmentProblem problem;
    std::vector<int> weights;  ///< nodes of the problem: those that no other block reads
    std::int64_t fair = 0;     ///< what they may take by the stage's limit on weights
    std::int64_t slack =
        0;  ///< of those that others read, too: what these may take above the least
  };

  std::size_t place(int begin, int end) const {
    return static_cast<std::size_t>(begin) * static_cast<std::size_t>(layers_ + 1) +
           static_cast<std::size_t>(end);
  }
  const Found* found(int view, int begin, int end) const;
  assignment::Cost bound_on(int view, int begin, int end) const;
  assignment::Cost bound_without_search(int view, int begin, int end) const;
  int view_of_least_bound(int size, int begin, int end) const;
  void find_flows();
  void find_operator_bounds(const cost::DeviceModel& device);
  void find_weights();
  void find_shared_values();
  bool is_worth_refining(int view, int level) const;
  void refine(const std::map<int, int>& levels, const assignment::Deadline& deadline);
  Relaxation relaxation(const Block& block) const;
  assignment::Cost relaxed_bound(const Block& block, double seconds_left) const;
  double price_of_weights(int view, double seconds_left) const;
  SharedFlags shared_flags(int begin, int end) const;
  void begin_bounds(View& view, double seconds_left);
  void compose(View& view);
  Found search(int view, int begin, int end, SearchOptions options) const;
  void search_all(const std::vector<std::pair<int, StageChoice>>& runs,
                  const SearchOptions& options, const assignment::Deadline& deadline,
                  bool is_final);
  SearchOptions options_for(const graph::StageGraph& stage, SearchOptions options) const;

  const graph::Graph& graph_;
  const graph::StageCutter& cutter_;
  const LayerCuts cuts_;
  const int layers_;
  const std::int64_t capacity_;
  const std::vector<Submesh> submeshes_;
  const SearchOptions& options_;
  const RunClasses classes_;
  std::vector<bool> pins_operators_;  ///< by pin: whether it is for operators of the whole model
  std::vector<View> views_;
  std::vector<std::vector<int>> views_of_size_;
  std::vector<std::vector<assignment::Cost>>
      operator_bounds_;                ///< by size: of all operators before a layer
  std::vector<std::int64_t> weights_;  ///< by begin and end: bytes of all constants
  std::vector<bool> flows_alike_;  ///< by class: strategies are those of the layers by themselves
  std::map<std::string, std::pair<int, int>> readers_;  ///< first and last layer, by value's name
  std::map<std::pair<int, int>, Found> found_;          ///< by class and view
  std::map<std::tuple<int, int, bool, SharedFlags>, assignment::Cost> relaxed_;
  bool is_certain_ = true;
  double glpk_seconds_ = 0;
};

}  // namespace autopar::search
