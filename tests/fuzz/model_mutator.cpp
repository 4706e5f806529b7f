#include "model_mutator.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace autopar::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::int64_t extreme_integers[] = {0,
                                             1,
                                             -1,
                                             2,
                                             3,
                                             4,
                                             5,
                                             7,
                                             8,
                                             -2,
                                             16,
                                             63,
                                             64,
                                             127,
                                             128,
                                             255,
                                             256,
                                             1000,
                                             65535,
                                             65536,
                                             2147483647,
                                             -2147483648LL,
                                             4294967296LL,
                                             std::numeric_limits<std::int64_t>::max(),
                                             std::numeric_limits<std::int64_t>::min()};
constexpr double extreme_numbers[] = {0.0,  -0.0,  1.0,   -1.0,     0.5,       2.0, 1e-30,
                                      1e30, -1e30, 1e300, INFINITY, -INFINITY, NAN};

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  void change(onnx::ModelProto& model) {
    onnx::GraphProto& graph = *model.mutable_graph();
    switch (below(12)) {
      case 0:
      case 1:
        return change_inputs(graph);
      case 2:
      case 3:
        return change_attribute(graph);
      case 4:
        return change_input_type(graph);
      case 5:
      case 6:
        return make_constant(graph);
      case 7:
      case 8:
        return change_initializer(graph);
      case 9:
        return change_nodes(graph);
      case 10:
        return change_opset(model);
      default:
        return change_any_field(model, 12);
    }
  }

  void take_from(const onnx::GraphProto& other, onnx::GraphProto& graph) {
    const std::vector<std::string> known = names(graph);
    if (const auto* initializer = any(other.initializer()); initializer && below(3) == 0) {
      onnx::TensorProto& added = *graph.add_initializer();
      added = *initializer;
      if (const auto* name = any(known)) added.set_name(*name);
      return;
    }
    const onnx::NodeProto* node = any(other.node());
    if (node == nullptr) return;
    onnx::NodeProto* mine = any_mutable(*graph.mutable_node());
    if (mine != nullptr && below(2) == 0) {
      if (const auto* attribute = any(node->attribute())) *mine->add_attribute() = *attribute;
      return;
    }
    onnx::NodeProto& added = *graph.add_node();
    added = *node;
    for (std::string& input : *added.mutable_input())
      if (const auto* name = any(known)) input = *name;
  }

  std::size_t below(std::size_t end) { return random_() % end; }

 private:
  template <typename Items>
  auto any(const Items& items) -> decltype(&*items.begin()) {
    return items.begin() == items.end()
               ? nullptr
               : &*(items.begin() + static_cast<std::ptrdiff_t>(below(items.size())));
  }
  template <typename Items>
  auto any_mutable(Items& items) -> decltype(&*items.begin()) {
    return items.empty() ? nullptr
                         : &*(items.begin() + static_cast<std::ptrdiff_t>(below(items.size())));
  }

  /// The last takes its place.
  template <typename Items>
  static void remove(Items& items, std::size_t at) {
    items.SwapElements(static_cast<int>(at), items.size() - 1);
    items.RemoveLast();
  }

  std::int64_t integer(std::int64_t before) {
    switch (below(4)) {
      case 0:
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(before) + 1);
      case 1:
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(before) - 1);
      case 2:
        return static_cast<std::int64_t>(below(9));
      default:
        return *any(std::span(extreme_integers));
    }
  }
  double number() { return *any(std::span(extreme_numbers)); }

  static std::vector<std::string> names(const onnx::GraphProto& graph) {
    std::vector<std::string> names;
    for (const auto& input : graph.input()) names.push_back(input.name());
    for (const auto& constant : graph.initializer()) names.push_back(constant.name());
    for (const auto& node : graph.node())
      names.insert(names.end(), node.output().begin(), node.output().end());
    return names;
  }

  void change_inputs(onnx::GraphProto& graph) {
    onnx::NodeProto* node = any_mutable(*graph.mutable_node());
    if (node == nullptr) return;
    auto& inputs = *node->mutable_input();
    const auto known = names(graph);
    std::string* input = any_mutable(inputs);
    switch (below(4)) {
      case 0:
        if (input != nullptr) input->clear();
        return;
      case 1:
        if (input != nullptr && !known.empty()) *input = *any(known);
        return;
      case 2:
        if (!inputs.empty()) inputs.RemoveLast();
        return;
      default:
        if (!known.empty()) node->add_input(*any(known));
    }
  }

  void change_attribute(onnx::GraphProto& graph) {
    onnx::NodeProto* node = any_mutable(*graph.mutable_node());
    if (node == nullptr) return;
    auto& attributes = *node->mutable_attribute();
    if (attributes.empty()) return;
    const std::size_t at = below(attributes.size());
    if (below(8) == 0) return remove(attributes, at);
    onnx::AttributeProto* attribute = &attributes[static_cast<int>(at)];
    if (attribute->has_i()) attribute->set_i(integer(attribute->i()));
    if (attribute->has_f()) attribute->set_f(static_cast<float>(number()));
    if (attribute->has_s()) change_text(*attribute->mutable_s());
    if (attribute->has_t()) change_tensor(*attribute->mutable_t());
    if (attribute->has_g())
      return below(2) == 0 ? change_attribute(*attribute->mutable_g())
                           : change_inputs(*attribute->mutable_g());
    auto& integers = *attribute->mutable_ints();
    if (auto* one = any_mutable(integers)) *one = integer(*one);
    if (!integers.empty() && below(3) == 0) integers.RemoveLast();
    if (!integers.empty() && below(4) == 0) integers.Add(integer(0));
    if (auto* one = any_mutable(*attribute->mutable_floats())) *one = static_cast<float>(number());
    if (auto* one = any_mutable(*attribute->mutable_strings())) change_text(*one);
  }

  void change_text(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(3)) {
      case 0:
        text.erase(at, 1);
        return;
      case 1:
        text.insert(at, 1, static_cast<char>(' ' + below(95)));
        return;
      default:
        if (at < text.size()) text[at] = static_cast<char>(' ' + below(95));
    }
  }

  void change_shape(onnx::TensorShapeProto& shape) {
    auto* dim = any_mutable(*shape.mutable_dim());
    if (below(5) == 0 && !shape.dim().empty()) return shape.mutable_dim()->RemoveLast();
    if (dim == nullptr || below(5) == 0) return shape.add_dim()->set_dim_value(integer(0));
    dim->set_dim_value(integer(dim->dim_value()));
  }

  void change_input_type(onnx::GraphProto& graph) {
    auto* input = any_mutable(*graph.mutable_input());
    if (input == nullptr) return;
    auto& type = *input->mutable_type()->mutable_tensor_type();
    if (below(3) == 0) return type.set_elem_type(static_cast<int>(below(27)));
    change_shape(*type.mutable_shape());
  }

  /// An input of numbers becomes a constant of the same type and shape, if it is small.
  void make_constant(onnx::GraphProto& graph) {
    auto& inputs = *graph.mutable_input();
    if (inputs.empty()) return change_initializer(graph);
    const std::size_t at = below(inputs.size());
    const onnx::ValueInfoProto& input = inputs[static_cast<int>(at)];
    onnx::TensorProto constant;
    constant.set_name(input.name());
    const auto& type = input.type().tensor_type();
    constant.set_data_type(type.elem_type());
    for (const auto& dim : type.shape().dim())
      constant.add_dims(std::max<std::int64_t>(dim.dim_value(), 0));
    fill(constant);
    *graph.add_initializer() = constant;
    remove(inputs, at);
  }

  void change_initializer(onnx::GraphProto& graph) {
    if (auto* tensor = any_mutable(*graph.mutable_initializer())) change_tensor(*tensor);
  }

  void change_tensor(onnx::TensorProto& tensor) {
    switch (below(5)) {
      case 0:
        tensor.clear_dims();
        tensor.add_dims(0);
        return fill(tensor);
      case 1:
        if (!tensor.dims().empty()) *any_mutable(*tensor.mutable_dims()) = integer(1);
        return fill(tensor);
      case 2:
        if (below(2) == 0 && !tensor.dims().empty())
          tensor.mutable_dims()->RemoveLast();
        else
          tensor.add_dims(static_cast<std::int64_t>(below(4)));
        return fill(tensor);
      case 3:
        tensor.set_data_type(static_cast<int>(below(27)));
        return fill(tensor);
      default:
        return fill(tensor);
    }
  }

  static std::size_t bytes_of(int type) {
    switch (type) {
      case onnx::TensorProto::INT64:
      case onnx::TensorProto::UINT64:
      case onnx::TensorProto::DOUBLE:
      case onnx::TensorProto::COMPLEX64:
        return 8;
      case onnx::TensorProto::COMPLEX128:
        return 16;
      case onnx::TensorProto::FLOAT:
      case onnx::TensorProto::INT32:
      case onnx::TensorProto::UINT32:
        return 4;
      case onnx::TensorProto::FLOAT16:
      case onnx::TensorProto::BFLOAT16:
      case onnx::TensorProto::INT16:
      case onnx::TensorProto::UINT16:
        return 2;
      default:
        return 1;
    }
  }

  /// Gives the tensor as many elements as it has places, if these are few: small numbers and some
  /// extreme ones.
  void fill(onnx::TensorProto& tensor) {
    constexpr std::size_t most = 4096;
    std::size_t elements = 1;
    for (const std::int64_t extent : tensor.dims()) {
      if (extent < 0 || static_cast<std::size_t>(extent) > most) return;
      elements *= static_cast<std::size_t>(extent);
      if (elements > most) return;
    }
    tensor.clear_float_data();
    tensor.clear_int32_data();
    tensor.clear_int64_data();
    tensor.clear_double_data();
    tensor.clear_uint64_data();
    tensor.clear_string_data();
    const std::size_t width = bytes_of(tensor.data_type());
    std::string& raw = *tensor.mutable_raw_data();
    raw.assign(elements * width, '\0');
    for (std::size_t i = 0; i < elements; ++i)
      write_element(tensor.data_type(), &raw[i * width], width);
  }

  void write_element(int type, char* place, std::size_t width) {
    const bool is_extreme = below(8) == 0;
    const std::int64_t whole = is_extreme ? integer(0) : static_cast<std::int64_t>(below(5));
    if (type == onnx::TensorProto::FLOAT) {
      const auto value = static_cast<float>(is_extreme ? number() : static_cast<double>(whole));
      std::memcpy(place, &value, sizeof value);
    } else if (type == onnx::TensorProto::DOUBLE) {
      const double value = is_extreme ? number() : static_cast<double>(whole);
      std::memcpy(place, &value, sizeof value);
    } else {
      std::memcpy(place, &whole, std::min(width, sizeof whole));
    }
  }

  void change_nodes(onnx::GraphProto& graph) {
    auto& nodes = *graph.mutable_node();
    if (nodes.empty()) return;
    const onnx::NodeProto chosen = *any(nodes);
    switch (below(3)) {
      case 0:  // read what it makes, once more
        *graph.add_node() = chosen;
        for (std::string& output : *nodes[nodes.size() - 1].mutable_output()) output += "'";
        if (!chosen.output().empty() && nodes[nodes.size() - 1].input_size() > 0)
          nodes[nodes.size() - 1].set_input(0, chosen.output(0));
        return;
      case 1:
        any_mutable(nodes)->set_op_type(chosen.op_type());
        return;
      default:
        if (auto* output = any_mutable(*any_mutable(nodes)->mutable_output())) output->clear();
    }
  }

  void change_opset(onnx::ModelProto& model) {
    if (auto* opset = any_mutable(*model.mutable_opset_import()))
      opset->set_version(static_cast<std::int64_t>(7 + below(20)));
  }

  /// Goes from message to message and changes a field of the last.
  void change_any_field(Message& message, int depth) {
    const Reflection& fields = *message.GetReflection();
    std::vector<const FieldDescriptor*> present;
    fields.ListFields(message, &present);
    const auto* chosen = any(present);
    if (chosen == nullptr) return;
    const FieldDescriptor& field = **chosen;
    if (field.is_repeated()) return change_repeated(message, field, depth);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (depth > 0 && below(16) != 0)
        return change_any_field(*fields.MutableMessage(&message, &field), depth - 1);
      return fields.ClearField(&message, &field);
    }
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT64:
        return fields.SetInt64(&message, &field, integer(fields.GetInt64(message, &field)));
      case FieldDescriptor::CPPTYPE_INT32:
        return fields.SetInt32(&message, &field, static_cast<std::int32_t>(integer(0)));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return fields.SetFloat(&message, &field, static_cast<float>(number()));
      case FieldDescriptor::CPPTYPE_ENUM:
        return fields.SetEnumValue(&message, &field, static_cast<int>(below(16)));
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string text = fields.GetString(message, &field);
        change_text(text);
        return fields.SetString(&message, &field, text);
      }
      default:
        return fields.ClearField(&message, &field);
    }
  }

  void change_repeated(Message& message, const FieldDescriptor& field, int depth) {
    const Reflection& fields = *message.GetReflection();
    const int size = fields.FieldSize(message, &field);
    const int at = static_cast<int>(below(static_cast<std::size_t>(size)));
    if (below(8) == 0) {
      fields.SwapElements(&message, &field, at, size - 1);
      return fields.RemoveLast(&message, &field);
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (depth > 0)
        change_any_field(*fields.MutableRepeatedMessage(&message, &field, at), depth - 1);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      fields.SetRepeatedInt64(&message, &field, at,
                              integer(fields.GetRepeatedInt64(message, &field, at)));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      std::string text = fields.GetRepeatedString(message, &field, at);
      change_text(text);
      fields.SetRepeatedString(&message, &field, at, text);
    }
  }

  std::mt19937 random_;
};

}  // namespace

void mutate(onnx::ModelProto& model, unsigned seed) {
  Mutator mutator(seed);
  for (std::size_t changes = 1 + mutator.below(3); changes > 0; --changes) mutator.change(model);
}

void cross_over(onnx::ModelProto& model, const onnx::ModelProto& other, unsigned seed) {
  Mutator(seed).take_from(other.graph(), *model.mutable_graph());
}

}  // namespace autopar::fuzz
