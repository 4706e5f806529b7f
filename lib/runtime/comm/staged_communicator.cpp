#include "runtime/comm/staged_communicator.h"

#include <numeric>
#include <utility>

namespace autopar::runtime {

namespace {

std::int64_t sum(std::span<const std::int64_t> sizes) {
  return std::reduce(sizes.begin(), sizes.end());
}

class StagedCommunicator final : public Communicator {
 public:
  /// A subgroup owns its host.
  StagedCommunicator(Device& device, Communicator& host,
                     std::unique_ptr<Communicator> own_host = nullptr)
      : device_(device), own_host_(std::move(own_host)), host_(host) {}

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  bool waits_on_host() const override { return true; }

  std::unique_ptr<Communicator> subgroup(std::span<const int> ranks) override {
    auto host = host_.subgroup(ranks);
    Communicator& of_group = *host;
    return std::make_unique<StagedCommunicator>(device_, of_group, std::move(host));
  }

  void all_reduce(std::byte* data, std::int64_t elements, graph::DataType type,
                  ReduceOp op) override {
    const auto staged = read(sent_, data, graph::bytes_of(type, elements));
    host_.all_reduce(staged.data(), elements, type, op);
    device_.write(data, staged);
  }

  void all_gather(const std::byte* in, std::byte* out,
                  std::span<const std::int64_t> block_bytes) override {
    const auto sent = read(sent_, in, block_bytes[static_cast<std::size_t>(rank())]);
    const auto received = resized(received_, sum(block_bytes));
    host_.all_gather(sent.data(), received.data(), block_bytes);
    device_.write(out, received);
  }

  void reduce_scatter(const std::byte* in, std::byte* out,
                      std::span<const std::int64_t> block_elements, graph::DataType type,
                      ReduceOp op) override {
    const auto sent = read(sent_, in, graph::bytes_of(type, sum(block_elements)));
    const std::int64_t mine = block_elements[static_cast<std::size_t>(rank())];
    const auto received = resized(received_, graph::bytes_of(type, mine));
    host_.reduce_scatter(sent.data(), received.data(), block_elements, type, op);
    device_.write(out, received);
  }

  void all_to_all(const std::byte* in, std::span<const std::int64_t> send_bytes, std::byte* out,
                  std::span<const std::int64_t> receive_bytes) override {
    const auto sent = read(sent_, in, sum(send_bytes));
    const auto received = resized(received_, sum(receive_bytes));
    host_.all_to_all(sent.data(), send_bytes, received.data(), receive_bytes);
    device_.write(out, received);
  }

  void broadcast(std::byte* data, std::int64_t bytes, int root) override {
    const auto staged = rank() == root ? read(sent_, data, bytes) : resized(sent_, bytes);
    host_.broadcast(staged.data(), bytes, root);
    if (rank() != root) device_.write(data, staged);
  }

  void send(const std::byte* data, std::int64_t bytes, int to) override {
    host_.send(read(message_sent_, data, bytes).data(), bytes, to);
  }
  void receive(std::byte* out, std::int64_t bytes, int from) override {
    const auto received = resized(message_received_, bytes);
    host_.receive(received.data(), bytes, from);
    device_.write(out, received);
  }

  void barrier() override { host_.barrier(); }
  void barrier(std::chrono::milliseconds timeout) override { host_.barrier(timeout); }
  void check_members() override { host_.check_members(); }
  void report_progress(std::int64_t progress) override { host_.report_progress(progress); }
  std::optional<std::int64_t> progress_of(int rank) const override {
    return host_.progress_of(rank);
  }
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
    device_.read(staged, from);
    return staged;
  }

  Device& device_;
  std::unique_ptr<Communicator> own_host_;
  Communicator& host_;
  Buffer sent_;
  Buffer received_;
  Buffer message_sent_;
  Buffer message_received_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(Device& device, Communicator& host) {
  return std::make_unique<StagedCommunicator>(device, host);
}

}  // namespace autopar::runtime
