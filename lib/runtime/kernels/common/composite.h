#pragma once

#include <map>
#include <string_view>

#include "runtime/device.h"

namespace autopar::runtime {

/// A kernel made of others that the device has: for operators that are several steps of others once
/// they are compiled, and one node for all that comes before. Values between steps lie in scratch
/// memory.
class Composite {
 public:
  /// A tensor that steps read or write.
  struct Part {
    enum class Place : std::uint8_t { none, input, output, scratch, constant } place = Place::none;
    std::size_t index = 0;         ///< of the input, output or constant
    std::int64_t byte_offset = 0;  ///< from its beginning; in scratch memory, from there
    DataType type = DataType::undefined;
    Shape shape;
  };

  explicit Composite(const KernelRequest& request);
  ~Composite();

  Device& device() const;
  Part input(std::size_t i) const;
  Part output(std::size_t i) const;
  /// Whether the node has this input.
  bool has_input(std::size_t i) const;
  bool has_output(std::size_t i) const;
  Part temporary(DataType type, const Shape& shape);
  /// A tensor that is known now: kernels may read it when they are made, and when they run.
  Part constant(const graph::Tensor& tensor);
  /// The same elements in another shape.
  static Part reshaped(Part part, Shape shape);
  /// The elements from `element` on.
  static Part from_element(Part part, std::int64_t element, Shape shape);

  /// A kernel of the device for an operator on tensors like these. Error where it has none.
  std::shared_ptr<Kernel> make(std::string_view domain, std::string_view op_type,
                               std::map<std::string, graph::Attribute> attributes,
                               const std::vector<Part>& inputs, const std::vector<Part>& outputs);
  /// Appends a step.
  void append(std::shared_ptr<Kernel> kernel, const std::vector<Part>& inputs,
              const std::vector<Part>& outputs);
  /// make() and append().
  void add(std::string_view domain, std::string_view op_type,
           std::map<std::string, graph::Attribute> attributes, const std::vector<Part>& inputs,
           const std::vector<Part>& outputs);
  /// Appends a copy of elements of one layout to another; `layout` counts elements of `from`'s
  /// type.
  void add_copy(const Part& from, const Part& to, CopyLayout layout);

  /// The steps as one kernel; nothing can be added then.
  std::unique_ptr<Kernel> finish();

 private:
  class Steps;
  const KernelRequest& request_;
  std::unique_ptr<Steps> steps_;
};

/// Copies a tensor known now, of whatever type, to output 0, which has its size.
std::unique_ptr<Kernel> make_fixed(const KernelRequest& request, const graph::Tensor& tensor);

}  // namespace autopar::runtime
