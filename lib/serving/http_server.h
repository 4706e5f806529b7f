#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace autopar::serving {

struct HttpRequest {
  std::string method;  ///< "GET"
  std::string target;  ///< path and query, as they came
  /// The header Inference-Header-Content-Length, and whether it was there.
  std::optional<std::string> json_bytes;
  std::string body;
};

struct HttpAnswer {
  int status = 200;
  std::string body = {};                       ///< JSON
  std::optional<std::size_t> json_bytes = {};  ///< how much of it is, where binary tensors follow
};

/// HTTP/1.1 over TCP, without encryption. One thread reads requests and writes answers, for any
/// number of connections; what a connection sends behind a request waits for its answer.
class HttpServer {
 public:
  /// From any thread, once. What comes for a client that has gone is dropped.
  using Respond = std::function<void(HttpAnswer)>;
  /// Is called in the server's thread, which does nothing else meanwhile; throws nothing.
  using Handler = std::function<void(HttpRequest, Respond)>;

  /// `place` is HOST:PORT or [ADDRESS]:PORT; port 0 is any that is free. Listens from now on.
  /// Bodies beyond `most_bytes` are refused. Throws Error for a place that is none or is in use.
  HttpServer(const std::string& place, std::size_t most_bytes, Handler handler);
  /// Ends all connections.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string place() const;  ///< with the port that it has

  /// Takes no more requests, and returns when the answers that were given before are written, or
  /// after the time.
  void finish(std::chrono::milliseconds most);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace autopar::serving
