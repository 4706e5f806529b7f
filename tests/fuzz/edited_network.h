#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/comm/network.h"

namespace autopar::fuzz {

/// What is written over a stream of bytes that a rank sends, from a place on.
struct StreamEdit {
  enum class Kind : std::uint8_t {
    plain,   ///< the bytes as they are
    sealed,  ///< and behind them their checksum, as notices and headers of messages have it
    /// A table of addresses behind a reply of rank 0 that begins at the place; the reply gets the
    /// checksums that it has to have.
    table
  };
  Kind kind = Kind::plain;
  std::size_t connection = 0;  ///< the n-th that the rank sends over
  std::size_t offset = 0;
  std::vector<std::byte> bytes;
};

/// A rank's network, but for what it sends: a peer that has proven to know the secret, and tells
/// what the edits say.
class EditedNetwork final : public runtime::Network {
 public:
  EditedNetwork(runtime::Network& network, std::vector<StreamEdit> edits)
      : network_(network), edits_(std::move(edits)) {}

  ssize_t send(int socket, std::span<const iovec> parts) noexcept override;

  runtime::Deadline now() override { return network_.now(); }
  void sleep_until(runtime::Deadline time) override { network_.sleep_until(time); }
  int listen(const runtime::SocketAddress& address) override { return network_.listen(address); }
  int accept(int listener) override { return network_.accept(listener); }
  int connect(const runtime::SocketAddress& address) override { return network_.connect(address); }
  int connect_error(int socket) override { return network_.connect_error(socket); }
  void close(int handle) noexcept override { network_.close(handle); }
  runtime::SocketAddress local_address(int socket) override {
    return network_.local_address(socket);
  }
  runtime::SocketAddress peer_address(int socket) override { return network_.peer_address(socket); }
  ssize_t receive(int socket, std::span<const iovec> parts) override {
    return network_.receive(socket, parts);
  }
  ssize_t peek(int socket, std::span<std::byte> bytes) override {
    return network_.peek(socket, bytes);
  }
  std::int64_t unsent(int socket) noexcept override { return network_.unsent(socket); }
  int make_alarm() override { return network_.make_alarm(); }
  void ring(int alarm) noexcept override { network_.ring(alarm); }
  int poll(std::span<pollfd> handles, runtime::Deadline deadline) override {
    return network_.poll(handles, deadline);
  }

 private:
  struct Stream {
    std::size_t connection = 0;
    std::vector<std::byte> said;               ///< edited, from the first byte on
    std::size_t sent = 0;                      ///< of that
    std::map<std::size_t, std::byte> planned;  ///< by place: what edits write
  };

  Stream& stream_of(int socket);
  static void write(Stream& stream, std::size_t offset, std::span<const std::byte> bytes);
  void apply(Stream& stream, std::size_t from) const;

  runtime::Network& network_;
  std::vector<StreamEdit> edits_;
  std::map<int, Stream> streams_;  ///< by handle
};

}  // namespace autopar::fuzz
