#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/graph/contrib/operator_call.h"

using namespace autopar::graph;

namespace {

const char* const ml = "ai.onnx.ml";

using Floats = std::vector<float>;
using Ints = std::vector<std::int64_t>;
constexpr double missing = std::numeric_limits<double>::quiet_NaN();

Array list(const std::vector<double>& values) {
  return {{static_cast<std::int64_t>(values.size())}, values};
}

Floats floats_of(const Array& x) { return {x.values.begin(), x.values.end()}; }

/// The place of each row's largest element, the first of several.
Array largest(const Array& scores) {
  Array best({scores.extent(0)});
  for (std::int64_t i = 0; i < scores.extent(0); ++i)
    for (std::int64_t j = 1; j < scores.extent(1); ++j)
      if (scores(i, j) > scores(i, static_cast<std::int64_t>(best(i))))
        best(i) = static_cast<double>(j);
  return best;
}

}  // namespace

OPERATOR_TEST("ai.onnx.ml", "ArrayFeatureExtractor", "columns by their places") {
  Draw draw;
  const Array x = draw.numbers({3, 4});
  Array expected({3, 2});
  for (std::int64_t i = 0; i < 3; ++i) {
    expected(i, 0) = x(i, 2);
    expected(i, 1) = x(i, 0);
  }
  check(Call(ml, "ArrayFeatureExtractor", 3).in(x).in(list({2, 0}), DataType::int64).result(),
        expected);
}

OPERATOR_TEST("ai.onnx.ml", "Binarizer", "1 above the threshold, else 0") {
  const Array x = list({-1, 0.5, 0.75, 2});
  check(Call(ml, "Binarizer", 3).in(x).set("threshold", 0.5F).result(), list({0, 0, 1, 1}));
}

OPERATOR_TEST("ai.onnx.ml", "FeatureVectorizer", "inputs side by side") {
  Draw draw;
  const Array a = draw.numbers({3, 2});
  const Array b = draw.integers({3, 1}, 0, 9);
  Array expected({3, 3});
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 3; ++j) expected(i, j) = j < 2 ? a(i, j) : b(i, 0);
  check(Call(ml, "FeatureVectorizer", 3).in(a).in(b).set("inputdimensions", Ints{2, 1}).result(),
        expected);
  // A row without columns is filled up with zeros.
  check(Call(ml, "FeatureVectorizer", 3)
            .in(Array(Shape{0}))
            .in(Array({1, 1}, 4))
            .set("inputdimensions", Ints{2, 1})
            .result(),
        Array({1, 3}, std::vector<double>{0, 0, 4}));
}

OPERATOR_TEST("ai.onnx.ml", "Imputer", "what is missing gets its column's value") {
  const Array x({2, 3}, std::vector<double>{1, missing, 3, missing, 5, missing});
  check(Call(ml, "Imputer", 3)
            .in(x)
            .set("imputed_value_floats", Floats{7, 8, 9})
            .set("replaced_value_float", std::numeric_limits<float>::quiet_NaN())
            .result(),
        Array({2, 3}, std::vector<double>{1, 8, 3, 7, 5, 9}));
  const Array integers({2, 2}, std::vector<double>{1, -1, -1, 4});
  check(Call(ml, "Imputer", 3)
            .in(integers, DataType::int64)
            .set("imputed_value_int64s", Ints{6})
            .set("replaced_value_int64", std::int64_t{-1})
            .result(),
        Array({2, 2}, std::vector<double>{1, 6, 6, 4}));
}

OPERATOR_TEST("ai.onnx.ml", "LabelEncoder", "each key's value, or the default") {
  check(Call(ml, "LabelEncoder", 2)
            .in(list({3, 7, 5, 3}), DataType::int64)
            .set("keys_int64s", Ints{3, 5})
            .set("values_floats", Floats{0.5F, 2})
            .set("default_float", -3.0F)
            .result(),
        list({0.5, -3, 2, 0.5}));
  check(Call(ml, "LabelEncoder", 2)
            .in(list({0.5, 2, 9}))
            .set("keys_floats", Floats{0.5F, 2})
            .set("values_int64s", Ints{30, 50})
            .set("default_int64", std::int64_t{-1})
            .result(),
        list({30, 50, -1}));
}

OPERATOR_TEST("ai.onnx.ml", "Normalizer", "rows over their norm") {
  Draw draw;
  const Array x = draw.numbers({3, 4}, 0.5, 2);
  const auto over = [&](double (*norm)(const std::vector<double>&)) {
    return by_row(x, [norm](std::vector<double>& row) {
      const double size = norm(row);
      for (double& value : row) value /= size;
    });
  };
  const auto call = [&](const char* norm) {
    return Call(ml, "Normalizer", 3).in(x).set("norm", std::string(norm)).result();
  };
  check(call("MAX"), over([](const auto& row) { return std::ranges::max(row); }));
  check(call("L1"), over([](const auto& row) {
          double all = 0;
          for (const double value : row) all += std::fabs(value);
          return all;
        }));
  check(call("L2"), over([](const auto& row) {
          double all = 0;
          for (const double value : row) all += value * value;
          return std::sqrt(all);
        }));
}

OPERATOR_TEST("ai.onnx.ml", "OneHotEncoder", "1 in the place of the category") {
  check(Call(ml, "OneHotEncoder", 3)
            .in(list({8, 3, 5}), DataType::int64)
            .set("cats_int64s", Ints{3, 8, 9})
            .result(),
        Array({3, 3}, std::vector<double>{0, 1, 0, 1, 0, 0, 0, 0, 0}));
  // The last one counts where a category is there twice, as in ONNX's reference implementation.
  check(Call(ml, "OneHotEncoder", 3)
            .in(list({8, 3}), DataType::int64)
            .set("cats_int64s", Ints{8, 3, 8})
            .result(),
        Array({2, 3}, std::vector<double>{0, 0, 1, 0, 1, 0}));
}

OPERATOR_TEST("ai.onnx.ml", "Scaler", "(x - offset) scale, by column") {
  Draw draw;
  const Array x = draw.numbers({3, 2});
  check(Call(ml, "Scaler", 3)
            .in(x)
            .set("offset", Floats{0.5F, -1})
            .set("scale", Floats{2, 0.25F})
            .result(),
        product(sum(x, list({-0.5, 1})), list({2, 0.25})));
}

OPERATOR_TEST("ai.onnx.ml", "LinearRegressor", "coefficients times features and an intercept") {
  Draw draw;
  const Array x = draw.numbers({3, 4});
  const Array coefficients = draw.numbers({2, 4});
  const Array scores = sum(matmul(x, transposed(coefficients)), list({0.5, -1}));
  const auto call = [&](const char* transform) {
    return Call(ml, "LinearRegressor", 1)
        .in(x)
        .set("coefficients", floats_of(coefficients))
        .set("intercepts", Floats{0.5F, -1})
        .set("targets", std::int64_t{2})
        .set("post_transform", std::string(transform))
        .result();
  };
  check(call("NONE"), scores);
  check(call("SOFTMAX"), softmax(scores));
  check(call("LOGISTIC"), map(scores, sigmoid));
}

OPERATOR_TEST("ai.onnx.ml", "LinearClassifier", "the class of the best score") {
  Draw draw;
  const Array x = draw.numbers({6, 4});
  const Array coefficients = draw.numbers({3, 4});
  const Array scores = sum(matmul(x, transposed(coefficients)), list({0.5, -1, 0}));
  const auto outputs = Call(ml, "LinearClassifier", 1)
                           .in(x)
                           .set("coefficients", floats_of(coefficients))
                           .set("intercepts", Floats{0.5F, -1, 0})
                           .set("classlabels_ints", Ints{7, 3, 5})
                           .set("post_transform", std::string("SOFTMAX"))
                           .run(2);
  const std::vector<double> labels{7, 3, 5};
  check(outputs[0], map(largest(scores),
                        [&](double place) { return labels[static_cast<std::size_t>(place)]; }));
  check(outputs[1], softmax(scores));
}

OPERATOR_TEST("ai.onnx.ml", "LinearClassifier", "one score decides between two classes") {
  Draw draw;
  const Array x = draw.numbers({6, 4});
  const Array coefficients = draw.numbers({1, 4});
  const Array scores = sum(matmul(x, transposed(coefficients)), list({0.25}));
  const auto outputs = Call(ml, "LinearClassifier", 1)
                           .in(x)
                           .set("coefficients", floats_of(coefficients))
                           .set("intercepts", Floats{0.25F})
                           .set("classlabels_ints", Ints{4, 9})
                           .set("post_transform", std::string("LOGISTIC"))
                           .run(2);
  Array labels({6});
  Array both({6, 2});
  for (std::int64_t i = 0; i < 6; ++i) {
    labels(i) = scores(i, 0) > 0 ? 9 : 4;
    both(i, 1) = sigmoid(scores(i, 0));
    both(i, 0) = 1 - both(i, 1);
  }
  check(outputs[0], labels);
  check(outputs[1], both);
}

namespace {

/// The kernels that support vector machines have, with their parameters gamma, coef0 and degree.
struct Kernel {
  const char* name;
  double (*f)(double product, double distance);
};
const Floats kernel_params{0.5F, 0.25F, 2};
const std::vector<Kernel> kernels{
    {"LINEAR", [](double product, double) { return product; }},
    {"POLY", [](double product, double) { return std::pow(0.5 * product + 0.25, 2); }},
    {"RBF", [](double, double distance) { return std::exp(-0.5 * distance); }},
    {"SIGMOID", [](double product, double) { return std::tanh(0.5 * product + 0.25); }},
};

/// [rows, vectors].
Array kernel_values(const Kernel& kernel, const Array& x, const Array& vectors) {
  Array result({x.extent(0), vectors.extent(0)});
  for (std::int64_t i = 0; i < x.extent(0); ++i)
    for (std::int64_t v = 0; v < vectors.extent(0); ++v) {
      double inner = 0;
      double distance = 0;
      for (std::int64_t f = 0; f < x.extent(1); ++f) {
        inner += x(i, f) * vectors(v, f);
        distance += std::pow(x(i, f) - vectors(v, f), 2);
      }
      result(i, v) = kernel.f(inner, distance);
    }
  return result;
}

}  // namespace

OPERATOR_TEST("ai.onnx.ml", "SVMRegressor", "weighted kernels of the support vectors and rho") {
  Draw draw;
  const Array x = draw.numbers({4, 3});
  const Array vectors = draw.numbers({5, 3});
  const Array weights = draw.numbers({5, 1});
  for (const Kernel& kernel : kernels) {
    CAPTURE(kernel.name);
    const auto call = [&](std::int64_t one_class) {
      return Call(ml, "SVMRegressor", 1)
          .in(x)
          .set("coefficients", floats_of(weights))
          .set("support_vectors", floats_of(vectors))
          .set("kernel_type", std::string(kernel.name))
          .set("kernel_params", kernel_params)
          .set("n_supports", std::int64_t{5})
          .set("rho", Floats{0.5F})
          .set("one_class", one_class)
          .result();
    };
    const Array scores = sum(matmul(kernel_values(kernel, x, vectors), weights), list({0.5}));
    check(call(0), scores);
    check(call(1), map(scores, [](double score) { return score > 0 ? 1.0 : -1.0; }));
  }
}

OPERATOR_TEST("ai.onnx.ml", "SVMClassifier", "each two classes vote by their support vectors") {
  Draw draw;
  const Array x = draw.numbers({6, 3});
  const Array vectors = draw.numbers({6, 3});
  const Array weights = draw.numbers({2, 6});  // [classes - 1, vectors]
  const Ints counts{2, 1, 3};
  const Floats rho{0.25F, -0.5F, 0.125F};
  for (const Kernel& kernel : kernels) {
    CAPTURE(kernel.name);
    const Array values = kernel_values(kernel, x, vectors);
    const Ints begins{0, 2, 3, 6};
    Array scores({6, 3});
    Array votes({6, 3});
    for (std::int64_t row = 0; row < 6; ++row) {
      std::int64_t pair = 0;
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t j = i + 1; j < 3; ++j, ++pair) {
          scores(row, pair) = rho[static_cast<std::size_t>(pair)];
          for (std::int64_t v = 0; v < 6; ++v) {
            const auto is_of = [&](std::int64_t c) {
              return v >= begins[static_cast<std::size_t>(c)] &&
                     v < begins[static_cast<std::size_t>(c) + 1];
            };
            if (is_of(i)) scores(row, pair) += weights(j - 1, v) * values(row, v);
            if (is_of(j)) scores(row, pair) += weights(i, v) * values(row, v);
          }
          votes(row, scores(row, pair) > 0 ? i : j) += 1;
        }
    }
    const auto outputs = Call(ml, "SVMClassifier", 1)
                             .in(x)
                             .set("classlabels_ints", Ints{7, 3, 5})
                             .set("coefficients", floats_of(weights))
                             .set("support_vectors", floats_of(vectors))
                             .set("vectors_per_class", counts)
                             .set("kernel_type", std::string(kernel.name))
                             .set("kernel_params", kernel_params)
                             .set("rho", rho)
                             .run(2);
    const std::vector<double> labels{7, 3, 5};
    check(outputs[0], map(largest(votes),
                          [&](double place) { return labels[static_cast<std::size_t>(place)]; }));
    check(outputs[1], scores);
  }
}

namespace {

/// Two trees of two features, one vote a leaf:
///   the first: x0 <= 0.5 ? (x1 <= -0.5 ? a : b) : c,  the second: x1 <= 0.25 ? d : e
struct Trees {
  std::vector<double> weights{1, 2.5, -0.75, 0.5, 4};  ///< of a to e
  std::vector<std::int64_t> targets{0, 1, 0, 1, 0};

  /// The leaves that a row comes to.
  static std::vector<std::size_t> leaves(double x0, double x1) {
    return {x0 <= 0.5 ? (x1 <= -0.5 ? 0U : 1U) : 2U, x1 <= 0.25 ? 3U : 4U};
  }

  /// [rows, 2]: the sum of the weights.
  Array sums(const Array& x) const {
    Array result({x.extent(0), 2});
    for (std::int64_t i = 0; i < x.extent(0); ++i)
      for (const std::size_t leaf : leaves(x(i, 0), x(i, 1)))
        result(i, targets[leaf]) += weights[leaf];
    return result;
  }

  Floats float_weights() const { return {weights.begin(), weights.end()}; }

  /// Attributes of the nodes, and of the votes of leaves, which begin with `votes`.
  void list(Call& call, const std::string& votes) const {
    const auto leaf = std::string("LEAF");
    const auto branch = std::string("BRANCH_LEQ");
    call.set("nodes_treeids", Ints{0, 0, 0, 0, 0, 1, 1, 1});
    call.set("nodes_nodeids", Ints{0, 1, 2, 3, 4, 0, 1, 2});
    call.set("nodes_featureids", Ints{0, 1, 0, 0, 0, 1, 0, 0});
    call.set("nodes_modes",
             std::vector<std::string>{branch, branch, leaf, leaf, leaf, branch, leaf, leaf});
    call.set("nodes_values", Floats{0.5F, -0.5F, 0, 0, 0, 0.25F, 0, 0});
    call.set("nodes_truenodeids", Ints{1, 3, 0, 0, 0, 1, 0, 0});
    call.set("nodes_falsenodeids", Ints{2, 4, 0, 0, 0, 2, 0, 0});
    call.set(votes + "_treeids", Ints{0, 0, 0, 1, 1});
    call.set(votes + "_nodeids", Ints{3, 4, 2, 1, 2});
    call.set(votes + "_ids", targets);
    call.set(votes + "_weights", float_weights());
  }
};

Tensor byte_tensor(const Ints& values) {
  Array array({std::ssize(values)});
  std::ranges::copy(values, array.values.begin());
  return tensor_of(array, DataType::uint8);
}

}  // namespace

OPERATOR_TEST("ai.onnx.ml", "TreeEnsembleRegressor", "the sum, mean, least or most of the leaves") {
  const Trees trees;
  const Array x = Draw().numbers({12, 2});
  const auto call = [&](const char* aggregate) {
    Call made(ml, "TreeEnsembleRegressor", 3);
    trees.list(made.in(x), "target");
    return made.set("n_targets", std::int64_t{2})
        .set("aggregate_function", std::string(aggregate))
        .set("base_values", Floats{10, 20})
        .result();
  };
  const Array bases = list({10, 20});
  check(call("SUM"), sum(trees.sums(x), bases));
  check(call("AVERAGE"), sum(map(trees.sums(x), [](double value) { return value / 2; }), bases));
  for (const bool is_most : {false, true}) {
    Array expected({12, 2});
    for (std::int64_t i = 0; i < 12; ++i)
      for (std::int64_t target = 0; target < 2; ++target) {
        std::vector<double> votes;
        for (const std::size_t leaf : Trees::leaves(x(i, 0), x(i, 1)))
          if (trees.targets[leaf] == target) votes.push_back(trees.weights[leaf]);
        if (!votes.empty())
          expected(i, target) = is_most ? std::ranges::max(votes) : std::ranges::min(votes);
      }
    check(call(is_most ? "MAX" : "MIN"), sum(expected, bases));
  }
}

OPERATOR_TEST("ai.onnx.ml", "TreeEnsembleClassifier", "the class with the most votes") {
  Trees trees;
  trees.weights = {0.25, 0.5, 0.75, 0.375, 1};
  trees.targets = {0, 1, 2, 1, 0};
  const Array x = Draw().numbers({12, 2});
  Array scores({12, 3});
  for (std::int64_t i = 0; i < 12; ++i)
    for (const std::size_t leaf : Trees::leaves(x(i, 0), x(i, 1)))
      scores(i, trees.targets[leaf]) += trees.weights[leaf];
  Call call(ml, "TreeEnsembleClassifier", 3);
  trees.list(call.in(x), "class");
  const auto outputs = call.set("classlabels_int64s", Ints{7, 3, 5})
                           .set("post_transform", std::string("SOFTMAX"))
                           .run(2);
  const std::vector<double> labels{7, 3, 5};
  check(outputs[0], map(largest(scores),
                        [&](double place) { return labels[static_cast<std::size_t>(place)]; }));
  check(outputs[1], softmax(scores));
}

OPERATOR_TEST("ai.onnx.ml", "TreeEnsemble", "the sum of the leaves") {
  const Trees trees;
  const Array x = Draw().numbers({12, 2});
  check(Call(ml, "TreeEnsemble", 5)
            .in(x)
            .set("n_targets", std::int64_t{2})
            .set("tree_roots", Ints{0, 2})
            .set("nodes_featureids", Ints{0, 1, 1})
            .set("nodes_modes", byte_tensor({0, 0, 0}))
            .set("nodes_splits", tensor_of(list({0.5, -0.5, 0.25})))
            .set("nodes_truenodeids", Ints{1, 0, 3})
            .set("nodes_trueleafs", Ints{0, 1, 1})
            .set("nodes_falsenodeids", Ints{2, 1, 4})
            .set("nodes_falseleafs", Ints{1, 1, 1})
            .set("leaf_targetids", trees.targets)
            .set("leaf_weights", tensor_of(list(trees.weights)))
            .result(),
        trees.sums(x));
}

OPERATOR_TEST("autopar.ops", "TreeSums", "the leaves' votes, a table of nodes each tree") {
  const Trees trees;
  const Array x = Draw().numbers({12, 2});
  // Rows of two trees with five nodes; 0 is less or equal, 6 a leaf.
  const Array features({2, 5}, std::vector<double>{0, 1, 0, 0, 0, 1, 0, 0, 0, 0});
  const Array splits({2, 5}, std::vector<double>{0.5, -0.5, 0, 0, 0, 0.25, 0, 0, 0, 0});
  const Array modes({2, 5}, std::vector<double>{0, 0, 6, 6, 6, 0, 6, 6, 6, 6});
  // For a leaf: its first vote and how many it has.
  const Array branches({2, 5, 2}, std::vector<double>{1, 2, 3, 4, 2, 1, 0, 1, 1, 1,  //
                                                      1, 2, 0, 1, 1, 1, 0, 0, 0, 0});
  const Array targets({2, 3}, std::vector<double>{0, 1, 0, 1, 0, 0});
  const Array weights({2, 3}, std::vector<double>{1, 2.5, -0.75, 0.5, 4, 0});
  check(Call("autopar.ops", "TreeSums")
            .in(x)
            .in(features, DataType::int32)
            .in(splits)
            .in(modes, DataType::uint8)
            .in(branches, DataType::int32)
            .in(targets, DataType::int32)
            .in(weights)
            .set("n_targets", std::int64_t{2})
            .set("aggregate", std::string("SUM"))
            .result(),
        trees.sums(x));
}

OPERATOR_TEST("", "TfIdfVectorizer", "how often each n-gram comes in each row") {
  // 1-grams 5 and 8; 2-grams (5, 8), (8, 8).
  const Array x({2, 6}, std::vector<double>{5, 8, 8, 1, 5, 8, 8, 5, 2, 8, 3, 8});
  const Floats weights{2, 0.5F, 3, 4};
  const auto call_of = [&](const Array& given, const char* mode, std::int64_t skips) {
    return Call("", "TfIdfVectorizer")
        .in(given, DataType::int64)
        .set("mode", std::string(mode))
        .set("pool_int64s", Ints{5, 8, 5, 8, 8, 8})
        .set("ngram_counts", Ints{0, 2})
        .set("ngram_indexes", Ints{1, 0, 3, 2})
        .set("min_gram_length", std::int64_t{1})
        .set("max_gram_length", std::int64_t{2})
        .set("max_skip_count", skips)
        .set("weights", weights)
        .result();
  };
  const auto call = [&](const char* mode, std::int64_t skips) { return call_of(x, mode, skips); };
  // Columns: 8, 5, (8, 8), (5, 8).
  const Array counts({2, 4}, std::vector<double>{3, 2, 1, 2, 3, 1, 0, 0});
  const Array by_column = list({0.5, 2, 4, 3});
  check(call("TF", 0), counts);
  check(call("IDF", 0),
        product(map(counts, [](double count) { return count > 0 ? 1.0 : 0.0; }), by_column));
  check(call("TFIDF", 0), product(counts, by_column));
  // With one item between: row 0 gains (5, 8) at 0 and 2; row 1 gains (5, 8) at 1 and 3, (8, 8) at
  // 3 and 5.
  check(call("TF", 1), Array({2, 4}, std::vector<double>{3, 2, 1, 3, 3, 1, 1, 1}));
  check(call_of(Array(Shape{0}), "TF", 0), list({0, 0, 0, 0}));
}
