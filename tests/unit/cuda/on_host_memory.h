#pragma once

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/device.h"

namespace autopar::runtime::testing {

/// A communicator of a device's memory as one of the host's, for tests of what it computes: each
/// call's tensors are copied to memory of the device of exactly their size, and back.
class OnHostMemory final : public HostCommunicator {
 public:
  /// `host` has the same ranks, for barriers.
  OnHostMemory(Device& device, std::unique_ptr<DeviceCommunicator> inner, HostCommunicator& host)
      : device_(device), inner_(std::move(inner)), host_(host) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<HostCommunicator> subgroup(std::span<const int> ranks) override {
    auto inner = inner_->subgroup(ranks);
    auto host = host_.subgroup(ranks);
    HostCommunicator& of_group = *host;
    auto made = std::make_unique<OnHostMemory>(device_, std::move(inner), of_group);
    made->own_host_ = std::move(host);
    return made;
  }

  void all_reduce(const std::byte* in, std::byte* out, std::int64_t elements, graph::DataType type,
                  ReduceOp op) override {
    const auto bytes = graph::bytes_of(type, elements);
    const auto sent = copied(in, bytes);
    const auto received = in == out ? nullptr : device_.allocate(bytes);
    std::byte* const reduced = in == out ? sent.get() : received.get();
    inner_->all_reduce(sent.get(), reduced, elements, type, op);
    device_.read(span(out, bytes), reduced);
  }
  void all_gather(const std::byte* in, std::byte* out,
                  std::span<const std::int64_t> block_bytes) override {
    const auto sent = copied(in, block_bytes[static_cast<std::size_t>(rank())]);
    const auto received = device_.allocate(sum(block_bytes));
    inner_->all_gather(sent.get(), received.get(), block_bytes);
    device_.read(span(out, sum(block_bytes)), received.get());
  }
  void reduce_scatter(const std::byte* in, std::byte* out,
                      std::span<const std::int64_t> block_elements, graph::DataType type,
                      ReduceOp op) override {
    const auto mine = graph::bytes_of(type, block_elements[static_cast<std::size_t>(rank())]);
    const auto sent = copied(in, graph::bytes_of(type, sum(block_elements)));
    const auto received = device_.allocate(mine);
    inner_->reduce_scatter(sent.get(), received.get(), block_elements, type, op);
    device_.read(span(out, mine), received.get());
  }
  void all_to_all(const std::byte* in, std::span<const std::int64_t> send_bytes, std::byte* out,
                  std::span<const std::int64_t> receive_bytes) override {
    const auto sent = copied(in, sum(send_bytes));
    const auto received = device_.allocate(sum(receive_bytes));
    inner_->all_to_all(sent.get(), send_bytes, received.get(), receive_bytes);
    device_.read(span(out, sum(receive_bytes)), received.get());
  }
  void broadcast(std::byte* data, std::int64_t bytes, int root) override {
    const auto memory = copied(data, bytes);
    inner_->broadcast(memory.get(), bytes, root);
    device_.read(span(data, bytes), memory.get());
  }

  void send(const std::byte* data, std::int64_t bytes, int to) override {
    const auto memory = copied(data, bytes);
    inner_->send(memory.get(), bytes, to);
    // Reading waits for what the device does, and so for the receiver.
    std::vector<std::byte> same(static_cast<std::size_t>(bytes));
    device_.read(same, memory.get());
  }
  void receive(std::byte* out, std::int64_t bytes, int from) override {
    const auto received = device_.allocate(bytes);
    inner_->receive(received.get(), bytes, from);
    device_.read(span(out, bytes), received.get());
  }

  void barrier(std::optional<std::chrono::milliseconds> timeout) override {
    host_.barrier(timeout);
  }
  void check_members() override { inner_->check_members(); }
  void abort() noexcept override { inner_->abort(); }

 private:
  static std::int64_t sum(std::span<const std::int64_t> sizes) {
    return std::reduce(sizes.begin(), sizes.end());
  }
  template <typename T>
  static std::span<T> span(T* data, std::int64_t bytes) {
    return {data, static_cast<std::size_t>(bytes)};
  }
  std::shared_ptr<std::byte> copied(const std::byte* data, std::int64_t bytes) {
    auto memory = device_.allocate(bytes);
    device_.write(memory.get(), span(data, bytes));
    return memory;
  }

  Device& device_;
  std::unique_ptr<DeviceCommunicator> inner_;
  HostCommunicator& host_;
  std::unique_ptr<HostCommunicator> own_host_;
};

}  // namespace autopar::runtime::testing
