#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"

/// Splits an ONNX model over several devices: load it, plan, write the bundle.
///
///     const planner::Model model =
///         planner::load_model({.file = "model.onnx", .shapes = {"input_ids=1x128"}});
///     const planner::Plan plan = planner::plan(model, {.ngpus = 4});
///     planner::write_bundle(plan, {.out = "bundle"});
///
/// A bundle is a folder with an ONNX file a rank; runtime/session.h runs it.
///
/// Errors are exceptions of type autopar::Error (error.h), or SeveralErrors with a line for each; a
/// line names options as the command line does: `ngpus` is --ngpus. Where std::bad_alloc or another
/// standard exception comes through, nothing is left behind either. Any number of models and plans
/// may be used from any number of threads, but nothing else may search while `discover` or a
/// library of operators brings rules.
///
/// Effects on the process: while plan() or explain() search, SIGINT ends the search instead of the
/// process, and the best plan so far is returned; while write_bundle() writes, SIGINT, SIGTERM and
/// SIGHUP make it throw and leave nothing behind. The handlers from before return with the call.
/// Warnings go to spdlog's default logger, which writes to standard error until it is replaced.
namespace autopar::planner {

/// Is told what begins, for a progress bar; what it returns is told how far it is, and destroyed
/// when it has ended.
using Progress = std::function<std::shared_ptr<ProgressListener>(const std::string& what)>;

/// The model, and how its symbolic dimensions are bound.
struct ModelOptions {
  std::filesystem::path file{};
  /// Shapes of inputs, "NAME=1x128", the name a glob or not, and extents of symbols, "batch=1".
  /// What they leave open is assumed: Model::assumed. Lists, "sequence=1,128" or "x=1x1,1x128",
  /// make profiles, one for each value, which are planned together; lists go together by position,
  /// so that all are as long, and what is no list is for all profiles.
  std::vector<std::string> shapes{};
  /// How often each profile runs, in the objective of the search; all alike where it is empty.
  std::vector<double> profile_weights{};
  std::vector<std::string> constants{};  ///< values of inputs for good, "NAME=FILE", .npy or .pb
  /// Outputs that are inputs of a run's next step, "present.*=past.*"; none: those that names tell
  /// (graph/found_states.h). "none" alone: no states.
  std::vector<std::string> loops{};
  /// What the model may grow to while it is read, "nodes=1000000,constants=4GiB"
  /// (graph/onnx/import_limits.h); what is left out is as by default.
  std::string limits{};
  /// Files of weights may be missing: enough for a plan, not for write_bundle.
  bool weights_may_be_absent = false;
  Progress progress{};
};

/// What plan is wanted, and how it is searched for.
struct PlanOptions {
  int ngpus = 0;                ///< devices to split the model over
  std::string mesh{};           ///< "2x4", or "auto" for the best one; empty: one axis
  std::string device = "h200";  ///< a device file, or one of device_names()
  std::string memory = "fair";  ///< "fair" (1.25/N of the weights a rank), "device", or "80GiB"
  std::string search = "ilp";   ///< "ilp" (exact), "propagation" or "recursive"
  bool bound = false;           ///< the exact search proves a bound for another search's plan
  bool presolve = true;         ///< false, with "ilp": GLPK is handed the whole problem
  /// What pins operators' strategies: a JSON file, or an ONNX model with multi-device annotations,
  /// MODEL.onnx; or empty.
  std::filesystem::path strategy{};
  double time_limit_seconds = 60;     ///< of the search
  std::string stages = "1";           ///< pipeline stages: a number, or "auto" for the best
  int microbatches = 1;               ///< parts of the batch that follow one another
  std::vector<std::string> batch{};   ///< inputs that have the batch: "NAME" or, by dimension,
                                      ///< "NAME=1"; none: the first input's, wherever it is
  std::string objective = "latency";  ///< of stages: "latency" or "throughput"
  /// Finds out how operators without a rule split, by running them; libraries' in any case.
  bool discover = false;
  std::string shards = "autopar";  ///< what write_bundle writes: one of shard_flavour_names()
  Progress progress{};
};

struct BundleOptions {
  std::filesystem::path out{};  ///< a new folder; its parent exists
  bool force = false;           ///< replaces `out` where that is a bundle
  Progress progress{};
};

struct LoadedModel;  // load_model.h
struct FoundPlan;    // find_plan.h

/// A model that was read. Copies share it.
class Model {
 public:
  explicit Model(std::shared_ptr<const LoadedModel> contents) : contents_(std::move(contents)) {}
  const LoadedModel& contents() const { return *contents_; }
  const std::shared_ptr<const LoadedModel>& shared() const { return contents_; }
  /// What was assumed of symbolic dimensions that the options leave open, "batch 1, sequence 128";
  /// empty where they leave none.
  std::string assumed() const;

 private:
  std::shared_ptr<const LoadedModel> contents_;
};

/// What a plan predicts.
struct PlanSummary {
  int ranks = 1;
  int stages = 1;
  double cost_seconds = 0;         ///< of a run; of several profiles summed by weight
  double lower_bound_seconds = 0;  ///< no plan takes less; 0 where nothing is known
  bool proven_optimal = false;
  std::int64_t weight_bytes = 0;  ///< of the fullest rank
  std::int64_t peak_bytes = 0;    ///< of the fullest rank, weights included
  double one_device_seconds = 0;  ///< what a run of the whole model on one device takes
  std::int64_t one_device_bytes = 0;
  bool interrupted = false;  ///< whether SIGINT ended the search: the best plan until then
};

/// A plan that was found, with its model. Copies share it.
class Plan {
 public:
  explicit Plan(std::shared_ptr<const FoundPlan> contents) : contents_(std::move(contents)) {}
  const FoundPlan& contents() const { return *contents_; }
  PlanSummary summary() const;

 private:
  std::shared_ptr<const FoundPlan> contents_;
};

/// Names of devices that need no device file.
std::vector<std::string> device_names();

/// What may be written of a plan (PlanOptions::shards), and the same with what each is.
std::vector<std::string> shard_flavour_names();
std::string shard_flavours_text();

/// Makes the operators of a shared library known to this process, for good: they are planned and
/// run like others (autopar_operator.h). Call it before models are loaded. Throws Error where the
/// library cannot be loaded or declares what cannot be.
void load_operators(const std::filesystem::path& library);

/// Throws all that is wrong with the options, at once, as far as the model's file tells without its
/// graph being read, and what `other_checks` throws; plan() and write_bundle() throw the same
/// later.
void check_options(const ModelOptions& model, const PlanOptions& plan,
                   const std::function<void()>& other_checks = {});
/// Throws where `out` exists and may not be replaced, or its parent folder does not exist.
void check_output_folder(const BundleOptions& options);

/// Reads the model; its weights stay in their files. Throws Error for what is wrong with it or the
/// options, and with it what of its names in `for_plan` the model does not have.
Model load_model(const ModelOptions& options, const PlanOptions& for_plan = {});
/// Types of operators that autopar's runtime cannot run. Other runtimes may run such shards.
std::vector<std::string> operators_without_kernel(const Model& model);

/// Searches for the best plan. Throws Error for options that are wrong or do not fit the model,
/// and where no plan fits the memory.
Plan plan(const Model& model, const PlanOptions& options);

/// What `autopar plan` tells of a plan, by stage and operator: text of several lines.
std::string report_text(const Plan& plan);
/// The text of plan.json.
std::string plan_json(const Plan& plan);
/// Writes the trace of a run as the cost model has it, in the format of Chrome's and Perfetto's
/// viewers. Throws Error as check_trace_file.
void save_simulation(const Plan& plan, const std::filesystem::path& trace);
/// Throws Error where the trace cannot be written there; writes none.
void check_trace_file(const std::filesystem::path& trace);

/// A page that shows a plan, one HTML file that needs no network.
struct ReportOptions {
  std::filesystem::path file{};      ///< is replaced where it is there
  std::filesystem::path measured{};  ///< a trace of run --profile to be shown beside it; or empty
};

/// Throws all that is wrong with the options, at once; writes nothing. Of a build without the
/// library of charts it says that.
void check_report_options(const ReportOptions& options);
/// Whole or not at all. Throws Error as check_report_options, and where the trace has other ranks
/// than the plan.
void save_report(const Plan& plan, const ReportOptions& options);
/// The same of a bundle, whose model is read within these limits (ModelOptions::limits). Throws
/// Error where it has microbatches or a tail: then it does not hold the model.
void save_report(const std::filesystem::path& bundle_dir, const ReportOptions& options,
                 const std::string& limits = {});
/// The same of how two plans differ, as compare() tells it.
void save_comparison_report(const std::filesystem::path& a, const std::filesystem::path& b,
                            const ReportOptions& options);

/// Searches for a plan of one stage and tells of one operator, by its name or a glob whose first
/// match counts, what each of its candidate strategies would cost; as text or JSON.
std::string explain(const Model& model, const PlanOptions& options, const std::string& op,
                    bool json = false);
/// How two plans of one model differ, plan.json files or bundles' folders; as text or JSON.
std::string compare(const std::filesystem::path& a, const std::filesystem::path& b,
                    bool json = false);

/// Writes the bundle, or what else PlanOptions::shards says: it appears whole or not at all. Throws
/// Error as check_output_folder, and where writing fails. Returns what `autopar partition` tells of
/// it, text of several lines.
std::string write_bundle(const Plan& plan, const BundleOptions& options);

}  // namespace autopar::planner
