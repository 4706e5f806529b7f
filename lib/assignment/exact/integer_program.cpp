#include "assignment/exact/integer_program.h"

#include <glpk.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace autopar::assignment {

namespace {

constexpr double integrality_tolerance = 1e-6;

/// GLPK's terminal output and error handling while it runs; both are a thread's own.
class GlpkSession {
 public:
  explicit GlpkSession(bool log) {
    static thread_local const Environment environment;
    glp_term_out(GLP_ON);
    glp_term_hook(log ? print : swallow, nullptr);
    // GLPK aborts the process otherwise.
    glp_error_hook([](void*) { throw InternalError("internal error: GLPK failed"); }, nullptr);
  }
  ~GlpkSession() {
    glp_term_hook(nullptr, nullptr);
    glp_error_hook(nullptr, nullptr);
  }
  GlpkSession(const GlpkSession&) = delete;
  GlpkSession& operator=(const GlpkSession&) = delete;

 private:
  static int print(void*, const char* text) {
    const std::string line(text, std::string_view(text).find_last_not_of('\n') + 1);
    if (!line.empty()) spdlog::info("glpk: {}", line);
    return 1;
  }
  static int swallow(void*, const char*) { return 1; }

  /// GLPK makes one a thread on first use and never frees it.
  struct Environment {
    ~Environment() { glp_free_env(); }
  };
};

int in_milliseconds(double seconds) {
  return static_cast<int>(std::clamp(seconds * 1e3, 0.0, 1e9));
}

}  // namespace

/// The matrix under construction, as GLPK's triplets (1-based, the first entry unused).
struct IntegerProgram::Rows {
  glp_prob* program;
  std::vector<int> row{0};
  std::vector<int> column{0};
  std::vector<double> value{0};

  /// A new row of the given type (GLP_FX or GLP_UP) with right-hand side `bound`.
  void add(int type, double bound) {
    glp_set_row_bnds(program, glp_add_rows(program, 1), type, bound, bound);
  }
  void put(int j, double coefficient) {
    row.push_back(glp_get_num_rows(program));
    column.push_back(j);
    value.push_back(coefficient);
  }
  void load() {
    glp_load_matrix(program, static_cast<int>(row.size()) - 1, row.data(), column.data(),
                    value.data());
  }
};

void IntegerProgram::Deleter::operator()(glp_prob* program) const { glp_delete_prob(program); }

IntegerProgram::IntegerProgram(const ReducedProblem& problem, const std::vector<LimitedSet>& limits,
                               const SolverParameters::Work& rates)
    : problem_(problem), rates_(rates), program_(glp_create_prob()) {
  const GlpkSession session(false);
  double largest = 1;
  const auto note = [&](auto cost) {
    if (cost < impossible) largest = std::max(largest, static_cast<double>(cost));
  };
  for (const auto& node : problem.nodes) std::ranges::for_each(node.costs, note);
  for (const auto& edge : problem.edges) std::ranges::for_each(edge.costs, note);
  scale_ = std::exp2(std::ceil(std::max(0.0, std::log2(largest) - 12)));
  glp_set_obj_dir(program_.get(), GLP_MIN);
  Rows rows{program_.get()};
  add_choice_rows(rows);
  for (std::size_t k = 0; k < problem.edges.size(); ++k) add_edge_rows(rows, problem.edges[k], k);
  for (const LimitedSet& set : limits) add_usage_rows(rows, set);
  rows.load();
}

int IntegerProgram::add_column(double cost) {
  const int j = glp_add_cols(program_.get(), 1);
  glp_set_col_bnds(program_.get(), j, GLP_LO, 0, 0);
  glp_set_obj_coef(program_.get(), j, cost);
  return j;
}

void IntegerProgram::add_choice_rows(Rows& rows) {
  for (const auto& node : problem_.nodes) {
    first_column_.push_back(0);
    if (node.strategies.size() == 1) continue;
    rows.add(GLP_FX, 1);
    for (const WideCost cost : node.costs) {
      const int j = add_column(static_cast<double>(cost) / scale_);
      glp_set_col_kind(program_.get(), j, GLP_BV);
      if (first_column_.back() == 0) first_column_.back() = j;
      rows.put(j, 1);
    }
  }
}

void IntegerProgram::add_edge_rows(Rows& rows, const ReducedProblem::Edge& edge,
                                   std::size_t index) {
  edge_columns_.resize(std::max(edge_columns_.size(), index + 1));
  std::vector<int>& columns = edge_columns_[index];
  for (const Cost cost : edge.costs) {
    columns.push_back(cost >= impossible ? 0 : add_column(static_cast<double>(cost) / scale_));
  }
  const auto add_row = [&](int node, const std::vector<int>& class_of, int wanted, int first,
                           int count, int stride) {
    rows.add(GLP_FX, 0);
    for (int k = 0; k < count; ++k) {
      if (const int j = columns[first + k * stride]) rows.put(j, 1);
    }
    for (std::size_t s = 0; s < class_of.size(); ++s) {
      if (class_of[s] == wanted) rows.put(first_column_[node] + static_cast<int>(s), -1);
    }
  };
  for (int u = 0; u < edge.classes_of_a; ++u) {
    add_row(edge.a, edge.class_of_a, u, u * edge.classes_of_b, edge.classes_of_b, 1);
  }
  for (int v = 0; v < edge.classes_of_b; ++v) {
    add_row(edge.b, edge.class_of_b, v, v, edge.classes_of_a, edge.classes_of_b);
  }
}

void IntegerProgram::add_usage_rows(Rows& rows, const LimitedSet& set) {
  std::int64_t always = 0;  // used whatever is chosen
  std::int64_t divisor = 0;
  for (const int i : set.nodes) {
    const auto& usages = problem_.nodes[i].usages;
    const std::int64_t least = *std::ranges::min_element(usages);
    always += least;
    for (const std::int64_t usage : usages) divisor = std::gcd(divisor, usage - least);
  }
  if (divisor == 0) return;  // every choice uses the same
  const std::int64_t room = set.limit - always;
  rows.add(GLP_UP, std::floor(static_cast<double>(room) / static_cast<double>(divisor)));
  for (const int i : set.nodes) {
    const auto& usages = problem_.nodes[i].usages;
    const std::int64_t least = *std::ranges::min_element(usages);
    for (std::size_t s = 0; s < usages.size(); ++s) {
      if (usages[s] == least) continue;
      const double more = static_cast<double>(usages[s] - least);
      rows.put(first_column_[i] + static_cast<int>(s), more / static_cast<double>(divisor));
    }
  }
}

template <typename Value>
std::vector<int> IntegerProgram::decode(const Value& value) const {
  std::vector<int> choice(problem_.nodes.size(), 0);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    if (!has_columns(i)) continue;
    const int strategies = static_cast<int>(problem_.nodes[i].strategies.size());
    double largest = -1;
    for (int s = 0; s < strategies; ++s) {
      const double share = value(first_column_[i] + s);
      if (share <= largest) continue;
      largest = share;
      choice[i] = s;
    }
  }
  return choice;
}

template <typename Value>
bool IntegerProgram::is_integral(const Value& value) const {
  for (int j = 1; j <= glp_get_num_cols(program_.get()); ++j) {
    if (glp_get_col_kind(program_.get(), j) == GLP_CV) continue;
    if (std::abs(value(j) - std::round(value(j))) > integrality_tolerance) return false;
  }
  return true;
}

std::vector<double> IntegerProgram::encode(const std::vector<int>& choice) const {
  std::vector<double> values(glp_get_num_cols(program_.get()) + 1, 0.0);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    if (has_columns(i)) values[first_column_[i] + choice[i]] = 1;
  }
  for (std::size_t k = 0; k < problem_.edges.size(); ++k) {
    const auto& edge = problem_.edges[k];
    const int u = edge.class_of_a[choice[edge.a]];
    const int v = edge.class_of_b[choice[edge.b]];
    if (const int j = edge_columns_[k][u * edge.classes_of_b + v]) values[j] = 1;
  }
  return values;
}

double IntegerProgram::objective_of(const std::vector<double>& values) const {
  double sum = 0;
  for (std::size_t j = 1; j < values.size(); ++j) {
    sum += glp_get_obj_coef(program_.get(), static_cast<int>(j)) * values[j];
  }
  return sum;
}

/// As an ordinary core takes them, about.
double IntegerProgram::seconds_of_iteration() const {
  return rates_.costs_of_matrix_entry * glp_get_num_nz(program_.get()) / rates_.costs_a_second;
}

int IntegerProgram::iterations_until(const Deadline& deadline) const {
  return static_cast<int>(std::clamp(deadline.work_left() / seconds_of_iteration(), 0.0, 1e9));
}

/// Those since the last count.
void IntegerProgram::count_iterations(const Deadline& deadline) {
  deadline.count(glp_get_it_cnt(program_.get()) * seconds_of_iteration());
  glp_set_it_cnt(program_.get(), 0);
}

IntegerProgram::Result IntegerProgram::solve(const std::optional<std::vector<int>>& incumbent,
                                             const Deadline& deadline, bool log) {
  const GlpkSession session(log);
  glp_prob* program = program_.get();
  if (glp_get_num_cols(program) == 0)
    return {Outcome::optimal, decode([](int) { return 0.0; }), 0, 0};

  glp_scale_prob(program, GLP_SF_AUTO);  // costs and bytes in one matrix
  glp_smcp simplex;
  glp_init_smcp(&simplex);
  simplex.msg_lev = GLP_MSG_ALL;
  simplex.meth = GLP_DUALP;  // all costs are at least 0: the slack basis is dual feasible
  simplex.presolve = GLP_ON;
  simplex.tm_lim = in_milliseconds(deadline.left());
  simplex.it_lim = iterations_until(deadline);
  const int status = glp_simplex(program, &simplex);
  count_iterations(deadline);
  if (status == GLP_ENOPFS) return {Outcome::infeasible, {}, 0, 0};
  if (status != 0) return {};
  if (glp_get_status(program) == GLP_NOFEAS) return {Outcome::infeasible, {}, 0, 0};
  if (glp_get_status(program) != GLP_OPT) return {};

  const auto relaxed = [&](int j) { return glp_get_col_prim(program, j); };
  const double bound = in_unit(glp_get_obj_val(program));
  if (is_integral(relaxed)) return {Outcome::optimal, decode(relaxed), bound, bound};
  Result result = branch_and_cut(incumbent, deadline);
  result.bound = std::max(result.bound, bound);
  return result;
}

namespace {

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

}  // namespace

IntegerProgram::Result IntegerProgram::branch_and_cut(
    const std::optional<std::vector<int>>& incumbent, const Deadline& deadline) {
  glp_prob* program = program_.get();
  TreeWatch watch;
  watch.most_iterations = iterations_until(deadline);
  if (incumbent) watch.incumbent = encode(*incumbent);
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
  const double unit = 0.4 / scale_;
  const double most = incumbent ? objective_of(watch.incumbent) : 1e3 + glp_get_obj_val(program);
  options.tol_obj = std::clamp(unit / (1 + most), 1e-12, 1e-7);
  options.tm_lim = in_milliseconds(deadline.left());
  options.cb_func = TreeWatch::called;
  options.cb_info = &watch;
  const int status = glp_intopt(program, &options);
  count_iterations(deadline);

  Result result;
  const int found = glp_mip_status(program);
  if (status == 0 && found == GLP_NOFEAS) return {Outcome::infeasible, {}, 0, 0};
  if (found == GLP_OPT || found == GLP_FEAS) {
    result.choice = decode([&](int j) { return glp_mip_col_val(program, j); });
    result.objective = in_unit(glp_mip_obj_val(program));
  }
  const bool is_optimal = status == 0 && found == GLP_OPT;
  result.outcome = is_optimal ? Outcome::optimal : Outcome::stopped;
  result.bound = is_optimal ? result.objective : in_unit(watch.bound);
  return result;
}

}  // namespace autopar::assignment
