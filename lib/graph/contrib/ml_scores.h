#pragma once

#include "graph/contrib/body_builder.h"

/// What classifiers and regressors of ai.onnx.ml make of their scores, as ONNX Runtime has it.
namespace autopar::graph::ml {

/// What ONNX's `post_transform` makes of `scores`, [rows, columns] of float32 or float64. One
/// column alone is changed by PROBIT only.
Operand transformed(const Operand& scores, const std::string& transform, DataType type,
                    std::int64_t columns);

/// Both classes' scores, [rows, 2], of the second one's, [rows, 1]: the first one's is 1 less the
/// second's, or, where scores may be negative, the opposite; LOGISTIC is of the second's and the
/// opposite.
Operand both_scores(const Operand& score, const std::string& transform, bool may_be_negative,
                    DataType type);

/// A classifier's scores, and of each row the class among the labels, [rows].
struct Decision {
  Operand best;
  Operand scores;
};

/// The column of each row's greatest score, [rows].
Operand best_column(const Operand& scores);

/// Numbers that stand for the classes; throws Error where they are strings.
Ints class_labels(const BodyBuilder& body, const std::string& integers);

/// labels[place] for each row's place, [rows].
Operand labels_at(const Ints& labels, const Operand& places);

/// X in float32 whatever type it has; fails where it has not two dimensions.
Operand float_rows(BodyBuilder& body);
void check_rows(const BodyBuilder& body);

}  // namespace autopar::graph::ml
