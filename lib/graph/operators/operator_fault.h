#pragma once

#include <stdexcept>

namespace autopar::graph {

/// A library's operator does what it must not, such as to write behind its outputs. No Error: one
/// that tries out an operator may pass over what the operator refuses, but never over this.
class OperatorFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace autopar::graph
