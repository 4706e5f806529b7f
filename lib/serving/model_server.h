#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "serving/http_server.h"
#include "serving/inference_protocol.h"
#include "serving/lasting_session.h"

namespace autopar::serving {

struct ServerOptions {
  std::string place = "127.0.0.1:8000";  ///< HOST:PORT
  std::string version;                   ///< the server's own
  std::size_t most_body_bytes = std::size_t{256} << 20;
};

/// Serves a session by the Open Inference Protocol. Requests are read and answers written in the
/// server's thread; the one that calls run() makes the runs, in the order in which they came.
class ModelServer {
 public:
  /// Listens from now on; it is ready when run() says so. Throws Error for a place that is in use.
  ModelServer(ServedModel model, const ServerOptions& options);

  std::string place() const { return http_.place(); }

  /// Leads the session until `is_enough`, which is asked a few times a second, and answers what
  /// came before. Throws Error where a rank fails: then nothing is ready any more, and requests
  /// under way have that as their answer.
  void run(LastingSession& session, const std::function<bool()>& is_enough);

 private:
  struct Job {
    InferenceRequest request;
    HttpServer::Respond respond;
  };

  void handle(const HttpRequest& request, const HttpServer::Respond& respond);
  HttpAnswer readiness(const std::string& name) const;
  void enqueue(const HttpRequest& request, const HttpServer::Respond& respond);
  std::optional<Job> next_job(std::chrono::milliseconds most);
  void answer(LastingSession& session, const Job& job);
  /// No request is taken from now on, nor is anything ready.
  void close(const std::string& why);

  ServedModel model_;
  std::string version_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Job> jobs_;
  bool is_ready_ = false;
  std::string closed_;  ///< why no request is taken any more; empty: they are
  HttpServer http_;     ///< last, since its thread uses the others
};

}  // namespace autopar::serving
