#pragma once

#include <cstdint>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// The transform of rows of `samples` numbers, of one (real) or two (complex) parts each, taken as
/// `length` with zeros behind, to `bins`. An inverse one of real results reads half of a spectrum,
/// which stands for all of it: its numbers count twice, but for both ends.
struct FourierForm {
  std::int64_t length = 1;
  std::int64_t samples = 1;
  std::int64_t in_parts = 1;
  std::int64_t bins = 1;
  std::int64_t out_parts = 2;
  bool is_inverse = false;

  bool reads_half() const { return is_inverse && out_parts == 1; }
};

/// What a FourierRows says.
inline FourierForm fourier_form(const KernelRequest& request) {
  const graph::Node& node = request.node;
  FourierForm form{.length = request.inputs.at(1).shape[0],
                   .in_parts = node.int_attribute("in_parts", 1),
                   .out_parts = node.int_attribute("out_parts", 2),
                   .is_inverse = node.int_attribute("inverse", 0) != 0};
  form.samples = request.inputs[0].shape[1] / form.in_parts;
  form.bins = request.outputs.at(0).shape[1] / form.out_parts;
  return form;
}

}  // namespace autopar::runtime
