#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serving/http_server.h"
#include "serving/inference_protocol.h"
#include "serving/lasting_session.h"
#include "serving/request_joiner.h"

namespace autopar::serving {

struct ServerOptions {
  std::string place = "127.0.0.1:8000";  ///< HOST:PORT
  std::string version;                   ///< the server's own
  std::size_t most_body_bytes = std::size_t{256} << 20;
  /// How long a request may wait for others that it can be joined with.
  std::chrono::microseconds most_delay{0};
};

/// Serves a session by the Open Inference Protocol. Requests are read and answers written in the
/// server's thread; the one that calls run() makes the runs, in the order in which they came.
class ModelServer {
 public:
  /// Listens from now on; it is ready when run() says so. Throws Error for a place that is in use.
  ModelServer(ServedModel model, const ServerOptions& options);

  std::string place() const { return http_.place(); }

  /// Leads the session until `is_enough`, which is asked a few times a second, and answers what
  /// came before. Requests are joined where there is a joiner. Throws Error where a rank fails:
  /// then nothing is ready any more, and requests under way have that as their answer.
  void run(LastingSession& session, RequestJoiner* joiner, const std::function<bool()>& is_enough);

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    InferenceRequest request;
    HttpServer::Respond respond;
    Clock::time_point came;
  };
  /// Jobs that one run may be for, and what they have in common where there may be several.
  struct Batch {
    std::vector<Job> jobs = {};
    std::optional<RequestRows> rows = {};
  };

  void handle(const HttpRequest& request, const HttpServer::Respond& respond);
  HttpAnswer readiness(const std::string& name) const;
  void enqueue(const HttpRequest& request, const HttpServer::Respond& respond);
  std::string statistics() const;
  std::optional<Job> next_job(std::chrono::milliseconds most);
  /// The next job and those that can be joined with it; none where none comes.
  Batch next_batch(const RequestJoiner* joiner, std::chrono::milliseconds most,
                   const std::function<bool()>& is_enough);
  /// Moves what can be joined from those that wait to the batch.
  void take_alike(const RequestJoiner& joiner, Batch& batch);
  void answer(LastingSession& session, const Job& job);
  void answer(LastingSession& session, RequestJoiner& joiner, const Batch& batch);
  void respond(const Job& job, const runtime::NamedTensors& outputs) const;
  void count(std::size_t requests);
  /// No request is taken from now on, nor is anything ready.
  void close(const std::string& why);

  ServedModel model_;
  std::string version_;
  std::chrono::microseconds most_delay_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Job> jobs_;
  std::int64_t answered_ = 0;  ///< requests that were run, whether or not they had an answer
  std::int64_t runs_ = 0;      ///< that were made for them
  bool is_ready_ = false;
  std::string closed_;  ///< why no request is taken any more; empty: they are
  HttpServer http_;     ///< last, since its thread uses the others
};

}  // namespace autopar::serving
