"""Draws of decision trees, linear models, support vector machines and what scikit-learn's exporter
puts before them, of ai.onnx.ml."""

from dataclasses import replace

import numpy as np
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops.aionnxml._common_classifier import probit

from drawn_cases import ML, TOLERANCES, Case, answers_of_onnx_runtime, make_model, tensor_info

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
MEMBER = 6


def features(draw, rows, columns, kind=np.float32):
    """Halves, so that comparisons meet their thresholds, some of them missing."""
    x = draw.integers(-3, 4, rows, columns).astype(np.float64) / 2
    if np.issubdtype(kind, np.floating):
        x[draw.random.random(x.shape) < 0.1] = np.nan
    return x.astype(kind)


def onnx_runtime(draw, operator, case, **attributes):
    """ONNX Runtime's answers to the case with some attributes changed."""
    asked = replace(case, attributes=case.attributes | attributes)
    return answers_of_onnx_runtime(*make_model(ML, operator, asked, draw))


def reference(draw, operator, case):
    """The answer of ONNX's reference implementation."""
    attributes = case.attributes
    if nodes := len(attributes.get("nodes_featureids", [])):  # the default, without which it fails
        attributes = {"nodes_missing_value_tracks_true": [0] * nodes} | attributes
    model, feeds = make_model(ML, operator, replace(case, attributes=attributes), draw)
    (output,) = case.outputs
    model.graph.output[0].CopyFrom(tensor_info(output, feeds["X"]))  # it wants one, and any will do
    (answer,) = ReferenceEvaluator(model).run(None, feeds)
    return {output: answer}


def with_exact_probits(draw, operator, case, output, none="NONE"):
    """Near one half ONNX Runtime's PROBIT cancels out (0 for 0.4999): there ONNX's reference
    implementation, in float64, is what is expected."""
    scores = onnx_runtime(draw, operator, case, post_transform=none)[output]
    expected = onnx_runtime(draw, operator, case)
    near = np.abs(scores - 0.5) < 0.05
    exact = probit(np.where(near, scores, 0.5).astype(np.float64))
    made = np.where(near, exact, expected[output]).astype(expected[output].dtype)
    return replace(case, expected=expected | {output: made})


class Branch:
    def __init__(self, draw, depth, columns):
        self.feature = draw.integer(0, columns - 1)
        self.split = draw.integer(-3, 3) / 2
        self.mode = draw.choice(*MODES)
        self.missing = draw.integer(0, 1)
        self.children = [grown(draw, depth - 1, columns) for _ in range(2)]


class Leaf:
    children = ()


def grown(draw, depth, columns):
    return Leaf() if depth == 0 or draw.chance(0.2) else Branch(draw, depth, columns)


def preorder(node):
    yield node
    for child in node.children:
        yield from preorder(child)


def listed_trees(trees, has_missing, kind):
    """The attributes `nodes_*` of TreeEnsembleClassifier and TreeEnsembleRegressor."""
    names = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids",
             "missing_value_tracks_true")  # fmt: skip
    lists = {name: [] for name in names}
    modes, splits = [], []
    for t, tree in enumerate(trees):
        places = {id(node): n for n, node in enumerate(preorder(tree))}
        for n, node in enumerate(preorder(tree)):
            is_leaf = not node.children
            children = [0, 0] if is_leaf else [places[id(child)] for child in node.children]
            row = (t, n, 0 if is_leaf else node.feature, *children, 0 if is_leaf else node.missing)
            for name, value in zip(names, row, strict=True):
                lists[name].append(value)
            modes.append("LEAF" if is_leaf else node.mode)
            splits.append(0.0 if is_leaf else node.split)
    attributes = {f"nodes_{name}": values for name, values in lists.items()}
    if not has_missing:
        del attributes["nodes_missing_value_tracks_true"]
    attributes["nodes_modes"] = modes
    return attributes | numbers("nodes_values", splits, kind)


def numbers(name, values, kind):
    """Floats as a list; doubles need a tensor."""
    if kind == np.float64:
        return {f"{name}_as_tensor": numpy_helper.from_array(np.array(values, kind))}
    return {name: [float(np.float32(value)) for value in values]}


def leaf_votes(trees, prefix, targets_of, weight, kind):
    """`targets_of(leaf)` has what a leaf votes for."""
    lists = {name: [] for name in ("treeids", "nodeids", "ids")}
    weights = []
    for t, tree in enumerate(trees):
        for n, node in enumerate(preorder(tree)):
            for target in () if node.children else targets_of():
                for name, value in zip(lists, (t, n, target), strict=True):
                    lists[name].append(value)
                weights.append(weight())
    attributes = {f"{prefix}_{name}": values for name, values in lists.items()}
    return attributes | numbers(f"{prefix}_weights", weights, kind)


def weights_of(draw, transform, votes):
    """Sums stay between 0 and 1, or close to one half, where the transform wants probabilities."""
    if transform == "PROBIT" or draw.chance(0.3):
        low, high = draw.choice((0, 1), (0.49, 0.51))
        return lambda: float(draw.random.uniform(low, high)) / votes
    return lambda: float(draw.random.standard_normal())


def forest(draw, columns):
    return [grown(draw, draw.integer(0, 4), columns) for _ in range(draw.integer(1, 6))]


def tree_ensemble_regressor(draw):
    rows, columns = draw.integer(1, 12), draw.integer(1, 5)
    kind = draw.choice(np.float32, np.float64)
    targets, trees = draw.integer(1, 4), forest(draw, columns)
    transform = draw.choice(*TRANSFORMS)
    aggregate = draw.choice("SUM", "AVERAGE", "MIN", "MAX")
    x = features(draw, rows, columns, kind)
    some = lambda: range(targets) if draw.chance(0.7) else [draw.integer(0, targets - 1)]
    has_bases, all_vote = draw.chance(), draw.chance()
    if has_bases and not all_vote:
        # To a target without votes ONNX Runtime adds no base value, which the standard and its
        # reference implementation do. That has no transforms, nor doubles, and sends missing values
        # on by another branch of BRANCH_NEQ; the least of no votes is the largest number.
        transform, aggregate = "NONE", draw.choice("SUM", "AVERAGE")
        kind, x = np.float32, np.nan_to_num(x.astype(np.float32))
    attributes = listed_trees(trees, draw.chance(0.7), kind)
    targets_of = (lambda: range(targets)) if all_vote else some
    weight = weights_of(draw, transform, len(trees))
    attributes |= leaf_votes(trees, "target", targets_of, weight, kind)
    attributes |= {
        "n_targets": targets, "post_transform": transform, "aggregate_function": aggregate,
    }  # fmt: skip
    if has_bases:
        bases = draw.positive(targets) if transform == "PROBIT" else draw.floats(targets)
        attributes |= numbers("base_values", bases, kind)
    case = Case({"X": x}, ["Y"], attributes)
    if has_bases and not all_vote:
        return replace(case, expected=reference(draw, "TreeEnsembleRegressor", case))
    if transform == "PROBIT":
        return with_exact_probits(draw, "TreeEnsembleRegressor", case, "Y")
    return case


def votes_of_two_classes(draw, transform):
    """What leaves vote for, and how many base values there are, where ONNX Runtime's answer is
    defined: it does not write both scores of a row without votes for the second class where they
    are a PROBIT or, with one base value, where other leaves have such votes."""
    own = draw.choice([0], [1], [0, 1], None)
    bases = draw.integer(0, 2)
    if transform == "PROBIT" and bases < 2 or own is None and bases == 1:
        own = draw.choice([1], [0, 1])
    return (lambda: own or [[0], [1], [0, 1]][draw.integer(0, 2)]), bases


def tree_ensemble_classifier(draw):
    rows, columns = draw.integer(1, 12), draw.integer(1, 5)
    kind = draw.choice(np.float32, np.float32, np.float64, np.int64, np.int32)
    table = np.float64 if kind == np.float64 else np.float32
    classes, trees = draw.choice(2, 2, 3, 5), forest(draw, columns)
    transform = draw.choice(*TRANSFORMS)
    some = lambda: range(classes) if draw.chance(0.7) else [draw.integer(0, classes - 1)]
    targets_of, bases = some, draw.choice(0, classes)
    if classes == 2:
        targets_of, bases = votes_of_two_classes(draw, transform)
    attributes = listed_trees(trees, draw.chance(0.7), table)
    weight = weights_of(draw, transform, len(trees))
    attributes |= leaf_votes(trees, "class", targets_of, weight, table)
    labels = draw.random.permutation(20)[:classes].tolist()
    attributes |= {"classlabels_int64s": labels, "post_transform": transform}
    if bases:
        values = draw.positive(bases) if transform == "PROBIT" else draw.floats(bases)
        attributes |= numbers("base_values", values, table)
    case = Case({"X": features(draw, rows, columns, kind)}, ["Y", "Z"], attributes)
    if transform == "PROBIT":
        return with_exact_probits(draw, "TreeEnsembleClassifier", case, "Z")
    return case


def members(draw, modes):
    """The values of the tests for membership that become some of the nodes' modes, and whether ONNX
    Runtime tests them as they are: where a set has others than small whole numbers, it cuts x, and
    refuses fractions."""
    is_small = draw.chance(0.7)
    one = lambda: draw.integer(0, 3) if is_small else draw.choice(-2, -1, -0.5, 0.5, 1, 1.5)
    values = []
    for n in range(len(modes)):
        if draw.chance(0.2):
            modes[n] = MEMBER
            values += [*(one() for _ in range(draw.integer(1, 3))), np.nan]
    return values, is_small


def tree_ensemble(draw):
    """The newer form: nodes and leaves by their places in lists, and tests for membership."""
    rows, columns = draw.integer(1, 12), draw.integer(1, 5)
    kind = draw.choice(np.float32, np.float64)
    targets = draw.integer(1, 4)
    trees = [Branch(draw, draw.integer(1, 4), columns) for _ in range(draw.integer(1, 6))]
    nodes = [node for tree in trees for node in preorder(tree) if node.children]
    leaves = [node for tree in trees for node in preorder(tree) if not node.children]
    node_places = {id(node): n for n, node in enumerate(nodes)}
    leaf_places = {id(node): n for n, node in enumerate(leaves)}
    modes = [MODES.index(node.mode) for node in nodes]
    values, is_small = members(draw, modes)
    is_of_reference = bool(values) and not is_small  # which has no transforms
    place = lambda node: (leaf_places if not node.children else node_places)[id(node)]
    transform = 0 if is_of_reference else draw.integer(0, 4)
    weight = weights_of(draw, ("NONE", "", "", "", "PROBIT")[transform], len(trees))
    tensor = lambda values, dtype: numpy_helper.from_array(np.array(values, dtype))
    attributes = {
        "nodes_featureids": [node.feature for node in nodes],
        "nodes_splits": tensor([node.split for node in nodes], kind),
        "nodes_modes": tensor(modes, np.uint8),
        "tree_roots": [node_places[id(tree)] for tree in trees],
        "leaf_targetids": [draw.integer(0, targets - 1) for _ in leaves],
        "leaf_weights": tensor([weight() for _ in leaves], kind),
        "n_targets": targets,
        "aggregate_function": draw.integer(0, 1 if is_of_reference else 3),
        "post_transform": transform,
    }
    for name, child in (("true", 0), ("false", 1)):
        attributes[f"nodes_{name}nodeids"] = [place(node.children[child]) for node in nodes]
        attributes[f"nodes_{name}leafs"] = [int(not node.children[child].children) for node in nodes]
    if values:
        attributes["membership_values"] = tensor(values, kind)
    if draw.chance(0.7):
        attributes["nodes_missing_value_tracks_true"] = [node.missing for node in nodes]
    case = Case(
        {"X": features(draw, rows, columns, kind)},
        ["Y"],
        attributes,
        ml_opset=5,
        tolerance=TOLERANCES[np.dtype(np.float32)] if transform else None,  # which is of floats
    )
    if is_of_reference:
        return replace(case, expected=reference(draw, "TreeEnsemble", case))
    if transform in (1, 2):
        # SOFTMAX and LOGISTIC of the standard, which ONNX Runtime takes for one another.
        expected = onnx_runtime(draw, "TreeEnsemble", case, post_transform=3 - transform)
        return replace(case, expected=expected)
    if transform == 4:
        return with_exact_probits(draw, "TreeEnsemble", case, "Y", none=0)
    return case


def numeric(draw, rows, columns, *kinds):
    kind = draw.choice(*kinds)
    if np.issubdtype(kind, np.integer):
        return draw.integers(-5, 5, rows, columns, kind=kind)
    return draw.floats(rows, columns, kind=kind)


ANY = (np.float32, np.float32, np.float64, np.int64, np.int32)


def linear_regressor(draw):
    rows, columns, targets = draw.integer(1, 9), draw.integer(1, 6), draw.integer(1, 4)
    transform = draw.choice("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
    attributes = {
        "coefficients": draw.floats(targets * columns).tolist(),
        "targets": targets,
        "post_transform": transform,
    }
    if draw.chance():
        attributes["intercepts"] = draw.floats(targets).tolist()
    return Case({"X": draw.floats(rows, columns)}, ["Y"], attributes)


def linear_classifier(draw):
    rows, columns, scores = draw.integer(1, 9), draw.integer(1, 6), draw.integer(1, 4)
    attributes = {
        "coefficients": draw.floats(scores * columns).tolist(),
        "intercepts": draw.floats(scores).tolist(),
        "classlabels_ints": draw.random.permutation(20)[: max(2, scores)].tolist(),
        "post_transform": draw.choice("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"),
    }
    return Case({"X": numeric(draw, rows, columns, *ANY)}, ["Y", "Z"], attributes)


LINEAR = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 3.0]}


def machine(draw, columns, vectors):
    kernel = draw.choice("LINEAR", "POLY", "RBF", "SIGMOID")
    return {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.5, float(draw.integer(1, 3))],
        "support_vectors": draw.floats(vectors * columns).tolist(),
    }


def svm_regressor(draw):
    rows, columns = draw.integer(1, 9), draw.integer(1, 6)
    vectors = draw.integer(1, 7) if draw.chance(0.8) else 0
    attributes = machine(draw, columns, vectors) if vectors else dict(LINEAR)
    attributes |= {
        "n_supports": vectors,
        "coefficients": draw.floats(vectors or columns).tolist(),
        "rho": draw.floats(1).tolist(),
        "one_class": draw.integer(0, 1),
    }
    return Case({"X": draw.floats(rows, columns)}, ["Y"], attributes)


def svm_classifier(draw):
    rows, columns, classes = draw.integer(1, 9), draw.integer(1, 6), draw.integer(2, 4)
    attributes = {
        "classlabels_ints": draw.random.permutation(20)[:classes].tolist(),
        "post_transform": draw.choice("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"),
    }
    if draw.chance(0.7):
        counts = [draw.integer(1, 4) for _ in range(classes)]
        attributes |= machine(draw, columns, sum(counts))
        attributes["vectors_per_class"] = counts
        attributes["coefficients"] = draw.floats((classes - 1) * sum(counts)).tolist()
        attributes["rho"] = draw.floats(classes * (classes - 1) // 2).tolist()
    else:
        attributes |= LINEAR
        attributes["coefficients"] = draw.floats(classes * columns).tolist()
        attributes["rho"] = draw.floats(1).tolist()
    return Case({"X": numeric(draw, rows, columns, *ANY)}, ["Y", "Z"], attributes)


def normalizer(draw):
    x = numeric(draw, draw.integer(1, 9), draw.integer(1, 6), *ANY)
    x[draw.random.random(len(x)) < 0.2] = 0
    return Case({"X": x}, ["Y"], {"norm": draw.choice("MAX", "L1", "L2")})


def imputer(draw):
    rows, columns = draw.integer(1, 9), draw.integer(1, 6)
    count = draw.choice(1, columns)
    if draw.chance():
        x = features(draw, rows, columns)
        replaced = draw.choice(float("nan"), 0.5)
        attributes = {
            "imputed_value_floats": draw.floats(count).tolist(), "replaced_value_float": replaced
        }  # fmt: skip
    else:
        x = draw.integers(0, 3, rows, columns)
        attributes = {
            "imputed_value_int64s": draw.integers(4, 9, count).tolist(), "replaced_value_int64": 2
        }  # fmt: skip
    return Case({"X": x}, ["Y"], attributes)


def feature_vectorizer(draw):
    rows, kind = draw.integer(1, 9), draw.choice(np.float32, np.float64, np.int64, np.int32)
    inputs = {
        f"x{i}": numeric(draw, rows, draw.integer(1, 4), kind) for i in range(draw.integer(1, 4))
    }
    widths = [max(1, x.shape[1] + draw.choice(-1, 0, 0, 1)) for x in inputs.values()]
    return Case(inputs, ["Y"], {"inputdimensions": widths})


def one_hot_encoder(draw):
    kind = draw.choice(np.int64, np.float32, np.float64)
    x = draw.integers(0, 6, *draw.shape(1, 2)).astype(kind)
    categories = draw.random.permutation(7)[: draw.integer(1, 7)].tolist()
    return Case({"X": x}, ["Y"], {"cats_int64s": categories, "zeros": 1})


def label_encoder(draw):
    keys = draw.random.permutation(9)[: draw.integer(1, 6)]
    x = draw.integers(0, 9, *draw.shape(1, 3))
    opset = draw.choice(3, 4)
    has_nan, is_twice = False, opset == 4 and draw.chance(0.3)
    if is_twice:
        keys[-1] = keys[0]
    if draw.chance():
        keys, x = keys.astype(np.float32) / 2, x.astype(np.float32) / 2
        if draw.chance():
            x[draw.random.random(x.shape) < 0.2] = np.nan
        if has_nan := not is_twice and draw.chance():
            keys[draw.integer(0, len(keys) - 1)] = np.nan
        attributes = {"keys_floats": keys.tolist()}
    else:
        attributes = {"keys_int64s": keys.tolist()}
    if draw.chance():
        attributes["values_floats"] = draw.floats(len(keys)).tolist()
        attributes |= draw.some(default_float=7.5)
    else:
        attributes["values_int64s"] = draw.integers(0, 99, len(keys)).tolist()
        attributes |= draw.some(default_int64=-7)
    case = Case({"X": x}, ["Y"], attributes, ml_opset=opset)
    if has_nan:
        # Before opset 4 ONNX Runtime finds no NaN, which the standard does: its bits are the same.
        expected = onnx_runtime(draw, "LabelEncoder", replace(case, ml_opset=4))
        return replace(case, expected=expected)
    if is_twice:
        # The last of two equal keys counts, not the first as in ONNX Runtime.
        return replace(case, expected=reference(draw, "LabelEncoder", case))
    return case


DRAWN = {
    (ML, "TreeEnsemble"): tree_ensemble,
    (ML, "TreeEnsembleClassifier"): tree_ensemble_classifier,
    (ML, "TreeEnsembleRegressor"): tree_ensemble_regressor,
    (ML, "LinearClassifier"): linear_classifier,
    (ML, "LinearRegressor"): linear_regressor,
    (ML, "SVMClassifier"): svm_classifier,
    (ML, "SVMRegressor"): svm_regressor,
    (ML, "Normalizer"): normalizer,
    (ML, "Imputer"): imputer,
    (ML, "FeatureVectorizer"): feature_vectorizer,
    (ML, "OneHotEncoder"): one_hot_encoder,
    (ML, "LabelEncoder"): label_encoder,
}
