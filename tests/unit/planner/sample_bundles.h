#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/error.h"
#include "unit/graph/models.h"
#include "unit/planner/forked_trials.h"
#include "unit/planner/samples.h"

/// Trials of sample bundles.
namespace autopar::testing {

/// Makes the bundle in a folder; in a child process, since it starts threads.
inline void write_sample(const Sample& sample, const std::filesystem::path& folder) {
  const auto write = [&](std::size_t) -> std::string {
    try {
      planner::ModelOptions options = sample.options;
      options.file = folder / "model.onnx";
      graph::write_model(graph::parse_graph(18, sample.model), options.file);
      planner::write_bundle(planner::plan(planner::load_model(options), sample.plan),
                            {.out = folder / "bundle"});
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  };
  const std::string wrong = forked_trials(1, write).front();
  INFO(wrong);
  REQUIRE(wrong.empty());
}

/// What a trial comes to: what `make` returns, "refused: LINE", or what must not be.
inline std::string outcome_of(const std::function<std::string()>& make) {
  try {
    return make();
  } catch (const SeveralErrors& errors) {
    return "refused: " + errors.lines().front();
  } catch (const InternalError& error) {
    return error.what();
  } catch (const Error& error) {
    const std::string line = error.what();
    const bool is_one = line.find('\n') == std::string::npos;
    return (is_one && !line.empty() ? "refused: " : "several lines: ") + line;
  } catch (const std::exception& error) {
    return std::string("unexpected exception: ") + error.what();
  }
}

inline bool is_refused(const std::string& outcome) { return outcome.starts_with("refused: "); }

}  // namespace autopar::testing
