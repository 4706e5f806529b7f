#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/planner.h"
#include "planner/rank_memory.h"

/// How many devices, and which: a plan for each pair of a number and a kind.
namespace autopar::planner {

struct SizingOptions {
  std::vector<int> ngpus{};                ///< none twice
  std::vector<std::string> devices{};      ///< as PlanOptions::device, none twice
  std::map<std::string, double> prices{};  ///< of a device an hour, by its entry in `devices`
};

/// What is predicted of the plan for one pair.
struct SizedPlan {
  PlanSummary summary{};
  RankMemory memory{};             ///< of the rank that needs most
  double communication_share = 0;  ///< of the time of a run
  std::optional<double> tokens_a_second{};
  double speed_up = 0;    ///< over one device of the kind, whether the model fits it or not
  double efficiency = 0;  ///< speed-up over the number of devices
  bool fits = true;       ///< the memory of the device, where --memory allows more than that
  /// For a million tokens or, where nothing tells of tokens, a million runs.
  std::optional<double> price{};
};

struct SizingRow {
  std::string device;
  int ngpus = 1;
  std::optional<SizedPlan> plan{};
  std::string reason{};   ///< in a few words why there is no plan; else empty
  std::string refusal{};  ///< the error's lines; else empty
};

struct Sizing {
  std::vector<SizingRow> rows;  ///< device by device, as the options have them
  std::string assumed{};        ///< Model::assumed
  bool counts_tokens = false;
  bool interrupted = false;  ///< whether SIGINT ended any search or kept it from its begin
  std::optional<std::size_t> first_that_fits{};
  std::optional<std::size_t> cheapest{};  ///< of those that fit; the first of equal ones
};

/// "h100=2.5,h200=3.5", by device. Throws Error, which names --price, for what is no such list.
std::map<std::string, double> parse_prices(const std::string& text);

/// Throws all that is wrong with the options, at once, as the other check_options.
void check_sizing(const ModelOptions& model, const PlanOptions& plan, const SizingOptions& sizing);

/// Searches for the best plan of each pair with all other options alike, `time_limit_seconds` each;
/// `ngpus` and `device` of `plan` count for nothing. After a first pair, several are searched at a
/// time, as far as cores and memory go, unless a search brings rules. A pair that has no plan says
/// why, and the others go on; after SIGINT those that are begun tell their best plan so far. Throws
/// as check_sizing, but for what the model's file alone tells.
Sizing size(const Model& model, const PlanOptions& plan, const SizingOptions& sizing);

/// A table, with a line for each pair.
std::string sizing_text(const Sizing& sizing);
/// The same as JSON: sizing.schema.json.
std::string sizing_json(const Sizing& sizing);
/// The same as a page with charts; as save_report. Nothing measured can be shown beside it.
void save_sizing_report(const Model& model, const Sizing& sizing, const ReportOptions& options);

}  // namespace autopar::planner
