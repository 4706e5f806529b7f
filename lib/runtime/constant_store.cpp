#include "runtime/constant_store.h"

#include <algorithm>
#include <compare>
#include <set>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/stopwatch.h"
#include "graph/arena.h"

namespace autopar::runtime {
namespace {

using graph::Node;
using graph::Tensor;

/// Tensors up to this size are known by their bytes: shapes, scales, zero points.
constexpr std::int64_t known_by_bytes = 4096;
/// Larger ones have memory of their own on the device, so that it goes with the last that uses it.
constexpr std::int64_t shares_block = 1 << 16;

/// Text that another text can be put behind, and means the same nowhere else.
void append(std::string& key, std::string_view text) {
  key += std::to_string(text.size());
  key += ':';
  key += text;
}
void append(std::string& key, std::int64_t number) { append(key, std::to_string(number)); }

template <typename T>
std::string_view bytes_of(const T& elements) {
  return {reinterpret_cast<const char*>(elements.data()),
          elements.size() * sizeof(elements.front())};
}

std::string type_and_shape(const Tensor& tensor) {
  std::string key;
  append(key, static_cast<std::int64_t>(tensor.type()));
  append(key, bytes_of(tensor.shape()));
  return key;
}

/// An attribute's kind and value; a tensor's stands among the recipe's inputs.
void append(std::string& key, const graph::Attribute& attribute) {
  append(key, static_cast<std::int64_t>(attribute.index()));
  std::visit(
      [&]<typename T>(const T& value) {
        if constexpr (std::is_arithmetic_v<T>) {
          append(key, std::string_view(reinterpret_cast<const char*>(&value), sizeof value));
        } else if constexpr (std::is_same_v<T, std::string>) {
          append(key, std::string_view(value));
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          append(key, static_cast<std::int64_t>(value.size()));
          for (const std::string& each : value) append(key, std::string_view(each));
        } else if constexpr (!std::is_same_v<T, Tensor>) {
          append(key, bytes_of(value));
        }
      },
      attribute);
}

}  // namespace

ConstantStore::View::View(const Tensor& tensor)
    : data(tensor.data()), type(tensor.type()), shape(tensor.shape()), strides(tensor.strides()) {}

/// The owner of a result is the tensor itself, as `make` gave it.
std::optional<Tensor> ConstantStore::Result::lock() const {
  auto made = std::static_pointer_cast<const Tensor>(owner.lock());
  if (!made) return std::nullopt;
  return Tensor(made->type(), made->shape(), made->data(), made);
}

ConstantStore::Recipe ConstantStore::recipe_of(const graph::Graph& graph, const Node& node) {
  Recipe recipe;
  const auto opset = graph.opsets.find(node.domain);
  append(recipe.operation, std::string_view(node.domain));
  append(recipe.operation, std::string_view(node.op_type));
  append(recipe.operation, std::string_view(node.name));  // random numbers depend on it
  append(recipe.operation, opset == graph.opsets.end() ? 0 : opset->second);
  for (const graph::ValueId id : node.inputs)
    recipe.inputs.push_back(id == graph::no_value ? nullptr : &*graph.value(id).constant);
  for (const graph::ValueId id : node.outputs) {
    append(recipe.operation, id == graph::no_value ? 0 : 1);
    if (id == graph::no_value) continue;
    append(recipe.operation, static_cast<std::int64_t>(graph.value(id).type));
    append(recipe.operation, bytes_of(graph.value(id).shape));
  }
  for (const auto& [name, attribute] : node.attributes) {
    append(recipe.operation, std::string_view(name));
    append(recipe.operation, attribute);
    if (const auto* tensor = std::get_if<Tensor>(&attribute)) recipe.inputs.push_back(tensor);
  }
  return recipe;
}

ConstantStore::Known* ConstantStore::known(const Tensor& tensor) {
  if (!tensor.has_data() || tensor.size_bytes() <= known_by_bytes) return nullptr;
  Known& known = known_[View(tensor)];
  if (known.name.empty() || known.is_gone())
    known = {.name = new_name(), .held = tensor, .owner = {}};
  return &known;
}

std::optional<std::string> ConstantStore::name_of(const Tensor& tensor) {
  if (!tensor.has_data()) return std::nullopt;
  if (const Known* large = known(tensor)) return large->name;
  const Tensor whole = tensor.is_contiguous() ? tensor : tensor.contiguous_copy();
  std::string name = "=" + type_and_shape(tensor);
  append(name, bytes_of(whole.bytes()));
  return name;
}

std::optional<std::vector<std::string>> ConstantStore::input_names(const Recipe& recipe) {
  std::vector<std::string> names;
  for (const Tensor* input : recipe.inputs) {
    auto name = input == nullptr ? std::string("none") : name_of(*input);
    if (!name) return std::nullopt;
    names.push_back(std::move(*name));
  }
  return names;
}

std::optional<ConstantStore::Tensors> ConstantStore::derive(
    const Recipe& recipe, const std::function<std::optional<Tensors>()>& make, bool replaces) {
  auto inputs = input_names(recipe);
  if (!inputs) return make();
  std::string key;
  append(key, std::string_view(recipe.operation));
  for (const std::string& name : *inputs) append(key, std::string_view(name));
  if (const auto found = results_.find(key); found != results_.end()) {
    Tensors results;
    for (const Result& each : found->second.results)
      if (auto result = each.lock()) results.push_back(std::move(*result));
    if (results.size() == found->second.results.size()) return results;
  }
  auto made = make();
  const auto is_kept = [](const Tensor& result) {
    return result.has_data() && !result.is_mapped() && result.is_contiguous();
  };
  if (!made || !std::ranges::all_of(*made, is_kept)) return made;
  Derived& derived = results_[key];
  derived.inputs = std::move(*inputs);
  std::vector<Result>& results = derived.results;
  results.resize(made->size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    // What was made before and has gone keeps its name, and with it its forms.
    if (results[i].name.empty()) results[i].name = new_name();
    const auto owner = std::make_shared<const Tensor>((*made)[i]);
    results[i].owner = owner;
    (*made)[i] = *results[i].lock();
    remember((*made)[i], results[i], recipe, replaces);
  }
  return made;
}

void ConstantStore::remember(const Tensor& result, const Result& as, const Recipe& recipe,
                             bool replaces) {
  if (result.size_bytes() <= known_by_bytes) return;
  const auto lies_in = [&](const Tensor* input) {
    return input != nullptr && input->data() == result.data();
  };
  Known& now = known_[View(result)];
  if (!now.name.empty() && !now.is_gone()) return;  // one of the inputs as it is
  now = {.name = as.name,
         .held = {},
         .owner = as.owner,
         .root = as.name,
         .root_bytes = result.size_bytes(),
         .is_counted = !replaces};
  const auto viewed = std::ranges::find_if(recipe.inputs, lies_in);
  if (viewed == recipe.inputs.end()) return;
  const Known* input = known(**viewed);
  now.root = input == nullptr ? std::string() : input->root;
  now.root_bytes = input == nullptr ? 0 : input->root_bytes;
}

ConstantStore::Bytes ConstantStore::form(const Tensor& constant, std::string_view form,
                                         std::int64_t bytes, const std::function<Bytes()>& make) {
  const auto name = name_of(constant);
  if (!name) return make();
  const std::pair key(*name, std::string(form));
  if (const auto found = forms_.find(key); found != forms_.end())
    if (auto memory = found->second.memory.lock()) return memory;
  Bytes made = make();
  if (made) forms_.insert_or_assign(key, Kept{made, bytes});
  return made;
}

std::vector<ConstantStore::Bytes> ConstantStore::on_device(
    std::span<const Tensor* const> constants) {
  std::vector<Bytes> places(constants.size());
  std::vector<std::optional<std::string>> names;
  /// Parts that share one allocation.
  struct Block {
    std::vector<std::size_t> parts;
    std::int64_t bytes = 0;
  };
  Block weights;
  Block small;
  std::vector<Block> large;
  std::map<std::string, std::size_t> first;  // of those that are new
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const Tensor& constant = *constants[i];
    const auto& name = names.emplace_back(name_of(constant));
    if (name) {
      const auto found = copies_.find(*name);
      if (found != copies_.end()) places[i] = found->second.memory.lock();
      if (places[i] || !first.emplace(*name, i).second) continue;
    }
    const bool is_large = constant.size_bytes() > shares_block;
    Block& block = constant.is_mapped() && name ? weights : is_large ? large.emplace_back() : small;
    block.parts.push_back(i);
    block.bytes += graph::aligned(constant.size_bytes());
  }
  std::vector<Device::Upload> uploads;
  const auto fill = [&](const Block& block) {
    if (block.parts.empty()) return;
    const Bytes memory = device_.allocate(block.bytes);
    std::int64_t offset = 0;
    for (const std::size_t i : block.parts) {
      places[i] = Bytes(memory, memory.get() + offset);
      offset += graph::aligned(constants[i]->size_bytes());
      uploads.push_back({constants[i], places[i].get()});
      if (names[i])
        copies_.insert_or_assign(*names[i], Kept{places[i], constants[i]->size_bytes()});
    }
    if (&block == &weights) weights_.push_back(memory);
  };
  fill(weights);
  fill(small);
  for (const Block& each : large) fill(each);
  for (std::size_t i = 0; i < constants.size(); ++i)
    if (!places[i]) places[i] = places[first.at(*names[i])];
  if (uploads.empty()) return places;
  const Stopwatch watch;
  device_.upload(uploads);
  upload_seconds_ += watch.seconds();
  return places;
}

void ConstantStore::clean() {
  std::erase_if(forms_, [](const auto& each) { return each.second.memory.expired(); });
  std::erase_if(copies_, [](const auto& each) { return each.second.memory.expired(); });
  std::erase_if(uses_, [](const auto& each) { return each.second.user.expired(); });
  std::erase_if(known_, [&](const auto& each) {
    const Known& known = each.second;
    return known.is_derived() ? known.is_gone()
                              : !known.held.is_mapped() && !uses_.contains(known.name);
  });
  forget_results();
}

void ConstantStore::forget_results() {
  std::set<std::string_view> read;  // by recipes whose results are known
  const auto is_known = [&](const Result& result) {
    const auto form = forms_.lower_bound({result.name, {}});
    const bool has_form = form != forms_.end() && form->first.first == result.name;
    return !result.owner.expired() || has_form || read.contains(result.name);
  };
  std::size_t before = 0;
  do {
    before = read.size();
    for (const auto& [key, derived] : results_)
      if (std::ranges::any_of(derived.results, is_known))
        read.insert(derived.inputs.begin(), derived.inputs.end());
  } while (read.size() != before);
  std::erase_if(results_, [&](const auto& each) {
    return std::ranges::none_of(each.second.results, is_known);
  });
}

std::shared_ptr<const void> ConstantStore::use(const Tensor& constant) {
  const Known* large = known(constant);
  if (large == nullptr) return nullptr;
  Use& use = uses_[large->root.empty() ? large->name : large->root];
  if (large->is_counted) use.counted_bytes = large->root_bytes;
  auto user = use.user.lock();
  if (!user) use.user = user = std::make_shared<int>();
  return user;
}

std::int64_t ConstantStore::derived_bytes() const {
  std::map<std::string_view, std::int64_t> by_root;
  for (const auto& [view, known] : known_)
    if (!known.root.empty() && !known.is_gone()) by_root[known.root] = known.root_bytes;
  std::int64_t bytes = 0;
  for (const auto& [root, of_root] : by_root) bytes += of_root;
  return bytes;
}

std::int64_t ConstantStore::form_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [key, form] : forms_)
    if (!form.memory.expired()) bytes += form.bytes;
  return bytes;
}

std::int64_t ConstantStore::device_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, copy] : copies_)
    if (!copy.memory.expired()) bytes += copy.bytes;
  return bytes;
}

std::int64_t ConstantStore::shared_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, use] : uses_)
    bytes += use.counted_bytes * std::max<std::int64_t>(0, use.user.use_count() - 1);
  return bytes;
}

std::int64_t ConstantStore::further_form_bytes() const {
  std::map<std::string_view, std::pair<std::int64_t, std::int64_t>> sums;  // and the largest
  for (const auto& [key, form] : forms_) {
    if (form.memory.expired()) continue;
    auto& [sum, largest] = sums[key.first];
    sum += form.bytes;
    largest = std::max(largest, form.bytes);
  }
  std::int64_t bytes = 0;
  for (const auto& [name, of_constant] : sums) bytes += of_constant.first - of_constant.second;
  return bytes;
}

Tensor derived(ConstantStore* store, const ConstantStore::Recipe& recipe,
               const std::function<Tensor()>& make, bool replaces) {
  if (store == nullptr) return make();
  const auto made = [&]() -> std::optional<ConstantStore::Tensors> {
    return ConstantStore::Tensors{make()};
  };
  return std::move(store->derive(recipe, made, replaces)->front());
}

std::shared_ptr<std::byte> KernelRequest::kept(
    std::size_t input, std::string_view form, std::int64_t bytes,
    const std::function<std::shared_ptr<std::byte>()>& make) const {
  const bool is_known = input < constants.size() && constants[input] != nullptr;
  return store != nullptr && is_known ? store->form(*constants[input], form, bytes, make) : make();
}

}  // namespace autopar::runtime
