#include "graph/operators/library_node.h"

#include <algorithm>

namespace autopar::graph {
namespace {

/// Longer constants are data alone.
constexpr std::int64_t most_elements_read = 1024;

const LibraryNode& host(const AutoparNode* node) {
  return *static_cast<const LibraryNode*>(node->attributes);
}

/// One value or a list of values of T.
template <typename T>
std::int64_t values_of(const AutoparNode* node, const char* name, const T** values) {
  const Attribute* attribute = host(node).find(name);
  if (attribute == nullptr) return -1;
  if (const auto* one = std::get_if<T>(attribute)) {
    *values = one;
    return 1;
  }
  const auto* list = std::get_if<std::vector<T>>(attribute);
  if (list == nullptr) return -1;
  *values = list->data();
  return std::ssize(*list);
}

std::int64_t strings_of(const AutoparNode* node, const char* name, const char* const** values) {
  const Attribute* attribute = host(node).find(name);
  if (attribute == nullptr || (!std::holds_alternative<std::string>(*attribute) &&
                               !std::holds_alternative<std::vector<std::string>>(*attribute)))
    return -1;
  const std::vector<const char*>& strings = host(node).strings(name);
  *values = strings.data();
  return std::ssize(strings);
}

/// No function of the interface writes to what it is shown as an input.
AutoparTensor view_of(DataType type, const Shape& shape, const std::byte* data) {
  return {static_cast<std::int32_t>(type), static_cast<std::int32_t>(shape.size()), shape.data(),
          const_cast<std::byte*>(data)};
}

std::int64_t tensor_of(const AutoparNode* node, const char* name, AutoparTensor* value) {
  const Attribute* attribute = host(node).find(name);
  const auto* tensor = attribute ? std::get_if<Tensor>(attribute) : nullptr;
  if (tensor == nullptr) return -1;
  *value = view_of(tensor->type(), tensor->shape(), tensor->data());
  return 1;
}

bool is_read(const LibraryInput& input) {
  return input.constant != nullptr && input.constant->has_data() &&
         input.constant->elements() <= most_elements_read;
}

}  // namespace

std::string reason_in(std::span<const char> error) {
  const std::string reason(error.begin(), std::ranges::find(error, '\0'));
  return reason.empty() ? "it gives no reason" : reason;
}

LibraryNode::LibraryNode(const std::map<std::string, Attribute>& attributes,
                         std::span<const LibraryInput> inputs, std::size_t num_outputs)
    : attributes_(attributes) {
  for (auto& [name, attribute] : attributes_) {
    if (auto* tensor = std::get_if<Tensor>(&attribute)) *tensor = tensor->contiguous_copy();
    if (const auto* text = std::get_if<std::string>(&attribute)) strings_[name] = {text->c_str()};
    if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute))
      std::ranges::transform(*texts, std::back_inserter(strings_[name]), &std::string::c_str);
  }
  for (const LibraryInput& input : inputs) {
    shapes_.push_back(input.shape);
    constants_.push_back(is_read(input) ? input.constant->contiguous_copy() : Tensor());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs_.push_back(view_of(inputs[i].type, shapes_[i], constants_[i].data()));
  node_ = {.num_inputs = static_cast<std::uint32_t>(inputs.size()),
           .num_outputs = static_cast<std::uint32_t>(num_outputs),
           .inputs = inputs_.data(),
           .attributes = this,
           .ints = values_of<std::int64_t>,
           .floats = values_of<float>,
           .strings = strings_of,
           .tensor = tensor_of};
}

const Attribute* LibraryNode::find(const char* name) const {
  const auto found = attributes_.find(name);
  return found == attributes_.end() ? nullptr : &found->second;
}

}  // namespace autopar::graph
