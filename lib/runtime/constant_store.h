#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "runtime/device.h"

namespace autopar::runtime {

/// What a rank's Executables make of constants, so that those of several shapes have it once:
/// constants computed of others, forms that kernels keep, and copies in the device's memory.
///
/// It knows a constant by its bytes where they are few, by where it lies, or by what it was made
/// of: nothing large is read to compare it. What no Executable uses any more goes, but for copies
/// of a file's bytes on the device: those are the bundle's weights, which are as many as the file
/// has and are never copied twice.
///
/// Belongs to one thread, the rank's. The device outlives it. Constants do not change.
class ConstantStore {
 public:
  explicit ConstantStore(Device& device) : device_(device) {}
  ConstantStore(const ConstantStore&) = delete;
  ConstantStore& operator=(const ConstantStore&) = delete;

  using Tensors = std::vector<graph::Tensor>;
  /// What constants are computed of others by, and what they are computed of.
  struct Recipe {
    std::string operation;  ///< with all that decides the result beside the inputs
    std::vector<const graph::Tensor*> inputs;
  };
  /// For a node whose inputs are constants.
  static Recipe recipe_of(const graph::Graph& graph, const graph::Node& node);

  /// What `make` gives; not called where the same was made before and is in use. nullopt where
  /// `make` gives that. `replaces`: the results stand for inputs that nothing reads any more, and
  /// are not counted in shared_bytes().
  std::optional<Tensors> derive(const Recipe& recipe,
                                const std::function<std::optional<Tensors>()>& make,
                                bool replaces = false);

  using Bytes = std::shared_ptr<std::byte>;
  /// The bytes, as many as said, that a kernel keeps of a constant in a form of its own. `form`
  /// decides them, with the constant. Null where `make` gives that.
  Bytes form(const graph::Tensor& constant, std::string_view form, std::int64_t bytes,
             const std::function<Bytes()>& make);

  /// Copies in the device's memory of contiguous tensors, in their order. All that are new are
  /// copied at once.
  std::vector<Bytes> on_device(std::span<const graph::Tensor* const> constants);

  /// While it is held, the constant counts as in use, and one in memory stays there.
  std::shared_ptr<const void> use(const graph::Tensor& constant);
  /// Forgets what nothing uses any more.
  void clean();

  // What is in use, each once.
  std::int64_t derived_bytes() const;
  std::int64_t form_bytes() const;
  std::int64_t device_bytes() const;  ///< on a device that does not share the host's memory
  /// Bytes that Executable::derived_constant_bytes() counts for more than one Executable.
  std::int64_t shared_bytes() const;
  /// Bytes of forms beyond a constant's first, whose place the first one takes.
  std::int64_t further_form_bytes() const;
  /// Seconds that on_device() has taken to copy.
  double upload_seconds() const { return upload_seconds_; }

 private:
  /// Where a tensor lies, and how.
  struct View {
    explicit View(const graph::Tensor& tensor);
    friend auto operator<=>(const View&, const View&) = default;

    const std::byte* data = nullptr;
    graph::DataType type = graph::DataType::undefined;
    graph::Shape shape;
    graph::Shape strides;
  };
  /// A constant of more than a few bytes.
  struct Known {
    std::string name;
    graph::Tensor held;               ///< keeps its place from others; none for a derived one
    std::weak_ptr<const void> owner;  ///< of a derived one, whose place is another's when it goes
    std::string root = {};            ///< the derived one in whose memory it lies; or empty
    std::int64_t root_bytes = 0;
    bool is_counted = false;  ///< in shared_bytes()

    bool is_derived() const { return !held.has_data(); }
    bool is_gone() const { return is_derived() && owner.expired(); }
  };
  struct Use {
    std::weak_ptr<const void> user;  ///< what use() has given
    std::int64_t counted_bytes = 0;
  };
  struct Kept {
    std::weak_ptr<std::byte> memory;
    std::int64_t bytes = 0;
  };

  /// A result as it was given, while it is in use.
  struct Result {
    std::string name;
    std::weak_ptr<const void> owner;
    std::optional<graph::Tensor> lock() const;
  };
  struct Derived {
    std::vector<std::string> inputs;  ///< their names
    std::vector<Result> results;
  };

  std::string new_name() { return "@" + std::to_string(names_++); }
  /// Null for a tensor without data, and for one of a few bytes.
  Known* known(const graph::Tensor& tensor);
  /// The same for all that are the same constant; nullopt for a tensor without data.
  std::optional<std::string> name_of(const graph::Tensor& tensor);
  /// nullopt where one has no data.
  std::optional<std::vector<std::string>> input_names(const Recipe& recipe);
  void remember(const graph::Tensor& result, const Result& as, const Recipe& recipe, bool replaces);
  /// Those that neither are in use nor have forms. The names of what such are made of stay, by
  /// which they are found again.
  void forget_results();

  Device& device_;
  std::int64_t names_ = 0;
  std::map<View, Known> known_;
  std::map<std::string, Use> uses_;                            ///< by root, or else by name
  std::map<std::string, Derived> results_;                     ///< by recipe
  std::map<std::pair<std::string, std::string>, Kept> forms_;  ///< by name and form
  std::map<std::string, Kept> copies_;                         ///< on the device, by name
  std::vector<Bytes> weights_;                                 ///< of those, the ones that stay
  double upload_seconds_ = 0;
};

/// The only tensor that `make` gives, kept by the store where there is one.
graph::Tensor derived(ConstantStore* store, const ConstantStore::Recipe& recipe,
                      const std::function<graph::Tensor()>& make, bool replaces = false);

}  // namespace autopar::runtime
