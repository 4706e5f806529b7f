#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autopar::assignment {

/// The values that a parameter may take, both ends included.
struct ParameterRange {
  double least = 0;
  double most = 0;
};

/// All numbers that tune the solver, by phase: none of them changes what is proven, only how soon.
/// A group's `visit` calls visitor(name, value, range, meaning) for each of its members; printing
/// and setting parameters are such visitors. Work is deterministic, in seconds as an ordinary core
/// takes them (deadline.h).
struct SolverParameters {
  static constexpr ParameterRange any_amount{0, 1e18};
  static constexpr ParameterRange any_count{0, 1e9};
  static constexpr ParameterRange at_least_one{1, 1e9};
  static constexpr ParameterRange positive{1e-12, 1e18};
  static constexpr ParameterRange part{0, 1};
  static constexpr ParameterRange shrinking{0.01, 0.99};
  static constexpr ParameterRange growing{1, 1e6};

  /// Rates of an ordinary core, by which steps are counted as seconds of work.
  struct Work {
    double costs_a_second = 1e9;
    double presolved_a_second = 5e7;
    double comparisons_a_second = 1.25e8;
    double cells_a_second = 2e7;
    double costs_of_matrix_entry = 40;

    void visit(const auto& visitor) {
      visitor("costs_a_second", costs_a_second, positive, "costs looked at, in rows");
      visitor("presolved_a_second", presolved_a_second, positive,
              "strategies, and pairs of them, that presolve goes through");
      visitor("comparisons_a_second", comparisons_a_second, positive, "labels compared");
      visitor("cells_a_second", cells_a_second, positive, "cells of tables for labels");
      visitor("costs_of_matrix_entry", costs_of_matrix_entry, positive,
              "costs that take as long as a matrix entry in one simplex iteration");
    }
  };

  /// Reductions that keep the optimum (presolve/).
  struct Presolve {
    double most_comparisons = 2e7;
    std::size_t most_remembered_cells = 30'000'000;

    void visit(const auto& visitor) {
      visitor("most_comparisons", most_comparisons, any_amount,
              "steps to find a node's dominated strategies; a node that needs more keeps all");
      visitor("most_remembered_cells", most_remembered_cells, any_amount,
              "cells of tables up to which equal reductions are done once");
    }
  };

  /// What is solved to the optimum at once (exact/).
  struct Exact {
    int most_strategies_for_glpk = 300;
    double most_cells_of_a_table = 20'000;
    std::size_t most_nodes_for_labels = 10'000;

    void visit(const auto& visitor) {
      visitor("most_strategies_for_glpk", most_strategies_for_glpk, any_count,
              "strategies of a component with limits that GLPK solves");
      visitor("most_cells_of_a_table", most_cells_of_a_table, any_amount,
              "cells of the largest table in which a component without limits is eliminated");
      visitor("most_nodes_for_labels", most_nodes_for_labels, any_count,
              "nodes of a component in which labels are searched");
    }
  };

  /// Label search, which eliminates under limits (elimination/label_search).
  struct Labels {
    double most_cells = 1e6;
    double most_comparisons = 1e7;
    double comparisons_between_looks = 1e5;
    std::size_t first_width = 16;
    std::size_t growth_of_width = 16;

    void visit(const auto& visitor) {
      visitor("most_cells", most_cells, any_amount,
              "cells of all tables, where a caller sets none");
      visitor("most_comparisons", most_comparisons, any_amount,
              "comparisons of labels, where a caller sets none");
      visitor("comparisons_between_looks", comparisons_between_looks, any_amount,
              "comparisons between two looks at the deadline");
      visitor("first_width", first_width, at_least_one, "labels a cell keeps in the first pass");
      visitor("growth_of_width", growth_of_width, ParameterRange{2, 1e6},
              "times as many labels in each further pass");
    }
  };

  /// The volume algorithm on the limits' prices (relaxation/relaxation).
  struct Relaxation {
    int first_sweeps = 10;
    int sweeps_a_step = 2;
    int steps_a_check = 60;
    double least_gain = 0.005;
    std::size_t many_limits = 1000;
    int bold_steps = 240;
    double weight_of_newest = 0.1;
    double first_factor = 0.5;
    double largest_factor = 2;
    double growth_of_factor = 1.1;
    double shrinking_of_factor = 0.66;
    int most_null_steps = 20;
    double largest_gap = 0.05;

    void visit(const auto& visitor) {
      visitor("first_sweeps", first_sweeps, at_least_one,
              "sweeps of message passing in the first step, and before min-marginals are read");
      visitor("sweeps_a_step", sweeps_a_step, at_least_one, "sweeps in each further step");
      visitor("steps_a_check", steps_a_check, at_least_one,
              "steps between two checks of whether the bound still rises");
      visitor("least_gain", least_gain, part,
              "part of the gap that the bound must gain between two checks");
      visitor("many_limits", many_limits, any_count,
              "limits from which on the first steps look for choices before the bound");
      visitor("bold_steps", bold_steps, any_count, "number of these first steps");
      visitor("weight_of_newest", weight_of_newest, part,
              "weight of the newest choice in the average excess");
      visitor("first_factor", first_factor, positive,
              "first length of a step, in parts of the one that would close the gap");
      visitor("largest_factor", largest_factor, positive, "largest length of a step");
      visitor("growth_of_factor", growth_of_factor, growing, "lengthening of a step that gained");
      visitor("shrinking_of_factor", shrinking_of_factor, shrinking,
              "shortening of steps after some without gain");
      visitor("most_null_steps", most_null_steps, at_least_one,
              "steps without gain before they are shortened");
      visitor("largest_gap", largest_gap, part,
              "gap, in parts of the cost, that an optimum is taken to have at most");
    }
  };

  /// Relaxation, neighbourhood searches and recombination in rounds (local_search/portfolio).
  struct Portfolio {
    double steps_a_round = 20;
    double least_work_of_step = 8000;
    double steps_to_relax = 300;
    int rounds_before_searches = 2;
    int most_idle_rounds = 10;
    int rounds_together = 4;
    int rounds_apart = 6;
    int longest_pause = 16;
    double useless_over_bound = 64;

    void visit(const auto& visitor) {
      visitor("steps_a_round", steps_a_round, positive, "steps of the relaxation in a round");
      visitor("least_work_of_step", least_work_of_step, any_amount,
              "costs that a step counts beside those of the sweeps");
      visitor("steps_to_relax", steps_to_relax, positive,
              "steps after which a relaxation is taken to be stuck");
      visitor("rounds_before_searches", rounds_before_searches, any_count,
              "rounds of the relaxation alone");
      visitor("most_idle_rounds", most_idle_rounds, any_count,
              "rounds without a better choice after which the searches are stuck");
      visitor("rounds_together", rounds_together, at_least_one,
              "idle rounds after which one search restarts from a choice cheap at the prices");
      visitor("rounds_apart", rounds_apart, at_least_one, "rounds that it then goes on alone");
      visitor("longest_pause", longest_pause, at_least_one, "rounds between two recombinations");
      visitor("useless_over_bound", useless_over_bound, positive,
              "multiple of the bound from which on a cost counts as impossible, without a choice");
    }
  };

  /// Large-neighbourhood search (local_search/neighbourhood_search).
  struct Neighbourhoods {
    int most_trees = 4;
    int most_proposals = 6;
    int most_draws_of_a_root = 30;
    double most_weight_of_prices = 1.2;
    double least_bump = 0.5;
    double most_bump = 2;
    double first_repair_price = 1e-6;
    double growth_of_repair_price = 1.02;
    double work_between_looks = 1e6;
    double work_of_round = 1000;
    double work_of_arc = 8;

    void visit(const auto& visitor) {
      visitor("most_trees", most_trees, at_least_one, "trees of nodes that a round sets free");
      visitor("most_proposals", most_proposals, any_count,
              "times that a round solves its trees under further prices");
      visitor("most_draws_of_a_root", most_draws_of_a_root, any_count,
              "draws to find a root that is alive at the time in question");
      visitor("most_weight_of_prices", most_weight_of_prices, any_amount,
              "largest multiple of the relaxation's prices in a round");
      visitor("least_bump", least_bump, positive,
              "least rise of an exceeded time's price, in parts of what the excess saved");
      visitor("most_bump", most_bump, positive, "largest such rise");
      visitor("first_repair_price", first_repair_price, positive,
              "first price of an excess in repair, in parts of the cost");
      visitor("growth_of_repair_price", growth_of_repair_price, growing,
              "growth of that price in each round that does not repair");
      visitor("work_between_looks", work_between_looks, positive,
              "costs between two looks at the deadline");
      visitor("work_of_round", work_of_round, positive,
              "costs that a round counts beside those that it looks at");
      visitor("work_of_arc", work_of_arc, any_amount, "costs that a visit of an arc counts");
    }
  };

  /// Recombination of choices (local_search/recombination).
  struct Recombination {
    int first_window = 64;
    int growth_of_window = 4;

    void visit(const auto& visitor) {
      visitor("first_window", first_window, at_least_one, "newest choices that are combined first");
      visitor("growth_of_window", growth_of_window, at_least_one,
              "divisor of the window that it grows by where tables stayed small");
    }
  };

  /// Descent by forests, for quick searches (local_search/forest_descent).
  struct Descent {
    double most_cells_of_a_table = 4'000'000;
    int sweeps_a_round = 3;
    int rounds_of_repair = 60;
    double shrinking_of_price = 0.8;
    double growth_of_price = 1.5;
    double first_price = 1000;

    void visit(const auto& visitor) {
      visitor("most_cells_of_a_table", most_cells_of_a_table, any_amount,
              "cells of the largest table in which open nodes are completed");
      visitor("sweeps_a_round", sweeps_a_round, at_least_one, "forests drawn between two prices");
      visitor("rounds_of_repair", rounds_of_repair, any_count, "rounds of a repair");
      visitor("shrinking_of_price", shrinking_of_price, shrinking,
              "change of the price at a time within its limit");
      visitor("growth_of_price", growth_of_price, growing,
              "change of the price at a time over its limit");
      visitor("first_price", first_price, positive,
              "part of the cost, as a divisor, that a whole limit is first worth");
    }
  };

  /// Greedy choices node by node (local_search/partial_choice).
  struct Greedy {
    std::size_t most_looked_at = 8;

    void visit(const auto& visitor) {
      visitor("most_looked_at", most_looked_at, any_count,
              "edges of a serving node up to which estimates look across it");
    }
  };

  /// Reduced-cost fixing and what follows from it (relaxation/reduced_cost_fixing).
  struct Fixing {
    double worthwhile_rest = 0.8;
    double few_strategies = 0.3;

    void visit(const auto& visitor) {
      visitor("worthwhile_rest", worthwhile_rest, part,
              "part of the strategies that fixing may leave for a new presolve to be worth it");
      visitor("few_strategies", few_strategies, part,
              "part left that is worth it before the searches are stuck, or below a lower goal");
    }
  };

  /// The alternation of improving, fixing and branching (local_search/improve).
  struct Improve {
    int first_rounds = 2;
    double share_of_first_run = 0.4;
    double least_rounds_left = 3;
    double step_of_goals = 0.15;

    void visit(const auto& visitor) {
      visitor("first_rounds", first_rounds, at_least_one,
              "rounds before the first fixing; then twice as many before the next");
      visitor("share_of_first_run", share_of_first_run, part,
              "part of the time until the searches must be stuck");
      visitor("least_rounds_left", least_rounds_left, any_amount,
              "rounds or presolves, in time, that must be left for anything but more rounds");
      visitor("step_of_goals", step_of_goals, ParameterRange{0.01, 1},
              "step, in parts of the gap, from one lower goal to the next");
    }
  };

  /// Label search below goals between bound and cost (elimination/goal_search).
  struct Goals {
    double least_seconds = 0.1;
    double comparisons_over_cells = 8;
    double least_seconds_of_tables = 0.6;
    double most_seconds_of_tables = 2;
    double step = 0.6;
    double least_part_of_gap = 0.01;

    void visit(const auto& visitor) {
      visitor("least_seconds", least_seconds, positive, "work for the first tables");
      visitor("comparisons_over_cells", comparisons_over_cells, positive,
              "work for comparisons, in multiples of that for tables");
      visitor("least_seconds_of_tables", least_seconds_of_tables, positive,
              "least ceiling of the work for tables");
      visitor("most_seconds_of_tables", most_seconds_of_tables, positive,
              "largest ceiling of the work for tables");
      visitor("step", step, shrinking, "from a goal whose tables are too large to the next");
      visitor("least_part_of_gap", least_part_of_gap, ParameterRange{1e-6, 1},
              "least distance of a goal from the bound, in parts of the gap");
    }
  };

  /// Branch and bound (exact/branch).
  struct Branch {
    double share_to_relax = 0.1;
    int likely_parts_of_gap = 64;

    void visit(const auto& visitor) {
      visitor("share_to_relax", share_to_relax, part,
              "part of the work that a relaxation may take for branching to be worth it");
      visitor("likely_parts_of_gap", likely_parts_of_gap, at_least_one,
              "divisor of the gap within which a strategy's min-marginal counts as likely");
    }
  };

  /// The search for the least peak of usage (least_peak).
  struct Peak {
    int most_rounds = 12;
    double small_gap = 1e-3;
    double work_of_descent = 3e7;
    double most_cells = 1e7;
    double most_comparisons = 1e8;
    int whole_weight = 1 << 10;

    void visit(const auto& visitor) {
      visitor("most_rounds", most_rounds, at_least_one, "rounds of fictitious play");
      visitor("small_gap", small_gap, part, "gap, in parts of the peak, that is small enough");
      visitor("work_of_descent", work_of_descent, any_amount,
              "costs that a neighbourhood search below one peak looks at");
      visitor("most_cells", most_cells, any_amount, "cells of all tables in bisection");
      visitor("most_comparisons", most_comparisons, any_amount,
              "comparisons of labels in one step of bisection");
      visitor("whole_weight", whole_weight, at_least_one, "whole number that weights sum up to");
    }
  };

  Work work;
  Presolve presolve;
  Exact exact;
  Labels labels;
  Relaxation relaxation;
  Portfolio portfolio;
  Neighbourhoods neighbourhoods;
  Recombination recombination;
  Descent descent;
  Greedy greedy;
  Fixing fixing;
  Improve improve;
  Goals goals;
  Branch branch;
  Peak peak;

  /// Calls visitor(name, group) for each of them.
  void visit_groups(const auto& visitor) {
    visitor("work", work);
    visitor("presolve", presolve);
    visitor("exact", exact);
    visitor("labels", labels);
    visitor("relaxation", relaxation);
    visitor("portfolio", portfolio);
    visitor("neighbourhoods", neighbourhoods);
    visitor("recombination", recombination);
    visitor("descent", descent);
    visitor("greedy", greedy);
    visitor("fixing", fixing);
    visitor("improve", improve);
    visitor("goals", goals);
    visitor("branch", branch);
    visitor("peak", peak);
  }
};

/// A parameter as text.
struct ParameterText {
  std::string name;  ///< GROUP.NAME
  std::string value;
  std::string_view meaning;
};

/// All of them, group by group.
std::vector<ParameterText> parameter_texts(SolverParameters parameters);

/// Sets one from `GROUP.NAME=VALUE`. Throws Error where there is no such parameter, naming those
/// whose names are most alike, or where the value is no number in its range.
void set_parameter(SolverParameters& parameters, std::string_view assignment);

}  // namespace autopar::assignment
