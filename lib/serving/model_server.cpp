#include "serving/model_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"

namespace autopar::serving {
namespace {

constexpr std::size_t most_jobs = 1000;  ///< that wait; beyond, a client had better ask others
constexpr auto look_around = std::chrono::milliseconds(100);
constexpr auto last_answers = std::chrono::seconds(10);  ///< for clients to take them

HttpAnswer refusal(int status, std::string_view why) {
  return {.status = status, .body = error_message(why)};
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char code = 0;
    const char* digits = text.data() + i + 1;
    const bool is_coded = text[i] == '%' && i + 2 < text.size() &&
                          std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2;
    decoded += is_coded ? static_cast<char>(code) : text[i];
    if (is_coded) i += 2;
  }
  return decoded;
}

/// "/v2/models/a%20b?x" is v2, models, a b.
std::vector<std::string> path_of(std::string_view target) {
  target = target.substr(0, target.find('?'));
  std::vector<std::string> path;
  while (!target.empty()) {
    target.remove_prefix(1);
    const std::size_t end = std::min(target.find('/'), target.size());
    path.push_back(percent_decoded(target.substr(0, end)));
    target.remove_prefix(end);
  }
  return path;
}

/// An error with a status of its own; others are 400.
struct Refused {
  int status;
  std::string why;
};

[[noreturn]] void refuse(int status, std::string why) { throw Refused{status, std::move(why)}; }

using Path = std::vector<std::string>;

/// What is asked of the model, "infer" or "" of its path alone; nullopt: another path.
std::optional<std::string> question(Path path, const ServedModel& model) {
  if (path.size() < 3 || path[0] != "v2" || path[1] != "models") return std::nullopt;
  if (path[2] != model.name)
    refuse(404, fmt::format("there is no model '{}'; this server has '{}'", path[2], model.name));
  path.erase(path.begin(), path.begin() + 3);
  if (path.size() >= 2 && path[0] == "versions") {
    if (path[1] != ServedModel::version)
      refuse(404, fmt::format("model '{}' has no version '{}', only {}", model.name, path[1],
                              ServedModel::version));
    path.erase(path.begin(), path.begin() + 2);
  }
  if (path.size() > 1) return std::nullopt;
  return path.empty() ? "" : path.front();
}

std::optional<std::size_t> json_bytes_of(const HttpRequest& request) {
  if (!request.json_bytes) return std::nullopt;
  const std::string& text = *request.json_bytes;
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size())
    fail("Inference-Header-Content-Length is '{}'; give a number of bytes", text);
  return bytes;
}

}  // namespace

ModelServer::ModelServer(ServedModel model, const ServerOptions& options)
    : model_(std::move(model)),
      version_(options.version),
      most_delay_(options.most_delay),
      http_(options.place, options.most_body_bytes,
            [this](const HttpRequest& request, const HttpServer::Respond& respond) {
              try {
                handle(request, respond);
              } catch (const Refused& refused) {
                respond(refusal(refused.status, refused.why));
              } catch (const Error& error) {
                respond(refusal(400, error.what()));
              } catch (const std::exception& error) {
                respond(refusal(500, error.what()));
              }
            }) {}

void ModelServer::handle(const HttpRequest& request, const HttpServer::Respond& respond) {
  const Path path = path_of(request.target);
  const std::optional<std::string> of_model = question(path, model_);
  const bool infers = of_model == "infer";
  const auto check_method = [&](const char* method) {
    if (request.method != method)
      refuse(405, fmt::format("{} is for {}, not {}", request.target, method, request.method));
  };
  if (infers) {
    check_method("POST");
    enqueue(request, respond);
    return;
  }
  HttpAnswer answer;
  if (path == Path{"v2"})
    answer.body = server_metadata(version_);
  else if (path == Path{"v2", "health", "live"})
    answer.body = R"({"live":true})";
  else if (path == Path{"v2", "health", "ready"})
    answer = readiness("");
  else if (of_model == "ready")
    answer = readiness(model_.name);
  else if (of_model == "stats")
    answer.body = statistics();
  else if (of_model == "")
    answer.body = model_metadata(model_);
  else
    refuse(404, fmt::format("{} is not in the Open Inference Protocol", request.target));
  check_method("GET");
  respond(std::move(answer));
}

HttpAnswer ModelServer::readiness(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  nlohmann::json told = {{"ready", is_ready_}};
  if (!name.empty()) told["name"] = name;
  return {.status = is_ready_ ? 200 : 503, .body = told.dump()};
}

std::string ModelServer::statistics() const {
  const std::lock_guard lock(mutex_);
  const nlohmann::json of_model = {{"name", model_.name},
                                   {"version", ServedModel::version},
                                   {"inference_count", answered_},
                                   {"execution_count", runs_}};
  return nlohmann::json{{"model_stats", nlohmann::json::array({of_model})}}.dump();
}

void ModelServer::enqueue(const HttpRequest& request, const HttpServer::Respond& respond) {
  InferenceRequest parsed = parse_inference_request(request.body, json_bytes_of(request), model_);
  const std::lock_guard lock(mutex_);
  if (!closed_.empty()) refuse(503, closed_);
  if (jobs_.size() >= most_jobs)
    refuse(503, fmt::format("{} requests wait already; try again later", most_jobs));
  jobs_.push_back({std::move(parsed), respond, Clock::now()});
  came_.notify_one();
}

std::optional<ModelServer::Job> ModelServer::next_job(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  if (!came_.wait_for(lock, most, [&] { return !jobs_.empty(); })) return std::nullopt;
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  return job;
}

ModelServer::Batch ModelServer::next_batch(const RequestJoiner* joiner,
                                           std::chrono::milliseconds most,
                                           const std::function<bool()>& is_enough) {
  Batch batch;
  if (std::optional<Job> first = next_job(most)) batch.jobs.push_back(*std::move(first));
  if (batch.jobs.empty() || joiner == nullptr) return batch;
  batch.rows = joiner->rows_of(batch.jobs.front().request.inputs);
  if (!batch.rows) return batch;
  const Clock::time_point last = batch.jobs.front().came + most_delay_;
  std::unique_lock lock(mutex_);
  while (true) {
    take_alike(*joiner, batch);
    const Clock::time_point now = Clock::now();
    if (batch.rows->rows >= joiner->most_rows() || now >= last || is_enough()) return batch;
    came_.wait_until(lock, std::min(last, now + Clock::duration(look_around)));
  }
}

void ModelServer::take_alike(const RequestJoiner& joiner, Batch& batch) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const auto rows = joiner.rows_of(job->request.inputs);
    const bool fits = rows && rows->rest == batch.rows->rest &&
                      batch.rows->rows + rows->rows <= joiner.most_rows() &&
                      joiner.are_of_one_run(batch.jobs.front().request.inputs, job->request.inputs);
    if (!fits) {
      ++job;
      continue;
    }
    batch.rows->rows += rows->rows;
    batch.jobs.push_back(std::move(*job));
    job = jobs_.erase(job);
  }
}

void ModelServer::respond(const Job& job, const runtime::NamedTensors& outputs) const {
  try {
    InferenceAnswer made = inference_answer(model_, job.request, outputs);
    job.respond({.body = std::move(made.body), .json_bytes = made.json_bytes});
  } catch (const std::exception& error) {
    job.respond(refusal(400, error.what()));
  }
}

void ModelServer::count(std::size_t requests) {
  const std::lock_guard lock(mutex_);
  answered_ += static_cast<std::int64_t>(requests);
  ++runs_;
}

void ModelServer::answer(LastingSession& session, const Job& job) {
  try {
    const runtime::RunResult result = session.lead(job.request.inputs);
    count(1);
    respond(job, result.outputs);
  } catch (const std::exception& error) {
    job.respond(refusal(session.is_over() ? 503 : session.has_failed() ? 500 : 400, error.what()));
    if (session.is_over()) throw;
  }
}

void ModelServer::answer(LastingSession& session, RequestJoiner& joiner, const Batch& batch) {
  std::vector<const runtime::NamedTensors*> requests;
  for (const Job& job : batch.jobs) requests.push_back(&job.request.inputs);
  std::optional<std::vector<runtime::NamedTensors>> outputs;
  try {
    outputs = joiner.lead(requests);
  } catch (const std::exception& error) {
    for (const Job& job : batch.jobs) job.respond(refusal(503, error.what()));
    throw;
  }
  if (outputs) {
    count(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) respond(batch.jobs[i], (*outputs)[i]);
    return;
  }
  for (const Job& job : batch.jobs) answer(session, job);
  joiner.learn(requests);
}

void ModelServer::close(const std::string& why) {
  const std::lock_guard lock(mutex_);
  is_ready_ = false;
  closed_ = why;
}

void ModelServer::run(LastingSession& session, RequestJoiner* joiner,
                      const std::function<bool()>& is_enough) {
  {
    const std::lock_guard lock(mutex_);
    is_ready_ = true;
  }
  const auto answer_next = [&](std::chrono::milliseconds most) {
    const Batch batch = next_batch(joiner, most, is_enough);
    if (batch.jobs.size() > 1)
      answer(session, *joiner, batch);
    else if (!batch.jobs.empty())
      answer(session, batch.jobs.front());
    return !batch.jobs.empty();
  };
  try {
    while (!is_enough())
      if (!answer_next(look_around)) session.get().check_ranks();
    close("the server is about to end");
    while (answer_next({})) {
    }
  } catch (const std::exception& error) {
    close(error.what());
    while (const std::optional<Job> job = next_job({})) job->respond(refusal(503, error.what()));
    http_.finish(last_answers);
    throw;
  }
  http_.finish(last_answers);
}

}  // namespace autopar::serving
