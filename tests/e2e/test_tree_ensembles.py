"""Models of scikit-learn as skl2onnx exports them, made here and now: their labels and scores are
those of ONNX Runtime, whole and split. Strings and maps are refused, and the message says what to do."""

import unittest
import warnings
from unittest import mock

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from sklearn import base, ensemble, linear_model, neural_network, svm, tree
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer, MaxAbsScaler, MinMaxScaler, Normalizer, OneHotEncoder, OrdinalEncoder, RobustScaler,
    StandardScaler,
)  # fmt: skip
from skl2onnx import to_onnx

from support import TemporaryFolderTest, autopar, relative_error

ROWS, COLUMNS = 37, 8
random = np.random.default_rng(18)
X = random.standard_normal((300, COLUMNS)).astype(np.float32)
CODES = random.integers(0, 4, (300, COLUMNS))
TWO = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(np.int64)
THREE = np.digitize(X[:, 0] + 0.5 * X[:, 2], [-0.5, 0.5]).astype(np.int64) + 3
NUMBER = X @ random.standard_normal(COLUMNS) + X[:, 0] ** 2
NUMBERS = np.stack([NUMBER, X[:, 1] - NUMBER], 1)

CLASSIFIERS = {
    "random_forest": ensemble.RandomForestClassifier(7, max_depth=5, random_state=0),
    "extra_trees": ensemble.ExtraTreesClassifier(7, max_depth=5, random_state=0),
    "gradient_boosting": ensemble.GradientBoostingClassifier(n_estimators=8, random_state=0),
    "histograms": ensemble.HistGradientBoostingClassifier(max_iter=8, random_state=0),
    "tree": tree.DecisionTreeClassifier(max_depth=4, random_state=0),
    "bagging": ensemble.BaggingClassifier(n_estimators=3, random_state=0),
    "boosting": ensemble.AdaBoostClassifier(n_estimators=3, random_state=0),
    "stacking": ensemble.StackingClassifier([
        ("line", linear_model.LogisticRegression()),
        ("forest", ensemble.RandomForestClassifier(3, random_state=0)),
    ]),
    "logistic": linear_model.LogisticRegression(),
    "machine": svm.SVC(),
    "layers": neural_network.MLPClassifier((5,), max_iter=30, random_state=0),
}  # fmt: skip
REGRESSORS = {
    "random_forest": ensemble.RandomForestRegressor(7, max_depth=5, random_state=0),
    "gradient_boosting": ensemble.GradientBoostingRegressor(n_estimators=8, random_state=0),
    "histograms": ensemble.HistGradientBoostingRegressor(max_iter=8, random_state=0),
    "tree": tree.DecisionTreeRegressor(max_depth=4, random_state=0),
    "line": linear_model.LinearRegression(),
    "machine": svm.SVR(),
    "neighbours": svm.NuSVR(kernel="poly"),
    "one_class": svm.OneClassSVM(),
}
PREPARATIONS = {
    "scaled": StandardScaler(),
    "robust": RobustScaler(),
    "largest": MaxAbsScaler(),
    "range": MinMaxScaler(),
    "length": Normalizer(),
    "sum": Normalizer("l1"),
    "maximum": Normalizer("max"),
    "imputed": SimpleImputer(),
    "binary": Binarizer(),
}


def plain_numbers(name, value, *rest, make=helper.make_attribute, **more):
    """ONNX's helper no longer takes truths for integers, which skl2onnx writes."""
    if isinstance(value, list):
        value = [int(x) if isinstance(x, (bool, np.bool_)) else x for x in value]
    return make(name, value, *rest, **more)


def exported(model, inputs, **options):
    with mock.patch.object(helper, "make_attribute", plain_numbers), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_onnx(model, inputs[:1], options=options or None)


def fitted(model, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return base.clone(model).fit(x, y)


class ScikitLearnTest(TemporaryFolderTest):
    def check(self, model, inputs, tolerance=1e-5):
        """Integers are equal; inputs are rows of one tensor."""
        file = self.tmp / "model.onnx"
        onnx.save(model, file)
        rows = inputs[:ROWS]
        session = onnxruntime.InferenceSession(str(file))
        name = session.get_inputs()[0].name
        answers = session.run(None, {name: rows})
        np.save(self.tmp / "x.npy", rows)
        shape = ["--shape", f"{name}={'x'.join(map(str, rows.shape))}"]
        for ranks in (1, 2, 3):
            bundle, out = self.tmp / f"bundle{ranks}", self.tmp / f"out{ranks}"
            autopar("partition", file, *shape, "--ngpus", ranks, "--out", bundle, "--force")
            autopar("run", "--dir", bundle, "--input", f"{name}={self.tmp}/x.npy",
                    "--output-dir", out)  # fmt: skip
            for output, expected in zip(session.get_outputs(), answers, strict=True):
                actual = np.load(out / f"{output.name}.npy")
                self.assertEqual(actual.dtype, expected.dtype)
                if np.issubdtype(expected.dtype, np.integer):
                    np.testing.assert_array_equal(actual, expected)
                else:
                    self.assertLessEqual(relative_error(expected, actual), tolerance)

    def test_classifiers(self):
        for name, model in CLASSIFIERS.items():
            for classes, y in (("two", TWO), ("three", THREE)):
                # ONNX Runtime loads no other exports with doubles.
                for kind in (np.float32, *([np.float64] if name == "random_forest" else [])):
                    with self.subTest(name, classes=classes, kind=kind):
                        x = X.astype(kind)
                        self.check(exported(fitted(model, x, y), x, zipmap=False), x)

    def test_regressors(self):
        for name, model in REGRESSORS.items():
            with self.subTest(name):
                self.check(exported(fitted(model, X, NUMBER), X), X)
        several = fitted(REGRESSORS["random_forest"], X, NUMBERS)
        self.check(exported(several, X), X)

    def test_pipelines(self):
        forest = CLASSIFIERS["random_forest"]
        for name, preparation in PREPARATIONS.items():
            with self.subTest(name):
                x = X.copy()
                if name == "imputed":
                    x[random.random(x.shape) < 0.1] = np.nan
                model = fitted(make_pipeline(preparation, forest), x, THREE)
                self.check(exported(model, x, zipmap=False), x)
        for name, encoder in {
            "columns": OneHotEncoder(sparse_output=False),
            "numbers": OrdinalEncoder(),
        }.items():
            with self.subTest(name):
                model = fitted(make_pipeline(encoder, forest), CODES, THREE)
                self.check(exported(model, CODES, zipmap=False), CODES)

    def test_missing_values(self):
        x = X.copy()
        x[random.random(x.shape) < 0.1] = np.nan
        model = fitted(CLASSIFIERS["histograms"], x, THREE)
        self.check(exported(model, x, zipmap=False), x)

    def test_trees_are_split(self):
        """A forest over four ranks: each has a share of the trees."""
        forest = ensemble.RandomForestClassifier(40, max_depth=8, random_state=0).fit(X, THREE)
        onnx.save(exported(forest, X, zipmap=False), self.tmp / "forest.onnx")
        bundle = self.tmp / "bundle"
        autopar("partition", self.tmp / "forest.onnx", "--shape", f"X=1x{COLUMNS}", "--ngpus", 4,
                "--out", bundle)  # fmt: skip
        trees = 0
        for rank in range(4):
            shard = onnx.load(bundle / f"rank{rank}.onnx", load_external_data=False)
            (node,) = [n for n in shard.graph.node if n.op_type == "TreeSums"]
            shapes = {tensor.name: list(tensor.dims) for tensor in shard.graph.initializer}
            trees += shapes[node.input[1]][0]
        self.assertEqual(trees, 40)


class RefusedTest(TemporaryFolderTest):
    def refused(self, model, *fragments, shape=None):
        onnx.save(model, self.tmp / "model.onnx")
        shape = ["--shape", shape or f"X={ROWS}x{COLUMNS}"]
        done = autopar("plan", self.tmp / "model.onnx", *shape, "--ngpus", 2, expect=1)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for fragment in fragments:
            self.assertIn(fragment, done.stderr)

    def test_labels_that_are_strings(self):
        labels = np.array(["no", "yes"])[TWO]
        forest = fitted(CLASSIFIERS["random_forest"], X, labels)
        self.refused(exported(forest, X, zipmap=False), "strings", "'nocl': True")

    def test_maps(self):
        forest = fitted(CLASSIFIERS["random_forest"], X, TWO)
        self.refused(exported(forest, X), "ZipMap", "map", "options={'zipmap': False}")

    def test_inputs_that_are_strings(self):
        x = np.array(["a", "b", "c"])[CODES[:, :2] % 3]
        encoder = fitted(OneHotEncoder(sparse_output=False), x, TWO)
        self.refused(exported(encoder, x), "input 'X' holds strings", "encode", shape="X=4x2")

    def test_two_classes_without_a_second_score(self):
        """ONNX Runtime leaves the second score of such rows unwritten."""
        tree = {
            "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3,
            "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0] * 3,
            "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
            "class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [0, 1],
            "class_weights": [1.0, 1.0], "classlabels_int64s": [0, 1],
        }  # fmt: skip
        for attribute, fragment in (
            ({"base_values": [0.5]}, "one base value"),
            ({"post_transform": "PROBIT"}, "PROBIT of one score"),
        ):
            node = helper.make_node(
                "TreeEnsembleClassifier", ["X"], ["Y", "Z"], "the_node", domain="ai.onnx.ml",
                **tree, **attribute,
            )  # fmt: skip
            value = helper.make_tensor_value_info
            outputs = [value("Y", TensorProto.INT64, [4]), value("Z", TensorProto.FLOAT, [4, 2])]
            graph = helper.make_graph([node], "g", [value("X", TensorProto.FLOAT, [4, 1])], outputs)
            opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
            model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
            with self.subTest(fragment):
                self.refused(model, "the_node", fragment, "no second score", shape="X=4x1")

    def test_operators_for_one_kind_of_cpu(self):
        node = helper.make_node("Conv", ["X", "w"], ["y"], domain="com.microsoft.nchwc")
        value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 3, 3])
        graph = helper.make_graph([node], "g", [value("X"), value("w")], [value("y")])
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft.nchwc", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        self.refused(model, "com.microsoft.nchwc", "'extended'", shape="X=1x8x3x3")


if __name__ == "__main__":
    unittest.main()
