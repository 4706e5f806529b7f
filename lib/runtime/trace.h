#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "runtime/device.h"
#include "runtime/span.h"

namespace autopar::runtime {

/// All but the times.
Span span_of(const Step& step);

nlohmann::json to_json(std::span<const Span> spans);
/// The inverse.
std::vector<Span> spans_from_json(const nlohmann::json& json);

/// In the format of Chrome's and Perfetto's trace viewers, a process a rank and a thread a queue,
/// in microseconds from the first span on, without ranks that have no spans; of a pipeline, each
/// rank's bubbles as an instant event.
nlohmann::json chrome_trace(std::span<const std::vector<Span>> by_rank);

/// By rank, the share of the run in which it neither computed nor took part in a collective of its
/// stage: a pipeline's bubbles. The run lasts from the first span of any rank to the last one's
/// end.
std::vector<double> idle_shares(std::span<const std::vector<Span>> by_rank);
/// Whether any rank receives from another stage or sends to one.
bool is_pipeline(std::span<const std::vector<Span>> by_rank);

/// Throws Error, naming the option that the file was given with, where such a file cannot be
/// written; writes none.
void check_trace_file(const std::filesystem::path& file, const char* option);
/// What save_trace wrote, by rank, from time 0 on; of a rank that has none, no spans. Throws Error,
/// naming the option, for a file that is not such a trace.
std::vector<std::vector<Span>> load_trace(const std::filesystem::path& file, const char* option);
void save_trace(const std::filesystem::path& file, std::span<const std::vector<Span>> by_rank,
                const char* option);

}  // namespace autopar::runtime
