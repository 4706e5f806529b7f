#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace autopar::graph {

/// What an operator's inputs may be beyond what ONNX's inference checks, where kernels and sharding
/// rules read them by element: kernels may assume it. An operator may have several of these, of
/// which one must hold.
struct OperandForms {
  std::string_view op_type;
  /// When it is meant: `layout=0` or `layout!=0`, an attribute's value; `3`, input 3 is given;
  /// `!3`, it is not. All of what is named, with spaces between.
  std::string_view condition;
  /// A form (operand_form.h) for each input, with commas between; inputs behind the last one are
  /// as they like.
  std::string_view forms;
  std::string_view domain = "";
};

std::span<const OperandForms> operand_table();

/// An input of one of ONNX's operators that names dimensions of input 0, which are checked where it
/// is constant.
struct AxesInput {
  std::string_view op_type;
  std::size_t input = 0;
};

std::span<const AxesInput> axes_inputs();

/// The words that a string attribute of ONNX's operators may be, with spaces between; of all of
/// them where no type is named. Neither ONNX's inference nor all kernels look.
struct AttributeWords {
  std::string_view op_type;
  std::string_view attribute;
  std::string_view words;
};

std::span<const AttributeWords> attribute_words();

/// Names of integer attributes of ONNX's operators that are 0 or 1, with spaces between. ONNX's
/// inference takes other numbers for the one or for the other, by operator.
std::string_view flag_attributes();

}  // namespace autopar::graph
