#include "serving/http_server.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "base/error.h"
#include "serving/inference_protocol.h"

namespace autopar::serving {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr const char* json_bytes_header = "Inference-Header-Content-Length";
constexpr std::uint32_t most_header_bytes = 64 << 10;
constexpr std::size_t most_connections = 500;             ///< below what a process may have open
constexpr auto idle_time = std::chrono::minutes(5);       ///< of a connection between requests
constexpr auto transfer_time = std::chrono::minutes(10);  ///< of a request's body, or an answer
constexpr auto linger_time = std::chrono::seconds(30);    ///< for what nobody wants to read

tcp::endpoint resolve(asio::io_context& context, const std::string& place) {
  const std::size_t colon = place.rfind(':');
  std::string host = place.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : place.substr(colon + 1);
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (has_brackets) host = host.substr(1, host.size() - 2);
  std::uint16_t number = 0;
  const auto [rest, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool is_number = error == std::errc() && rest == port.data() + port.size();
  if (!is_number || host.empty() || (host.find(':') != std::string::npos) != has_brackets)
    fail("--listen {}: give HOST:PORT, or [ADDRESS]:PORT for IPv6; port 0 is any that is free",
         place);
  ErrorCode unknown;
  const auto found = tcp::resolver(context).resolve(host, port, unknown);
  if (unknown || found.empty()) fail("--listen {}: host {} is not known", place, host);
  return found.begin()->endpoint();
}

tcp::acceptor listen(asio::io_context& context, const std::string& place) {
  const tcp::endpoint endpoint = resolve(context, place);
  tcp::acceptor acceptor(context);
  try {
    acceptor.open(endpoint.protocol());
    acceptor.set_option(asio::socket_base::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen();
  } catch (const boost::system::system_error& error) {
    fail("--listen {}: {}; choose another place", place, error.code().message());
  }
  return acceptor;
}

class Connection;

/// What the connections share, in the server's thread.
struct Shared {
  std::size_t most_bytes;
  HttpServer::Handler handler;
  asio::io_context& context;
  std::map<std::uint64_t, Connection*> connections = {};  ///< by number, which none has again
  std::uint64_t last_number = 0;
  bool is_over = false;  ///< no further request is read
};

/// One request after another, each with its answer. It lives as long as something is under way.
class Connection : public std::enable_shared_from_this<Connection> {
  /// A completion that keeps this alive.
  template <typename Next>
  auto then(Next next) {
    return [self = shared_from_this(), next](ErrorCode error, std::size_t) { next(error); };
  }

 public:
  Connection(tcp::socket socket, Shared& shared)
      : stream_(std::move(socket)), shared_(shared), number_(++shared.last_number) {
    shared_.connections.emplace(number_, this);
    ErrorCode ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
  }
  ~Connection() { shared_.connections.erase(number_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(most_header_bytes);
    parser_->body_limit(shared_.most_bytes);
    stream_.expires_after(idle_time);
    is_reading_ = true;
    http::async_read_header(stream_, buffer_, *parser_,
                            then([this](ErrorCode error) { take_header(error); }));
  }

  void answer(HttpAnswer answer) {
    const std::shared_ptr<Connection> self = std::move(owing_);
    write(std::move(answer));
  }

  /// No answer will come any more.
  void forget() { owing_.reset(); }

  /// Ends it unless it owes an answer.
  void end_if_reading() {
    if (is_reading_) stream_.cancel();
  }

 private:
  void take_header(ErrorCode error) {
    if (error) return refuse_unread(error);
    stream_.expires_after(transfer_time);
    if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) return read_body();
    const auto go_on =
        std::make_shared<http::response<http::empty_body>>(http::status::continue_, 11);
    http::async_write(stream_, *go_on, then([this, go_on](ErrorCode failed) {
                        if (!failed) read_body();
                      }));
  }

  void read_body() {
    http::async_read(stream_, buffer_, *parser_,
                     then([this](ErrorCode error) { take_request(error); }));
  }

  void take_request(ErrorCode error) {
    if (error) return refuse_unread(error);
    is_reading_ = false;
    stream_.expires_never();
    http::request<http::string_body> request = parser_->release();
    // An answer to HEAD would have to have no body.
    keeps_alive_ = request.keep_alive() && request.method() != http::verb::head;
    const auto coding = request[http::field::content_encoding];
    if (!coding.empty() && !beast::iequals(coding, "identity"))
      return write(refusal(415, fmt::format("bodies in {} are not read; send them as they are",
                                            std::string(coding))));
    HttpRequest taken{.method = std::string(request.method_string()),
                      .target = std::string(request.target()),
                      .json_bytes = {},
                      .body = std::move(request.body())};
    const auto json_bytes = request.find(json_bytes_header);
    if (json_bytes != request.end()) taken.json_bytes = std::string(json_bytes->value());
    owing_ = shared_from_this();
    const auto respond = [&shared = shared_, number = number_](HttpAnswer given) {
      asio::post(shared.context, [&shared, number, answer = std::move(given)]() mutable {
        const auto found = shared.connections.find(number);
        if (found != shared.connections.end()) found->second->answer(std::move(answer));
      });
    };
    shared_.handler(std::move(taken), respond);
  }

  static HttpAnswer refusal(int status, std::string_view why) {
    return {.status = status, .body = error_message(why)};
  }

  /// The client has gone, or sends what is not read.
  void refuse_unread(ErrorCode error) {
    if (shared_.is_over || error == http::error::end_of_stream ||
        error == http::error::partial_message ||
        error.category() != make_error_code(http::error::bad_method).category())
      return;
    is_reading_ = false;
    keeps_alive_ = false;
    is_unread_ = true;
    if (error == http::error::body_limit)
      return write(
          refusal(413, fmt::format("the body has more than {} bytes, and no more are taken",
                                   shared_.most_bytes)));
    write(refusal(400, "this is no HTTP request: " + error.message()));
  }

  void write(HttpAnswer answer) {
    response_ = {};
    response_.result(static_cast<unsigned>(answer.status));
    response_.keep_alive(keeps_alive_ && !shared_.is_over);
    response_.set(http::field::content_type,
                  answer.json_bytes ? "application/octet-stream" : "application/json");
    if (answer.json_bytes) response_.set(json_bytes_header, std::to_string(*answer.json_bytes));
    response_.body() = std::move(answer.body);
    response_.prepare_payload();
    stream_.expires_after(transfer_time);
    http::async_write(stream_, response_, then([this](ErrorCode error) { go_on(error); }));
  }

  void go_on(ErrorCode error) {
    if (error) return;
    if (response_.keep_alive()) return read();
    ErrorCode ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    if (!is_unread_) return;
    stream_.expires_after(linger_time);
    drop_unread();
  }

  /// A client that is still sending hears of a refusal only where what it sends is taken.
  void drop_unread() {
    stream_.async_read_some(asio::buffer(dropped_), then([this](ErrorCode error) {
                              if (!error && !shared_.is_over) drop_unread();
                            }));
  }

  beast::tcp_stream stream_;
  Shared& shared_;
  std::uint64_t number_;
  std::shared_ptr<Connection> owing_;  ///< itself, while nothing but an answer is awaited
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  std::array<char, 16 << 10> dropped_{};
  bool is_reading_ = false;
  bool keeps_alive_ = false;
  bool is_unread_ = false;
};

}  // namespace

struct HttpServer::Impl {
  Shared shared;  // before the context, whose end ends connections
  asio::io_context context;
  tcp::acceptor acceptor;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::promise<void> ended;
  std::jthread thread;  // last, since it uses the others

  Impl(const std::string& place, std::size_t most_bytes, Handler handler)
      : shared{.most_bytes = most_bytes, .handler = std::move(handler), .context = context},
        acceptor(listen(context, place)),
        work(asio::make_work_guard(context)) {
    accept();
    thread = std::jthread([this] {
      context.run();
      ended.set_value();
    });
  }

  void accept() {
    acceptor.async_accept([this](ErrorCode error, tcp::socket socket) {
      if (shared.is_over || error == asio::error::operation_aborted) return;
      if (!error && shared.connections.size() < most_connections)
        std::make_shared<Connection>(std::move(socket), shared)->read();
      accept();  // what is wrong with one connection is not with the next
    });
  }

  void end() {
    shared.is_over = true;
    ErrorCode ignored;
    acceptor.close(ignored);
    for (const auto& [number, connection] : shared.connections) connection->end_if_reading();
    work.reset();
  }
};

HttpServer::HttpServer(const std::string& place, std::size_t most_bytes, Handler handler)
    : impl_(std::make_unique<Impl>(place, most_bytes, std::move(handler))) {}

HttpServer::~HttpServer() {
  impl_->context.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
  const auto connections = impl_->shared.connections;
  for (const auto& [number, connection] : connections) connection->forget();
}

std::string HttpServer::place() const {
  const tcp::endpoint endpoint = impl_->acceptor.local_endpoint();
  const std::string address = endpoint.address().to_string();
  return fmt::format("{}:{}", endpoint.address().is_v6() ? "[" + address + "]" : address,
                     endpoint.port());
}

void HttpServer::finish(std::chrono::milliseconds most) {
  if (!impl_->thread.joinable()) return;
  asio::post(impl_->context, [this] { impl_->end(); });
  impl_->ended.get_future().wait_for(most);
  impl_->context.stop();
  impl_->thread.join();
}

}  // namespace autopar::serving
