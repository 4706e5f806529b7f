#include "serving/answer_lines.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "base/interruption.h"
#include "serving/request_line.h"

namespace autopar::serving {
namespace {

void write(const std::string& line, std::FILE* answers) {
  if (std::fwrite(line.data(), 1, line.size(), answers) != line.size() || std::fflush(answers) != 0)
    fail("the answers cannot be written; is the disk full?");
}

}  // namespace

AnsweredLines answer_lines(LastingSession& session, LineReader& lines,
                           const std::filesystem::path& output_dir, std::FILE* answers) {
  const std::vector<runtime::ModelPort> inputs = session.get().inputs();
  AnsweredLines answered;
  int number = 0;
  while (const auto line = lines.next([&] { session.get().check_ranks(); })) {
    ++number;
    if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
    ++answered.requests;
    nlohmann::json id;
    std::string answer;
    try {
      const RequestLine request = parse_request_line(*line, inputs, output_dir, id);
      answer = answer_line(request, session.lead(request.inputs));
    } catch (const Error& error) {
      ++answered.refused;
      write(refusal_line(id, fmt::format("line {}: {}", number, error.what())), answers);
      if (session.is_over() || was_interrupted()) throw;
      continue;
    }
    write(answer, answers);
  }
  return answered;
}

}  // namespace autopar::serving
