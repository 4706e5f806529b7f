// Solves assignment problems by GLPK: reduce, hand an integer linear program over, and believe the
// answer only where its price agrees.

#include <glpk.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "assignment/presolve/reduced_problem.h"
#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/stopwatch.h"

namespace autopar::assignment {

namespace {

/// GLPK's tolerances, relative to the objective.
constexpr double rounding = 1e-7;
constexpr double integrality_tolerance = 1e-6;

struct IntegerSolution {
  Status status = Status::unknown;    ///< proven, or not
  std::optional<Choice> choice = {};  ///< the best that GLPK found
  double objective = 0;               ///< of that choice, in the problem's unit
  double bound = 0;                   ///< no choice has less, up to rounding
  double seconds = 0;                 ///< that GLPK took to solve it
};

/// GLPK's terminal output and error handling while it runs; both are a thread's own. An exception
/// that passes leaves GLPK in the middle of its work: then all that it has taken is given back, and
/// it begins anew the next time.
class GlpkSession {
 public:
  explicit GlpkSession(bool log) {
    static thread_local const Environment environment;
    // It aborts the process where it cannot begin.
    if (glp_init_env() > 1) throw OutOfMemory("GLPK");
    glp_term_out(GLP_ON);
    glp_term_hook(log ? print : note, nullptr);
    // GLPK aborts the process otherwise.
    glp_error_hook(fail, nullptr);
  }
  ~GlpkSession() {
    if (is_unwinding()) {
      glp_free_env();
      return;
    }
    glp_term_hook(nullptr, nullptr);
    glp_error_hook(nullptr, nullptr);
  }
  GlpkSession(const GlpkSession&) = delete;
  GlpkSession& operator=(const GlpkSession&) = delete;

  static bool is_unwinding() { return std::uncaught_exceptions() > 0; }

 private:
  /// What it does not get is the last that it tells of.
  static int note(void*, const char* text) {
    const std::string_view line = text;
    lacks_memory = lacks_memory || line.find("memory alloc") != line.npos ||
                   line.find("no memory") != line.npos || line.find("memory blocks") != line.npos;
    return 1;
  }
  static int print(void*, const char* text) {
    note(nullptr, text);
    const std::string line(text, std::string_view(text).find_last_not_of('\n') + 1);
    if (!line.empty()) spdlog::info("glpk: {}", line);
    return 1;
  }
  [[noreturn]] static void fail(void*) {
    if (std::exchange(lacks_memory, false)) throw OutOfMemory("GLPK");
    throw InternalError("internal error: GLPK failed");
  }

  static thread_local bool lacks_memory;

  /// GLPK makes one a thread on first use and never frees it.
  struct Environment {
    ~Environment() { glp_free_env(); }
  };
};

thread_local bool GlpkSession::lacks_memory = false;

struct DeleteProgram {
  void operator()(glp_prob* program) const {
    if (!GlpkSession::is_unwinding()) glp_delete_prob(program);  // else the session's end does it
  }
};

int in_milliseconds(double seconds) {
  return static_cast<int>(std::clamp(seconds * 1e3, 0.0, 1e9));
}

/// The integer program in GLPK, its matrix as triplets (1-based, the first entry unused).
///
/// Variables
///   x[i][s]  binary: node i takes strategy s. A node with one strategy has none.
///   e[u][v]  at least 0, an edge and two classes a time: a's strategy is of class u and b's of v.
///            An impossible pair has none.
/// Families of rows
///   1  sum_s x[i][s] = 1                          add_choice_rows
///   2  sum_v e[u][v] = sum of x[a][s], s of u     add_edge_rows, and the same for b's classes
///   3  sum of usages of a limited set <= limit    add_usage_row, without what every choice uses,
///      and divided by the common divisor
/// Family 2 is the local polytope (Wainwright and Jordan 2008, section 4.1): where the graph is a
/// tree, and on most models' graphs, the linear relaxation without limits is integral.
struct Program {
  const ReducedProblem& problem;
  double scale;  ///< that costs are divided by
  std::unique_ptr<glp_prob, DeleteProgram> handle{glp_create_prob()};
  std::vector<int> first_column = {};               ///< by node; 0 for none
  std::vector<std::vector<int>> edge_columns = {};  ///< by edge and class pair; 0 for none
  std::vector<int> row{0};
  std::vector<int> column{0};
  std::vector<double> value{0};

  glp_prob* glpk() const { return handle.get(); }
};

double scale_for(const ReducedProblem& problem, int bits) {
  double largest = 1;
  const auto note = [&](auto cost) {
    if (cost < impossible) largest = std::max(largest, static_cast<double>(cost));
  };
  for (const auto& node : problem.nodes) std::ranges::for_each(node.costs, note);
  for (const auto& edge : problem.edges) std::ranges::for_each(edge.costs, note);
  return std::exp2(std::ceil(std::max(0.0, std::log2(largest) - bits)));
}

int add_column(Program& program, double cost) {
  const int j = glp_add_cols(program.glpk(), 1);
  glp_set_col_bnds(program.glpk(), j, GLP_LO, 0, 0);
  glp_set_obj_coef(program.glpk(), j, cost / program.scale);
  return j;
}

/// A new row of the given type (GLP_FX or GLP_UP) with right-hand side `bound`.
void add_row(Program& program, int type, double bound) {
  glp_set_row_bnds(program.glpk(), glp_add_rows(program.glpk(), 1), type, bound, bound);
}

/// A coefficient in the newest row.
void put(Program& program, int j, double coefficient) {
  program.row.push_back(glp_get_num_rows(program.glpk()));
  program.column.push_back(j);
  program.value.push_back(coefficient);
}

void add_choice_rows(Program& program) {
  for (const auto& node : program.problem.nodes) {
    program.first_column.push_back(0);
    if (node.strategies.size() == 1) continue;
    add_row(program, GLP_FX, 1);
    for (const WideCost cost : node.costs) {
      const int j = add_column(program, static_cast<double>(cost));
      glp_set_col_kind(program.glpk(), j, GLP_BV);
      if (program.first_column.back() == 0) program.first_column.back() = j;
      put(program, j, 1);
    }
  }
}

void add_edge_rows(Program& program, const ReducedProblem::Edge& edge) {
  std::vector<int>& columns = program.edge_columns.emplace_back();
  for (const Cost cost : edge.costs) {
    columns.push_back(cost >= impossible ? 0 : add_column(program, static_cast<double>(cost)));
  }
  // The row of the k-th class of one end: its pairs are `stride` apart.
  const auto add_class = [&](int node, const RowClasses& classes, int k, int first, int stride) {
    add_row(program, GLP_FX, 0);
    const int pairs = static_cast<int>(columns.size() / classes.representatives.size());
    for (int pair = 0; pair < pairs; ++pair) {
      if (const int j = columns[first + pair * stride]) put(program, j, 1);
    }
    for (std::size_t s = 0; s < classes.of.size(); ++s) {
      if (classes.of[s] == k) put(program, program.first_column[node] + static_cast<int>(s), -1);
    }
  };
  const int classes_of_a = static_cast<int>(edge.rows.representatives.size());
  const int classes_of_b = static_cast<int>(edge.columns.representatives.size());
  for (int u = 0; u < classes_of_a; ++u) add_class(edge.a, edge.rows, u, u * classes_of_b, 1);
  for (int v = 0; v < classes_of_b; ++v) add_class(edge.b, edge.columns, v, v, classes_of_b);
}

void add_usage_row(Program& program, const LimitedSet& set) {
  std::int64_t room = set.limit;  // beside what is used whatever is chosen
  std::int64_t divisor = 0;
  for (const int i : set.nodes) {
    const auto& usages = program.problem.nodes[i].usages;
    const std::int64_t least = std::ranges::min(usages);
    room -= least;
    for (const std::int64_t usage : usages) divisor = std::gcd(divisor, usage - least);
  }
  if (divisor == 0) return;  // every choice uses the same
  add_row(program, GLP_UP, std::floor(static_cast<double>(room) / static_cast<double>(divisor)));
  for (const int i : set.nodes) {
    const auto& usages = program.problem.nodes[i].usages;
    const std::int64_t least = std::ranges::min(usages);
    for (std::size_t s = 0; s < usages.size(); ++s) {
      if (usages[s] == least) continue;
      const double more = static_cast<double>(usages[s] - least);
      put(program, program.first_column[i] + static_cast<int>(s),
          more / static_cast<double>(divisor));
    }
  }
}

Program make_program(const ReducedProblem& problem, const std::vector<LimitedSet>& limits,
                     int bits_of_costs) {
  Program program{problem, scale_for(problem, bits_of_costs)};
  glp_set_obj_dir(program.glpk(), GLP_MIN);
  add_choice_rows(program);
  for (const auto& edge : problem.edges) add_edge_rows(program, edge);
  for (const LimitedSet& set : limits) add_usage_row(program, set);
  glp_load_matrix(program.glpk(), static_cast<int>(program.row.size()) - 1, program.row.data(),
                  program.column.data(), program.value.data());
  return program;
}

/// The choice of a solution, of which `value` reads a column.
Choice decode(const Program& program, double (*value)(glp_prob*, int)) {
  Choice choice(program.problem.nodes.size(), 0);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    if (program.first_column[i] == 0) continue;
    double largest = -1;
    for (int s = 0; s < std::ssize(program.problem.nodes[i].strategies); ++s) {
      const double share = value(program.glpk(), program.first_column[i] + s);
      if (share <= largest) continue;
      largest = share;
      choice[i] = s;
    }
  }
  return choice;
}

/// The columns' values of a choice.
std::vector<double> encode(const Program& program, const Choice& choice) {
  std::vector<double> values(glp_get_num_cols(program.glpk()) + 1, 0.0);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    if (program.first_column[i] != 0) values[program.first_column[i] + choice[i]] = 1;
  }
  for (std::size_t k = 0; k < program.problem.edges.size(); ++k) {
    const auto& edge = program.problem.edges[k];
    if (const int j = program.edge_columns[k][edge.place(choice)]) values[j] = 1;
  }
  return values;
}

bool is_relaxation_integral(const Program& program) {
  for (int j = 1; j <= glp_get_num_cols(program.glpk()); ++j) {
    if (glp_get_col_kind(program.glpk(), j) == GLP_CV) continue;
    const double value = glp_get_col_prim(program.glpk(), j);
    if (std::abs(value - std::round(value)) > integrality_tolerance) return false;
  }
  return true;
}

/// When the simplex method must end, and how much work an iteration of it is.
struct Budget {
  const Deadline& deadline;
  double seconds_of_iteration;

  int iterations() const {
    return static_cast<int>(std::clamp(deadline.work_left() / seconds_of_iteration, 0.0, 1e9));
  }
  /// Counts those since the last count.
  void count_iterations(glp_prob* program) const {
    deadline.count(glp_get_it_cnt(program) * seconds_of_iteration);
    glp_set_it_cnt(program, 0);
  }
};

/// What the branch and cut tells us and we tell it, by GLPK's callback.
struct TreeWatch {
  std::vector<double> incumbent;  // by column; empty once it was handed over
  int most_iterations = 0;        // of the simplex method
  double bound = 0;

  static void called(glp_tree* tree, void* info) {
    auto& watch = *static_cast<TreeWatch*>(info);
    if (const int best = glp_ios_best_node(tree)) {
      watch.bound = std::max(watch.bound, glp_ios_node_bound(tree, best));
    }
    if (glp_ios_reason(tree) == GLP_IHEUR && !watch.incumbent.empty()) {
      glp_ios_heur_sol(tree, watch.incumbent.data());
      watch.incumbent.clear();
    }
    if (glp_get_it_cnt(glp_ios_get_prob(tree)) >= watch.most_iterations) glp_ios_terminate(tree);
  }
};

IntegerSolution branch_and_cut(const Program& program, const std::optional<Choice>& incumbent,
                               const Budget& budget, double least_saving) {
  glp_prob* glpk = program.glpk();
  TreeWatch watch;
  watch.most_iterations = budget.iterations();
  double most = 1e3 + glp_get_obj_val(glpk);
  if (incumbent) {
    watch.incumbent = encode(program, *incumbent);
    most = 0;
    for (std::size_t j = 1; j < watch.incumbent.size(); ++j) {
      most += glp_get_obj_coef(glpk, static_cast<int>(j)) * watch.incumbent[j];
    }
  }
  glp_iocp options;
  glp_init_iocp(&options);
  options.msg_lev = GLP_MSG_ALL;
  options.br_tech = GLP_BR_DTH;
  options.bt_tech = GLP_BT_BLB;
  options.pp_tech = GLP_PP_ROOT;
  options.mir_cuts = options.gmi_cuts = options.cov_cuts = GLP_ON;
  options.mip_gap = 0;
  // Integer costs: a branch that cannot save a whole unit saves nothing. GLPK's tolerance is
  // relative to the best objective so far.
  options.tol_obj = std::clamp(least_saving / program.scale / (1 + most), 1e-12, 1e-7);
  options.tm_lim = in_milliseconds(budget.deadline.left());
  options.cb_func = TreeWatch::called;
  options.cb_info = &watch;
  const int status = glp_intopt(glpk, &options);
  budget.count_iterations(glpk);

  const int found = glp_mip_status(glpk);
  if (status == 0 && found == GLP_NOFEAS) return {.status = Status::infeasible};
  IntegerSolution result;
  if (found == GLP_OPT || found == GLP_FEAS) {
    result.choice = decode(program, glp_mip_col_val);
    result.objective = glp_mip_obj_val(glpk) * program.scale;
  }
  const bool is_optimal = status == 0 && found == GLP_OPT;
  if (is_optimal) result.status = Status::optimal;
  result.bound = is_optimal ? result.objective : watch.bound * program.scale;
  return result;
}

IntegerSolution relax_and_branch(const Program& program, const std::optional<Choice>& incumbent,
                                 const Budget& budget, double least_saving) {
  glp_prob* glpk = program.glpk();
  glp_scale_prob(glpk, GLP_SF_AUTO);  // costs and bytes in one matrix
  glp_smcp simplex;
  glp_init_smcp(&simplex);
  simplex.msg_lev = GLP_MSG_ALL;
  simplex.meth = GLP_DUALP;  // all costs are at least 0: the slack basis is dual feasible
  simplex.presolve = GLP_ON;
  simplex.tm_lim = in_milliseconds(budget.deadline.left());
  simplex.it_lim = budget.iterations();
  const int status = glp_simplex(glpk, &simplex);
  budget.count_iterations(glpk);
  if (status == GLP_ENOPFS || (status == 0 && glp_get_status(glpk) == GLP_NOFEAS)) {
    return {.status = Status::infeasible};
  }
  if (status != 0 || glp_get_status(glpk) != GLP_OPT) return {};

  const double bound = glp_get_obj_val(glpk) * program.scale;
  if (is_relaxation_integral(program)) {
    return {Status::optimal, decode(program, glp_get_col_prim), bound, bound};
  }
  IntegerSolution result = branch_and_cut(program, incumbent, budget, least_saving);
  result.bound = std::max(result.bound, bound);
  return result;
}

/// A ReducedProblem as an integer linear program of GLPK's: minimise the sum of all costs. They are
/// divided by a power of two, so that GLPK sees moderate numbers. Its linear relaxation is solved
/// first, by branch and cut where that is not integral, from the incumbent on. No set's least usage
/// may exceed its limit. The work of the simplex method is counted on the deadline's clock.
IntegerSolution solve_integer_program(const ReducedProblem& problem,
                                      const std::vector<LimitedSet>& limits,
                                      const std::optional<Choice>& incumbent,
                                      const Deadline& deadline, const SolveOptions& options) {
  const GlpkSession session(options.log);
  const SolverParameters& parameters = options.parameters;
  const Program program = make_program(problem, limits, parameters.exact.bits_of_costs);
  const Stopwatch stopwatch;
  if (glp_get_num_cols(program.glpk()) == 0) {
    return {.status = Status::optimal,
            .choice = Choice(problem.nodes.size(), 0),
            .seconds = stopwatch.seconds()};
  }
  const double entries = glp_get_num_nz(program.glpk());
  const Budget budget{
      deadline, parameters.work.costs_of_matrix_entry * entries / parameters.work.costs_a_second};
  IntegerSolution solution =
      relax_and_branch(program, incumbent, budget, parameters.exact.least_saving);
  solution.seconds = stopwatch.seconds();
  return solution;
}

/// A bound in doubles as an integer that rounding cannot have lifted above the truth.
WideCost safe_ceiling(double bound) {
  return static_cast<WideCost>(std::ceil(bound - rounding * (1 + std::abs(bound))));
}

/// True where some set's least usage exceeds its limit.
bool beyond_reach(const ReducedProblem& problem, const std::vector<LimitedSet>& limits) {
  return std::ranges::any_of(limits, [&](const LimitedSet& set) {
    WideCost least = 0;
    for (const int i : set.nodes) least += std::ranges::min(problem.nodes[i].usages);
    return least > set.limit;
  });
}

void solve(const AssignmentProblem& problem, const SolveOptions& options, const Deadline& deadline,
           Solution& solution) {
  solution.status = Status::infeasible;
  solution.lower_bound = impossible;
  const std::optional<ReducedProblem> reduced = reduce(problem);
  if (!reduced) return;
  const std::vector<LimitedSet> limits = limited_sets(*reduced, problem.usage_limits);
  if (beyond_reach(*reduced, limits)) return;

  solution.status = Status::unknown;
  solution.lower_bound = saturated(reduced->constant);
  const auto offer = [&](const Choice& choice) {
    const Cost cost = cost_of(problem, choice);
    if (cost >= solution.cost || !within_limits(problem, choice)) return;
    solution.choice = choice;
    solution.cost = cost;
    solution.status = Status::feasible;
  };
  std::ranges::for_each(options.starts, offer);
  if (solution.cost == solution.lower_bound) {
    solution.status = Status::optimal;
    return;
  }

  const auto incumbent = solution.choice.empty() ? std::nullopt : reduced->reduced(solution.choice);
  const IntegerSolution result =
      solve_integer_program(*reduced, limits, incumbent, deadline, options);
  solution.glpk_seconds = result.seconds;
  if (result.status == Status::infeasible) {
    if (!solution.choice.empty()) return;  // the choice at hand proves GLPK wrong
    solution.status = Status::infeasible;
    solution.lower_bound = impossible;
    return;
  }
  bool agrees = false;
  if (result.choice) {
    const Choice choice = reduced->original(*result.choice);
    offer(choice);
    const double price = static_cast<double>(cost_of(problem, choice) - reduced->constant);
    agrees = within_limits(problem, choice) &&
             std::abs(price - result.objective) <= 0.5 + rounding * std::abs(price);
  }
  if (result.status == Status::optimal && agrees) {
    solution.status = Status::optimal;
    solution.lower_bound = solution.cost;
    return;
  }
  const Cost bound = saturated(reduced->constant + safe_ceiling(result.bound));
  solution.lower_bound = std::clamp(bound, solution.lower_bound, solution.cost);
}

}  // namespace

Solution solve_with_glpk(const AssignmentProblem& problem, const SolveOptions& options,
                         const std::optional<Deadline>& deadline) {
  check(problem);
  const Stopwatch stopwatch;
  Solution solution;
  solve(problem, options, deadline ? *deadline : Deadline(options.time_limit_seconds), solution);
  solution.seconds = stopwatch.seconds();
  return solution;
}

}  // namespace autopar::assignment
