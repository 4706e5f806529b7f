#include "onnx_runtime/collectives.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/first_error.h"

using namespace autopar;
using namespace autopar::onnx_runtime;
using Catch::Matchers::Contains;

namespace {

using graph::Node;
using graph::Shape;
using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Attributes = std::map<std::string, graph::Attribute>;

std::vector<std::unique_ptr<Member>> members(int count) {
  std::vector<std::unique_ptr<Member>> result;
  for (auto& each : runtime::make_thread_communicators(count, std::chrono::seconds(20)))
    result.push_back(std::make_unique<Member>(std::move(each)));
  return result;
}

/// Calls it as each rank, in a thread each; rethrows the first cause.
template <typename Work>
void on_ranks(int count, const Work& work) {
  const auto all = members(count);
  runtime::FirstError error;
  std::vector<std::thread> threads;
  for (const auto& member : all)
    threads.emplace_back([&] {
      try {
        work(*member);
      } catch (...) {
        error.store();
      }
    });
  for (std::thread& thread : threads) thread.join();
  error.rethrow();
}

/// A node in a group of all ranks.
Node node_of(const std::string& op_type, const Member& member, Attributes attributes) {
  Ints ranks;
  for (int rank = 0; rank < member.size(); ++rank) ranks.push_back(rank);
  attributes["ranks"] = ranks;
  attributes["rank"] = std::int64_t{member.rank()};
  return {"y/" + op_type, op_type, "autopar", {}, {}, std::move(attributes)};
}

struct Result {
  Shape shape;
  Floats values;
};

Result run(const Node& node, Member& member, const Shape& shape, Floats values) {
  const auto line =
      std::ranges::find(collective_operators(), node.op_type, &CollectiveOperator::op_type);
  Result result;
  std::vector<std::byte> scratch;
  const auto output = [&](const Shape& made) -> HostTensor {
    result.shape = made;
    result.values.resize(static_cast<std::size_t>(graph::num_elements(made)));
    return {graph::DataType::float32, made, reinterpret_cast<std::byte*>(result.values.data())};
  };
  Call call{.node = node,
            .member = member,
            .input = {graph::DataType::float32, shape, reinterpret_cast<std::byte*>(values.data())},
            .output = output,
            .scratch = scratch};
  member.communicate([&] { line->run(call); });
  return result;
}

}  // namespace

TEST_CASE("Each collective gives what its schema says, with uneven shares of an inner dimension") {
  on_ranks(2, [](Member& member) {
    const bool is_first = member.rank() == 0;
    const std::string sum = "sum";
    const Ints sizes = {2, 1};

    const Result reduced = run(node_of("AllReduce", member, {{"reduce", sum}}), member, {2},
                               {1, is_first ? 2.F : 3.F});
    CHECK(reduced.values == Floats{2, 5});

    const Attributes cut = {{"dim", std::int64_t{1}}, {"sizes", sizes}};
    const Result gathered =
        is_first ? run(node_of("AllGather", member, cut), member, {2, 2}, {0, 1, 3, 4})
                 : run(node_of("AllGather", member, cut), member, {2, 1}, {2, 5});
    CHECK(gathered.shape == Shape{2, 3});
    CHECK(gathered.values == Floats{0, 1, 2, 3, 4, 5});

    Attributes scatter = cut;
    scatter["reduce"] = sum;
    const Result scattered =
        run(node_of("ReduceScatter", member, scatter), member, {2, 3}, {0, 1, 2, 3, 4, 5});
    CHECK(scattered.values == (is_first ? Floats{0, 2, 6, 8} : Floats{4, 10}));

    const Node exchange = node_of("AllToAll", member,
                                  {{"split_dim", std::int64_t{1}},
                                   {"concat_dim", std::int64_t{0}},
                                   {"split_sizes", sizes},
                                   {"concat_sizes", Ints{1, 1}}});
    const Result exchanged =
        run(exchange, member, {1, 3}, is_first ? Floats{0, 1, 2} : Floats{3, 4, 5});
    CHECK(exchanged.values == (is_first ? Floats{0, 1, 3, 4} : Floats{2, 5}));

    const Node broadcast = node_of("Broadcast", member, {{"root", std::int64_t{1}}});
    CHECK(run(broadcast, member, {1}, {is_first ? 7.F : 8.F}).values == Floats{8});
  });
}

TEST_CASE("Ranks that are at different nodes say so") {
  const auto run_two = [](Member& member) {
    Node node = node_of("AllReduce", member, {{"reduce", std::string("sum")}});
    if (member.rank() == 1) node.name = "z/AllReduce";
    run(node, member, {1}, {1});
  };
  CHECK_THROWS_WITH(on_ranks(2, run_two),
                    Contains("is at node") && Contains("another one") && Contains("of one bundle"));
}

TEST_CASE("Messages go by their values' names, not by their order") {
  on_ranks(2, [](Member& member) {
    const auto message = [&](const std::string& value, const char* op_type) {
      return Node{value + "/" + op_type,
                  op_type,
                  "autopar",
                  {},
                  {},
                  {{"rank", std::int64_t{member.rank()}},
                   {"peers", Ints{1 - member.rank()}},
                   {"starts", Ints{1, 0}},
                   {"ends", Ints{2, 2}},
                   {"shape", Shape{2, 2}}}};
    };
    if (member.rank() == 0) {
      for (const char* value : {"a", "b", "a"})
        run(message(value, "Send"), member, {2, 2}, {0, 0, *value == 'a' ? 1.F : 2.F, 3});
    } else {
      const auto received = [&](const char* value) {
        Node node = message(value, "Recv");
        node.attributes["starts"] = Ints{0, 0};
        node.attributes["ends"] = Ints{1, 2};
        node.attributes["shape"] = Shape{1, 2};
        return run(node, member, {}, {}).values;
      };
      CHECK(received("b") == Floats{2, 3});
      CHECK(received("a") == Floats{1, 3});
      CHECK(received("a") == Floats{1, 3});
    }
  });
}

TEST_CASE("After a failure a rank does nothing more") {
  on_ranks(1, [](Member& member) {
    const Node node = node_of("AllReduce", member, {{"reduce", std::string("product")}});
    CHECK_THROWS_WITH(run(node, member, {1}, {1}), Contains("has a reduction that is none"));
    CHECK_THROWS_WITH(run(node, member, {1}, {1}), Contains("open all their sessions again"));
  });
}

TEST_CASE("Shares that are not the tensor's are refused") {
  on_ranks(1, [](Member& member) {
    const Node node = node_of("AllGather", member, {{"dim", std::int64_t{0}}, {"sizes", Ints{3}}});
    CHECK_THROWS_WITH(run(node, member, {2}, {1, 2}), Contains("has shares for an extent of 3"));
  });
}
