#pragma once

#include "graph/graph.h"
#include "graph/operators/autopar_operator.h"

namespace autopar::graph {

/// What a function of the library wrote as the reason why it fails.
std::string reason_in(std::span<const char> error);

/// An input as a library's functions see it; left out where the type is undefined.
struct LibraryInput {
  DataType type = DataType::undefined;
  Shape shape;
  const Tensor* constant = nullptr;  ///< with its data, where it is known
};

/// An AutoparNode and all that it points to.
class LibraryNode {
 public:
  LibraryNode(const std::map<std::string, Attribute>& attributes,
              std::span<const LibraryInput> inputs, std::size_t num_outputs);
  LibraryNode(const LibraryNode&) = delete;
  LibraryNode& operator=(const LibraryNode&) = delete;

  const AutoparNode& view() const { return node_; }
  /// Null where there is none.
  const Attribute* find(const char* name) const;
  /// The C strings of an attribute that is a string or a list of them.
  const std::vector<const char*>& strings(const char* name) const { return strings_.at(name); }

 private:
  std::map<std::string, Attribute> attributes_;
  std::map<std::string, std::vector<const char*>> strings_;
  std::vector<Tensor> constants_;  ///< by input
  std::vector<Shape> shapes_;
  std::vector<AutoparTensor> inputs_;
  AutoparNode node_{};
};

}  // namespace autopar::graph
