#pragma once

#include <cstdio>
#include <filesystem>

#include "serving/lasting_session.h"
#include "serving/line_reader.h"

namespace autopar::serving {

struct AnsweredLines {
  int requests = 0;
  int refused = 0;  ///< of them
};

/// Runs the requests of the lines, in order, on a session whose other processes follow, and writes
/// an answer to each. A line that is refused is answered with its error; empty ones count for
/// nothing. Throws Error where a rank fails, with that line answered, and where nothing can be
/// written.
AnsweredLines answer_lines(LastingSession& session, LineReader& lines,
                           const std::filesystem::path& output_dir, std::FILE* answers);

}  // namespace autopar::serving
