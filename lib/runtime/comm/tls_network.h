#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "runtime/comm/network.h"

namespace autopar::runtime {

/// A network whose connections are encrypted from encrypt() on, by TLS 1.3 (RFC 8446) over another
/// one: with the key that both ends have (an external PSK), and one of each connection's own that
/// nobody can find out later (ECDHE), by AES-128-GCM. What comes changed on the way, or from
/// somebody without the key, ends the connection as an error of the protocol (-EPROTO).
///
/// As Network is used here: who was told -EAGAIN offers the same bytes again first.
class TlsNetwork final : public Network {
 public:
  /// So many full records AES-GCM encrypts safely with one key, with some to spare (RFC 8446, 5.5).
  static constexpr std::int64_t safe_records = std::int64_t{1} << 23;

  /// `below` must outlive it. A connection's key is updated behind every `records_a_key` records.
  explicit TlsNetwork(Network& below, std::int64_t records_a_key = safe_records);
  ~TlsNetwork() override;

  bool encrypts() const override { return true; }
  void encrypt(int socket, Side side, const Key& key) override;

  ssize_t send(int socket, std::span<const iovec> parts) noexcept override;
  ssize_t receive(int socket, std::span<const iovec> parts) override;
  ssize_t peek(int socket, std::span<std::byte> bytes) override;
  void close(int handle) noexcept override;
  int poll(std::span<pollfd> handles, Deadline deadline) override;

  Deadline now() override { return below_.now(); }
  void sleep_until(Deadline time) override { below_.sleep_until(time); }
  int listen(const SocketAddress& address) override { return below_.listen(address); }
  int accept(int listener) override { return below_.accept(listener); }
  int connect(const SocketAddress& address) override { return below_.connect(address); }
  int connect_error(int socket) override { return below_.connect_error(socket); }
  SocketAddress local_address(int socket) override { return below_.local_address(socket); }
  SocketAddress peer_address(int socket) override { return below_.peer_address(socket); }
  std::int64_t unsent(int socket) noexcept override { return below_.unsent(socket); }
  int make_alarm() override { return below_.make_alarm(); }
  void ring(int alarm) noexcept override { below_.ring(alarm); }

 private:
  class Context;
  class Connection;

  /// Null where the socket is not encrypted.
  std::shared_ptr<Connection> find(int socket) const noexcept;

  Network& below_;
  std::int64_t records_a_key_;
  std::unique_ptr<Context> context_;
  mutable std::shared_mutex opening_;  ///< held while connections_ is used
  std::unordered_map<int, std::shared_ptr<Connection>> connections_;
};

/// TLS over system_network().
Network& tls_network();

}  // namespace autopar::runtime
