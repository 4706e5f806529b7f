#include "graph/onnx/weight_stripping.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "graph/data_type.h"

namespace autopar::graph {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t smallest_stripped_bytes = 1024;
constexpr int deepest_nesting = 100;

enum class WireType { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };
enum class Message { model, graph, function, node, attribute, tensor };

/// Which fields of a message hold messages that may hold tensors (onnx.proto's field numbers).
struct ChildField {
  Message parent;
  std::uint64_t number;
  Message child;
};
constexpr std::array<ChildField, 10> child_fields = {{
    {Message::model, 7, Message::graph},
    {Message::model, 25, Message::function},
    {Message::graph, 1, Message::node},
    {Message::graph, 5, Message::tensor},
    {Message::function, 7, Message::node},
    {Message::node, 5, Message::attribute},
    {Message::attribute, 5, Message::tensor},
    {Message::attribute, 6, Message::graph},
    {Message::attribute, 10, Message::tensor},
    {Message::attribute, 11, Message::graph},
}};

/// Fields of TensorProto.
constexpr std::uint64_t data_type_field = 2;
constexpr std::uint64_t float_data_field = 4;
constexpr std::uint64_t raw_data_field = 9;
constexpr std::uint64_t double_data_field = 10;
constexpr std::uint64_t external_data_field = 13;
constexpr std::uint64_t data_location_field = 14;
constexpr std::uint64_t external_location = 1;

/// Thrown where the bytes do not follow the wire format.
struct Malformed {};

struct Field {
  std::uint64_t number = 0;
  WireType type = WireType::varint;
  Bytes whole;    ///< tag included
  Bytes payload;  ///< of a length-delimited field
  std::uint64_t value = 0;
};

/// Reads a message's fields one by one.
class FieldReader {
 public:
  explicit FieldReader(Bytes message) : rest_(message) {}

  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const Bytes start = rest_;
    Field field;
    const std::uint64_t tag = varint();
    field.number = tag >> 3;
    field.type = static_cast<WireType>(tag & 7);
    if (field.number == 0) throw Malformed{};
    if (field.type == WireType::varint)
      field.value = varint();
    else if (field.type == WireType::fixed64)
      take(8);
    else if (field.type == WireType::length_delimited)
      field.payload = take(varint());
    else if (field.type == WireType::fixed32)
      take(4);
    else
      throw Malformed{};
    field.whole = start.first(start.size() - rest_.size());
    return field;
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(take(1)[0]);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    throw Malformed{};
  }

  Bytes take(std::uint64_t bytes) {
    if (bytes > rest_.size()) throw Malformed{};
    const Bytes taken = rest_.first(static_cast<std::size_t>(bytes));
    rest_ = rest_.subspan(static_cast<std::size_t>(bytes));
    return taken;
  }

  Bytes rest_;
};

void append(std::string& out, Bytes bytes) {
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>((value & 0x7F) | 0x80));
  out.push_back(static_cast<char>(value));
}

void append_tag(std::string& out, std::uint64_t number, WireType type) {
  append_varint(out, number << 3 | static_cast<std::uint64_t>(type));
}

void append_message(std::string& out, std::uint64_t number, std::string_view message) {
  append_tag(out, number, WireType::length_delimited);
  append_varint(out, message.size());
  out.append(message);
}

/// Whether a tensor of this type keeps its elements in the field as they are in memory.
bool holds_memory_image(std::uint64_t field, DataType type) {
  if (field == raw_data_field) return true;
  if (field == float_data_field) return type == DataType::float32 || type == DataType::complex64;
  if (field == double_data_field) return type == DataType::float64 || type == DataType::complex128;
  return false;
}

/// The one field that holds a tensor's large payload; none where data is spread over several.
std::optional<Field> large_payload(Bytes tensor) {
  DataType type = DataType::undefined;
  std::optional<Field> payload;
  int data_fields = 0;
  for (FieldReader reader(tensor); auto field = reader.next();) {
    if (field->number == data_type_field) type = static_cast<DataType>(field->value);
    const bool data = field->number == raw_data_field || field->number == float_data_field ||
                      field->number == double_data_field;
    if (field->number == data_location_field && field->value == external_location) return {};
    if (!data) continue;
    ++data_fields;
    payload = field;
  }
  const bool large = data_fields == 1 && payload->type == WireType::length_delimited &&
                     payload->payload.size() >= smallest_stripped_bytes &&
                     holds_memory_image(payload->number, type);
  return large ? payload : std::nullopt;
}

std::string strip_tensor(Bytes file, Bytes tensor) {
  std::string out;
  const auto payload = large_payload(tensor);
  if (!payload) {
    append(out, tensor);
    return out;
  }
  for (FieldReader reader(tensor); auto field = reader.next();)
    if (field->number != payload->number && field->number != data_location_field)
      append(out, field->whole);
  const auto refer = [&](std::string_view key, std::string_view value) {
    std::string entry;
    append_message(entry, 1, key);
    append_message(entry, 2, value);
    append_message(out, external_data_field, entry);
  };
  refer("location", this_file_location);
  refer("offset", std::to_string(payload->payload.data() - file.data()));
  refer("length", std::to_string(payload->payload.size()));
  append_tag(out, data_location_field, WireType::varint);
  append_varint(out, external_location);
  return out;
}

/// Text of a node that an error names.
std::string describe_node(Bytes node) {
  constexpr std::uint64_t name_field = 3;
  constexpr std::uint64_t operator_field = 4;
  std::string name;
  std::string op_type;
  const auto text = [](Bytes bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  for (FieldReader reader(node); auto field = reader.next();) {
    if (field->number == name_field) name = text(field->payload);
    if (field->number == operator_field) op_type = text(field->payload);
  }
  return name.empty() ? fmt::format("an unnamed node ({})", op_type)
                      : fmt::format("node '{}' ({})", name, op_type);
}

/// The first node whose graphs are nested so deep that messages in them may pass protobuf's limit.
/// Takes no more stack than as many messages as that do.
std::optional<std::string> deep_node(Message kind, Bytes message, Bytes node, int depth = 0) {
  constexpr int below_a_graph = 5;  // an input, its type, its shape and a dimension
  if (kind == Message::graph && depth + below_a_graph > deepest_nesting) return describe_node(node);
  if (kind == Message::tensor) return std::nullopt;
  if (kind == Message::node) node = message;
  for (FieldReader reader(message); auto field = reader.next();) {
    if (field->type != WireType::length_delimited) continue;
    for (const ChildField& child : child_fields)
      if (child.parent == kind && child.number == field->number)
        if (auto found = deep_node(child.child, field->payload, node, depth + 1)) return found;
  }
  return std::nullopt;
}

std::string strip(Bytes file, Message kind, Bytes message, int depth = 0) {
  if (depth > deepest_nesting) throw Malformed{};
  if (kind == Message::tensor) return strip_tensor(file, message);
  std::string out;
  for (FieldReader reader(message); auto field = reader.next();) {
    const auto child = std::ranges::find_if(child_fields, [&](const ChildField& c) {
      return c.parent == kind && c.number == field->number;
    });
    if (child == child_fields.end() || field->type != WireType::length_delimited ||
        field->payload.size() < smallest_stripped_bytes)
      append(out, field->whole);
    else
      append_message(out, field->number, strip(file, child->child, field->payload, depth + 1));
  }
  return out;
}

/// Whether the file begins with the tag of a field that a ModelProto has.
bool begins_like_a_model(Bytes file) {
  constexpr std::array<std::uint64_t, 2> numbers = {1, 5};  // ir_version, model_version
  constexpr std::array<std::uint64_t, 8> messages = {2, 3, 4, 6, 7, 8, 14, 25};
  if (file.empty()) return false;
  const auto tag = std::to_integer<std::uint64_t>(file[0]);
  const auto type = static_cast<WireType>(tag & 7);
  const auto is_among = [&](const auto& fields) {
    return std::ranges::find(fields, tag >> 3) != fields.end();
  };
  return (type == WireType::varint && is_among(numbers)) ||
         (type == WireType::length_delimited && is_among(messages));
}

}  // namespace

void check_nesting(std::span<const std::byte> model, const std::filesystem::path& file) {
  std::optional<std::string> node;
  try {
    node = deep_node(Message::model, model, {});
  } catch (const Malformed&) {
    return;
  }
  if (node)
    fail("{}: {} holds graphs that are nested too deep: protobuf's messages may be nested {} deep",
         file.string(), *node, deepest_nesting);
}

std::string strip_weights(std::span<const std::byte> model, const std::filesystem::path& file) {
  if (!begins_like_a_model(model))
    fail("{} is not an ONNX file: give a model that was exported to ONNX", file.string());
  try {
    return strip(model, Message::model, model);
  } catch (const Malformed&) {
    check_nesting(model, file);
    fail("{} is truncated or damaged: it ends in the middle of its data; copy or export it again",
         file.string());
  }
}

}  // namespace autopar::graph
