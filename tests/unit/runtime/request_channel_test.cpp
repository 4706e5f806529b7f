#include "runtime/request_channel.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace autopar::runtime {
namespace {

using graph::Tensor;

/// What rank 0 has broadcast, for one other rank to take, and the timeouts that both wait with.
struct Wire {
  std::deque<std::vector<std::byte>> broadcasts;
  std::vector<std::optional<std::chrono::milliseconds>> waits;
};

/// An end of the wire: rank 0 speaks first, and then rank 1 listens.
class WireEnd final : public HostCommunicator {
 public:
  WireEnd(Wire& wire, int rank) : wire_(wire), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return 2; }
  void broadcast(std::byte* data, std::int64_t bytes, int root) override {
    REQUIRE(root == 0);
    if (rank_ == root) {
      wire_.broadcasts.emplace_back(data, data + bytes);
      return;
    }
    REQUIRE(!wire_.broadcasts.empty());
    REQUIRE(std::ssize(wire_.broadcasts.front()) == bytes);
    std::ranges::copy(wire_.broadcasts.front(), data);
    wire_.broadcasts.pop_front();
  }
  void barrier(std::optional<std::chrono::milliseconds> timeout) override {
    wire_.waits.push_back(timeout);
  }

  void all_reduce(const std::byte*, std::byte*, std::int64_t, DataType, ReduceOp) override {
    FAIL();
  }
  void all_gather(const std::byte*, std::byte*, BlockSizes) override { FAIL(); }
  void reduce_scatter(const std::byte*, std::byte*, BlockSizes, DataType, ReduceOp) override {
    FAIL();
  }
  void all_to_all(const std::byte*, BlockSizes, std::byte*, BlockSizes) override { FAIL(); }
  void send(const std::byte*, std::int64_t, int) override { FAIL(); }
  void receive(std::byte*, std::int64_t, int) override { FAIL(); }
  std::unique_ptr<HostCommunicator> subgroup(std::span<const int>) override { return nullptr; }
  void check_members() override {}
  void abort() noexcept override {}

 private:
  Wire& wire_;
  int rank_;
};

struct Ends {
  Wire wire;
  WireEnd first{wire, 0};
  WireEnd other{wire, 1};
};

TEST_CASE("tensors of all sizes come as they were given") {
  const std::vector<std::int64_t> values = {1, -2, 3, 4, 5, 6};
  const Tensor whole = Tensor::of_int64({2, 3}, values);
  const NamedTensors given{{"a name with \"quotes\"", whole},
                           {"a view", whole.slice(std::vector<graph::Range>{{0, 2}, {1, 2}})},
                           {"nothing", Tensor::zeros(DataType::float16, {1, 0, 64})},
                           {"one bit", Tensor::zeros(DataType::boolean, {})},
                           {"two a byte", Tensor::zeros(DataType::int4, {3})}};
  Ends ends;
  send_request(given, {}, ends.first);
  const std::optional<RunRequest> taken = wait_for_request(ends.other);
  REQUIRE(taken);
  REQUIRE(taken->inputs.size() == given.size());
  for (const auto& [name, tensor] : given) {
    const Tensor& copy = taken->inputs.at(name);
    CHECK(copy.type() == tensor.type());
    CHECK(copy.shape() == tensor.shape());
    CHECK(std::ranges::equal(copy.bytes(), tensor.contiguous_copy().bytes()));
  }
  CHECK(ends.wire.broadcasts.empty());
}

TEST_CASE("no inputs are a request, and the end is none") {
  Ends ends;
  send_request({}, {}, ends.first);
  send_end(ends.first);
  const std::optional<RunRequest> first = wait_for_request(ends.other);
  REQUIRE(first);
  CHECK(first->inputs.empty());
  CHECK_FALSE(wait_for_request(ends.other));
}

TEST_CASE("all options of a run come, too") {
  Ends ends;
  const RunOptions given{.loop = {.steps = 3,
                                  .start = 4,
                                  .choices = {{"logits", "ids"}},
                                  .continues = true,
                                  .past = 0,
                                  .capacity = 70},
                         .repeat = 5,
                         .outputs = {"logits", "present"},
                         .profile = true};
  send_request({}, given, ends.first);
  const RunOptions taken = wait_for_request(ends.other).value().options;
  CHECK(taken.loop.steps == 3);
  CHECK(taken.loop.start == 4);
  REQUIRE(taken.loop.choices.size() == 1);
  CHECK(taken.loop.choices[0].output == "logits");
  CHECK(taken.loop.choices[0].input == "ids");
  CHECK(taken.loop.continues);
  CHECK(taken.loop.past == 0);
  CHECK(taken.loop.capacity == 70);
  CHECK(taken.repeat == 5);
  CHECK(taken.outputs == given.outputs);
  CHECK(taken.profile);
  send_request({}, {}, ends.first);
  CHECK_FALSE(wait_for_request(ends.other).value().options.loop.past);
}

TEST_CASE("who waits for a request waits for years, and who sends one no longer than ever") {
  Ends ends;
  send_end(ends.first);
  wait_for_request(ends.other);
  REQUIRE(ends.wire.waits.size() == 2);
  CHECK(ends.wire.waits[0] == std::nullopt);
  CHECK(ends.wire.waits[1] > std::chrono::hours(24 * 365));
}

}  // namespace
}  // namespace autopar::runtime
