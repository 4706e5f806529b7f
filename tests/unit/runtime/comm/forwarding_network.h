#pragma once

#include "runtime/comm/network.h"

namespace autopar::runtime {

/// The system's network, of which a test overrides what it wants otherwise.
class ForwardingNetwork : public Network {
 public:
  ssize_t send(int socket, std::span<const iovec> parts) noexcept override {
    return below_.send(socket, parts);
  }
  ssize_t receive(int socket, std::span<const iovec> parts) override {
    return below_.receive(socket, parts);
  }
  ssize_t peek(int socket, std::span<std::byte> bytes) override {
    return below_.peek(socket, bytes);
  }
  Deadline now() override { return below_.now(); }
  void sleep_until(Deadline time) override { below_.sleep_until(time); }
  int listen(const SocketAddress& address) override { return below_.listen(address); }
  int accept(int listener) override { return below_.accept(listener); }
  int connect(const SocketAddress& address) override { return below_.connect(address); }
  int connect_error(int socket) override { return below_.connect_error(socket); }
  void close(int handle) noexcept override { below_.close(handle); }
  SocketAddress local_address(int socket) override { return below_.local_address(socket); }
  SocketAddress peer_address(int socket) override { return below_.peer_address(socket); }
  std::int64_t unsent(int socket) noexcept override { return below_.unsent(socket); }
  int make_alarm() override { return below_.make_alarm(); }
  void ring(int alarm) noexcept override { below_.ring(alarm); }
  int poll(std::span<pollfd> handles, Deadline deadline) override {
    return below_.poll(handles, deadline);
  }

 protected:
  Network& below_ = system_network();
};

}  // namespace autopar::runtime
