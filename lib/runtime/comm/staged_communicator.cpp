#include "runtime/comm/staged_communicator.h"

#include <numeric>
#include <utility>

namespace autopar::runtime {

namespace {

std::int64_t sum(BlockSizes sizes) { return std::reduce(sizes.begin(), sizes.end()); }

class StagedCommunicator final : public DeviceCommunicator {
 public:
  /// `device` is null where its memory is the host's. A subgroup owns its host.
  StagedCommunicator(Device* device, HostCommunicator& host,
                     std::unique_ptr<HostCommunicator> own_host = nullptr)
      : device_(device), own_host_(std::move(own_host)), host_(host) {}

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  bool waits_on_host() const override { return device_ != nullptr; }

  std::unique_ptr<DeviceCommunicator> subgroup(std::span<const int> ranks) override {
    auto host = host_.subgroup(ranks);
    HostCommunicator& of_group = *host;
    return std::make_unique<StagedCommunicator>(device_, of_group, std::move(host));
  }

  void all_reduce(const std::byte* in, std::byte* out, std::int64_t elements, DataType type,
                  ReduceOp op) override {
    if (device_ == nullptr) return host_.all_reduce(in, out, elements, type, op);
    const auto staged = read(sent_, in, graph::bytes_of(type, elements));
    host_.all_reduce(staged.data(), staged.data(), elements, type, op);
    device_->write(out, staged);
  }

  void all_gather(const std::byte* in, std::byte* out, BlockSizes block_bytes) override {
    if (device_ == nullptr) return host_.all_gather(in, out, block_bytes);
    const auto sent = read(sent_, in, block_bytes[static_cast<std::size_t>(rank())]);
    const auto received = resized(received_, sum(block_bytes));
    host_.all_gather(sent.data(), received.data(), block_bytes);
    device_->write(out, received);
  }

  void reduce_scatter(const std::byte* in, std::byte* out, BlockSizes block_elements, DataType type,
                      ReduceOp op) override {
    if (device_ == nullptr) return host_.reduce_scatter(in, out, block_elements, type, op);
    const auto sent = read(sent_, in, graph::bytes_of(type, sum(block_elements)));
    const std::int64_t mine = block_elements[static_cast<std::size_t>(rank())];
    const auto received = resized(received_, graph::bytes_of(type, mine));
    host_.reduce_scatter(sent.data(), received.data(), block_elements, type, op);
    device_->write(out, received);
  }

  void all_to_all(const std::byte* in, BlockSizes send_bytes, std::byte* out,
                  BlockSizes receive_bytes) override {
    if (device_ == nullptr) return host_.all_to_all(in, send_bytes, out, receive_bytes);
    const auto sent = read(sent_, in, sum(send_bytes));
    const auto received = resized(received_, sum(receive_bytes));
    host_.all_to_all(sent.data(), send_bytes, received.data(), receive_bytes);
    device_->write(out, received);
  }

  void broadcast(std::byte* data, std::int64_t bytes, int root) override {
    if (device_ == nullptr) return host_.broadcast(data, bytes, root);
    const auto staged = rank() == root ? read(sent_, data, bytes) : resized(sent_, bytes);
    host_.broadcast(staged.data(), bytes, root);
    if (rank() != root) device_->write(data, staged);
  }

  void send(const std::byte* data, std::int64_t bytes, int to) override {
    if (device_ == nullptr) return host_.send(data, bytes, to);
    host_.send(read(message_sent_, data, bytes).data(), bytes, to);
  }
  void receive(std::byte* out, std::int64_t bytes, int from) override {
    if (device_ == nullptr) return host_.receive(out, bytes, from);
    const auto received = resized(message_received_, bytes);
    host_.receive(received.data(), bytes, from);
    device_->write(out, received);
  }

  void check_members() override { host_.check_members(); }
  void abort() noexcept override { host_.abort(); }

 private:
  using Buffer = std::vector<std::byte>;

  static std::span<std::byte> resized(Buffer& buffer, std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(bytes);
    if (buffer.size() < size) buffer.resize(size);
    return std::span(buffer).first(size);
  }

  std::span<std::byte> read(Buffer& buffer, const std::byte* from, std::int64_t bytes) {
    const auto staged = resized(buffer, bytes);
    device_->read(staged, from);
    return staged;
  }

  Device* device_;
  std::unique_ptr<HostCommunicator> own_host_;
  HostCommunicator& host_;
  Buffer sent_;
  Buffer received_;
  Buffer message_sent_;
  Buffer message_received_;
};

}  // namespace

std::unique_ptr<DeviceCommunicator> make_staged_communicator(Device& device,
                                                             HostCommunicator& host) {
  return std::make_unique<StagedCommunicator>(device.shares_host_memory() ? nullptr : &device,
                                              host);
}

std::unique_ptr<DeviceCommunicator> make_shared_memory_communicator(HostCommunicator& host) {
  return std::make_unique<StagedCommunicator>(nullptr, host);
}

}  // namespace autopar::runtime
