#pragma once

#include <string>
#include <vector>

#include "graph/contrib/body_builder.h"

/// What classifiers and regressors of ai.onnx.ml make of their scores, as ONNX Runtime has it.
namespace autopar::graph::ml {

/// What ONNX's `post_transform` makes of `scores`, [rows, columns] of float32 or float64; the
/// result's name. One column alone is changed by PROBIT only.
std::string transformed(BodyBuilder& body, const std::string& scores, const std::string& transform,
                        DataType type, std::int64_t columns);

/// Both classes' scores, [rows, 2], of the second one's, [rows, 1]: the first one's is 1 less the
/// second's, or, where scores may be negative, the opposite; LOGISTIC is of the second's and the
/// opposite.
std::string both_scores(BodyBuilder& body, const std::string& score, const std::string& transform,
                        bool may_be_negative, DataType type);

/// Numbers that stand for the classes; throws Error where they are strings.
std::vector<std::int64_t> class_labels(const BodyBuilder& body, std::string_view integers);

/// `label` is labels[place] for each row's place, [rows].
void add_labels(BodyBuilder& body, const std::vector<std::int64_t>& labels,
                const std::string& places, const std::string& label);

/// `x` of float32 whatever type the input has; fails where it has not two dimensions.
void add_float_rows(BodyBuilder& body, const std::string& x);

/// A number of the transform's type: operands of double stay exact.
std::string number_of(BodyBuilder& body, double value, DataType type);

}  // namespace autopar::graph::ml
