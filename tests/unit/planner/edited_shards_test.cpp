// Shards as an enemy would write them who makes new digests: every field of a rank's ONNX file is
// cleared, repeated, exchanged and given other values. Each edit is run or refused in one line; one
// of what a rank's collective is told (its ranks, dimension or sizes) gives the right outputs or is
// refused, since the other ranks' shards say otherwise.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <onnx/onnx_pb.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_digest.h"
#include "bundle/meta_info.h"
#include "graph/graph.h"
#include "unit/planner/sample_bundles.h"

namespace autopar::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::json;

/// A message within a shard: fields and, of repeated ones, indices from the whole on.
struct Step {
  const FieldDescriptor* field = nullptr;
  int index = -1;
};
using Path = std::vector<Step>;

struct Edit {
  Path at;  ///< of the message that has the field
  std::string what;
  std::function<void(Message& message, const Reflection& reflection)> apply;
};

Message& message_at(Message& whole, const Path& path) {
  Message* message = &whole;
  for (const Step& step : path) {
    const Reflection& reflection = *message->GetReflection();
    message = step.index < 0 ? reflection.MutableMessage(message, step.field)
                             : reflection.MutableRepeatedMessage(message, step.field, step.index);
  }
  return *message;
}

/// Calls set(reflection, message, value) with other values of the field's type.
std::vector<std::int64_t> other_integers(std::int64_t now) {
  return {-1,
          0,
          1,
          now + 1,
          now - 1,
          now * 2,
          std::int64_t{1} << 31,
          std::numeric_limits<std::int64_t>::max(),
          std::numeric_limits<std::int64_t>::min()};
}

class Edits {
 public:
  std::vector<Edit> of(Message& whole) {
    visit(whole, {});
    return std::move(edits_);
  }

 private:
  void visit(Message& message, const Path& at) {
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      add(at, field, "cleared", [=](Message& m, const Reflection& r) { r.ClearField(&m, field); });
      if (field->is_repeated())
        visit_repeated(message, at, field);
      else
        visit_single(message, at, field);
    }
  }

  void visit_single(Message& message, const Path& at, const FieldDescriptor* field) {
    const Reflection& reflection = *message.GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Path inner = at;
        inner.push_back({field, -1});
        return visit(*reflection.MutableMessage(&message, field), inner);
      }
      case FieldDescriptor::CPPTYPE_INT64:
        for (const std::int64_t value : other_integers(reflection.GetInt64(message, field)))
          add(at, field, std::to_string(value),
              [=](Message& m, const Reflection& r) { r.SetInt64(&m, field, value); });
        return;
      case FieldDescriptor::CPPTYPE_INT32:
        for (const std::int64_t value : other_integers(reflection.GetInt32(message, field)))
          add(at, field, std::to_string(value), [=](Message& m, const Reflection& r) {
            r.SetInt32(&m, field, static_cast<std::int32_t>(value));
          });
        return;
      case FieldDescriptor::CPPTYPE_ENUM:
        for (const int value : {0, 1, 2, 6, 7, 9, 10, 16, 23, 1000})
          add(at, field, std::to_string(value),
              [=](Message& m, const Reflection& r) { r.SetEnumValue(&m, field, value); });
        return;
      case FieldDescriptor::CPPTYPE_FLOAT:
        for (const float value : {0.F, -1.F, 1e38F, std::numeric_limits<float>::quiet_NaN()})
          add(at, field, std::to_string(value),
              [=](Message& m, const Reflection& r) { r.SetFloat(&m, field, value); });
        return;
      case FieldDescriptor::CPPTYPE_STRING:
        for (const std::string& value : other_texts(reflection.GetString(message, field)))
          add(at, field, value.substr(0, 30),
              [=](Message& m, const Reflection& r) { r.SetString(&m, field, value); });
        return;
      default:
        return;
    }
  }

  void visit_repeated(Message& message, const Path& at, const FieldDescriptor* field) {
    const Reflection& reflection = *message.GetReflection();
    const int size = reflection.FieldSize(message, field);
    add(at, field, "without its last",
        [=](Message& m, const Reflection& r) { r.RemoveLast(&m, field); });
    for (int i = 1; i < size; ++i)
      add(at, field, "exchanged " + std::to_string(i),
          [=](Message& m, const Reflection& r) { r.SwapElements(&m, field, i - 1, i); });
    for (int i = 0; i < size; ++i) visit_item(message, at, field, i);
  }

  void visit_item(Message& message, const Path& at, const FieldDescriptor* field, int i) {
    const Reflection& reflection = *message.GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        add(at, field, "repeated " + std::to_string(i), [=](Message& m, const Reflection& r) {
          const std::unique_ptr<Message> copy(r.GetRepeatedMessage(m, field, i).New());
          copy->CopyFrom(r.GetRepeatedMessage(m, field, i));
          r.AddMessage(&m, field)->CopyFrom(*copy);
        });
        Path inner = at;
        inner.push_back({field, i});
        return visit(*reflection.MutableRepeatedMessage(&message, field, i), inner);
      }
      case FieldDescriptor::CPPTYPE_INT64:
        for (const std::int64_t value :
             other_integers(reflection.GetRepeatedInt64(message, field, i)))
          add(at, field, std::to_string(value),
              [=](Message& m, const Reflection& r) { r.SetRepeatedInt64(&m, field, i, value); });
        add(at, field, "repeated", [=](Message& m, const Reflection& r) {
          r.AddInt64(&m, field, r.GetRepeatedInt64(m, field, i));
        });
        return;
      case FieldDescriptor::CPPTYPE_STRING:
        for (const std::string& value :
             other_texts(reflection.GetRepeatedString(message, field, i)))
          add(at, field, value.substr(0, 30),
              [=](Message& m, const Reflection& r) { r.SetRepeatedString(&m, field, i, value); });
        add(at, field, "repeated", [=](Message& m, const Reflection& r) {
          r.AddString(&m, field, r.GetRepeatedString(m, field, i));
        });
        return;
      default:
        return;
    }
  }

  static std::vector<std::string> other_texts(const std::string& now) {
    std::vector<std::string> others = {"",
                                       "x",
                                       "y",
                                       "h",
                                       "w",
                                       "Relu",
                                       "MatMul",
                                       "Reshape",
                                       "Loop",
                                       "Recv",
                                       "AllReduce",
                                       "autopar",
                                       "../rank1.data",
                                       "rank1.data",
                                       "/etc/passwd",
                                       "9223372036854775807",
                                       "-1",
                                       "1",
                                       now + "0",
                                       std::string(100000, 'x')};
    if (now.size() > 1) others.push_back(now.substr(1));
    return others;
  }

  void add(const Path& at, const FieldDescriptor* field, const std::string& what,
           std::function<void(Message&, const Reflection&)> apply) {
    std::string place;
    for (const Step& step : at)
      place += step.field->name() + (step.index < 0 ? "" : std::to_string(step.index)) + ".";
    edits_.push_back({at, place + field->name() + ": " + what, std::move(apply)});
  }

  std::vector<Edit> edits_;
};

onnx::ModelProto model_of(const std::string& bytes) {
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(bytes));
  return model;
}

bool is_collective(const onnx::NodeProto& node) {
  return node.domain() == graph::collective_domain;
}

/// Whether the edit is within an attribute of a node that communicates.
bool is_of_collective(const Edit& edit, const onnx::ModelProto& model) {
  if (edit.at.size() < 3 || edit.at[0].field->name() != "graph") return false;
  return edit.at[1].field->name() == "node" && is_collective(model.graph().node(edit.at[1].index));
}

/// The bundle with another file of a rank, and digests that fit.
void write_shard(const std::filesystem::path& bundle, json meta_info, const std::string& name,
                 const std::string& bytes) {
  write_file(bundle / name, bytes);
  Xxh3Stream digest;
  digest.add(std::as_bytes(std::span(bytes)));
  for (json& rank : meta_info.at("ranks"))
    for (json& file : rank.at("files"))
      if (file.at("name") == name)
        file.update({{"bytes", bytes.size()}, {"xxh3", digest.digest()}});
  write_file(bundle / "meta-info.json", bundle::sealed_text(meta_info));
}

#if defined(__has_feature)  // Clang's
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__
#endif
#endif

/// Shapes may be huge. AddressSanitizer takes terabytes of addresses for itself.
void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__)
  const rlimit most{std::uint64_t{16} << 30, std::uint64_t{16} << 30};
  REQUIRE(setrlimit(RLIMIT_AS, &most) == 0);
#endif
}

std::string outputs_within(const Sample& sample, const std::filesystem::path& bundle) {
  limit_memory();
  return outcome_of([&] {
    try {
      return outputs_of(sample, bundle, std::chrono::seconds(20));
    } catch (const std::bad_alloc&) {
      fail("out of memory");
    }
  });
}

/// Tries at most so many edits; how many of them were of collectives.
std::size_t check_edits(const Sample& sample, std::size_t most) {
  const TemporaryFolder folder;
  write_sample(sample, folder.path());
  const auto bundle = folder / "bundle";
  const json meta_info = json::parse(bytes_of_file(bundle / "meta-info.json"));
  const std::string name = "rank1.onnx";
  const std::string whole = bytes_of_file(bundle / name);
  const onnx::ModelProto model = model_of(whole);
  const std::string right =
      forked_trials(1, [&](auto) { return outputs_within(sample, bundle); }).front();
  INFO(sample.name << ": " << right);
  REQUIRE(right.find(';') != std::string::npos);
  onnx::ModelProto copy = model;
  std::vector<Edit> edits = Edits().of(copy);
  REQUIRE(edits.size() > 500);
  // Those of collectives first, as they are few.
  std::mt19937 random(2200);
  std::ranges::shuffle(edits, random);
  std::stable_partition(edits.begin(), edits.end(),
                        [&](const Edit& edit) { return is_of_collective(edit, model); });
  edits.resize(std::min(edits.size(), most));
  const auto trial = [&](std::size_t i) {
    onnx::ModelProto edited = model;
    Message& message = message_at(edited, edits[i].at);
    edits[i].apply(message, *message.GetReflection());
    write_shard(bundle, meta_info, name, edited.SerializeAsString());
    return outputs_within(sample, bundle);
  };
  const std::vector<std::string> outcomes = forked_trials(edits.size(), trial);
  std::size_t refused = 0;
  std::size_t of_collectives = 0;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const bool is_of_its_kind = is_of_collective(edits[i], model);
    refused += is_refused(outcomes[i]) ? 1 : 0;
    of_collectives += is_of_its_kind ? 1 : 0;
    const bool is_fine = is_of_its_kind ? outcomes[i] == right : outcomes[i].ends_with(';');
    if (is_refused(outcomes[i]) || is_fine) continue;
    FAIL_CHECK(sample.name << ": " << edits[i].what << ": " << outcomes[i]);
  }
  CHECK(refused > edits.size() / 3);  // else the edits are none
  return of_collectives;
}

}  // namespace

TEST_CASE("an edited shard of split products is run or refused in one line") {
  check_edits(sample_bundles()[0], 900);
}
TEST_CASE("an edited shard of stages is run or refused in one line") {
  CHECK(check_edits(sample_bundles()[1], 500) > 20);
}
TEST_CASE("an edited shard with states is run or refused in one line") {
  check_edits(sample_bundles()[2], 500);
}

}  // namespace autopar::testing
