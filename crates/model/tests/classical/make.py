"""Models of ai.onnx.ml by a fixed seed, and what ONNX Runtime makes of them: `python3 make.py FOLDER`."""

import itertools
import sys

import numpy as np
import saving
from onnx import TensorProto, helper

rng = np.random.default_rng(36)
FLOAT, INT, DOUBLE, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.STRING
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def saved(name, op, inputs, outputs, version=3, **attributes):
    """A model of one node."""
    kinds = {np.dtype("f4"): FLOAT, np.dtype("f8"): DOUBLE, np.dtype("i8"): INT, np.dtype("O"): STRING}
    node = helper.make_node(op, list(inputs), list(outputs), domain="ai.onnx.ml", **attributes)
    given = [helper.make_tensor_value_info(key, kinds[value.dtype], [None, *value.shape[1:]]) for key, value in inputs.items()]
    made = [helper.make_tensor_value_info(key, kind, None) for key, kind in outputs.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    model = helper.make_model(helper.make_graph([node], "g", given, made), opset_imports=opsets, ir_version=9)
    saving.save(sys.argv[1], name, model.SerializeToString(), inputs)


def trees(count, depth, features, targets, modes, kind, chance=0.8, missing=False, weights=None):
    """The lists of trees of up to so many levels; `weights` are for which targets a leaf has some."""
    names = ["treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true"]
    nodes = {name: [] for name in names}
    leaves = {name: [] for name in ["treeids", "nodeids", "ids", "weights"]}
    for tree in range(count):
        numbers, open_nodes = itertools.count(1), [(0, 0)]
        while open_nodes:
            node, level = open_nodes.pop()
            inner = level < depth and (level == 0 or rng.random() < chance)
            below = [next(numbers), next(numbers)] if inner else [0, 0]
            mode = modes[rng.integers(len(modes))] if inner else "LEAF"
            value = float(np.float32(rng.choice([0.0, 0.5, rng.normal()]))) if inner else 0.0
            feature = int(rng.integers(features)) if inner else 0
            row = [tree, node, feature, mode, value, below[0], below[1], int(missing and rng.random() < 0.5)]
            for name, each in zip(names, row, strict=True):
                nodes[name].append(each)
            if inner:
                open_nodes += [(below[0], level + 1), (below[1], level + 1)]
                continue
            for target in weights(tree) if weights else range(targets):
                for name, each in zip(leaves, [tree, node, target, float(np.float32(rng.normal() * 0.3))], strict=True):
                    leaves[name].append(each)
    lists = {"nodes_" + name: values for name, values in nodes.items() if missing or "missing" not in name}
    return lists | {f"{kind}_{name}": values for name, values in leaves.items()}


def some(rows, columns, dtype=np.float32):
    x = rng.normal(size=(rows, columns))
    x[rng.random(x.shape) < 0.2] = 0.5
    return x.astype(dtype)


def ensembles():
    for number, (dtype, how) in enumerate(itertools.product([np.float32, np.float64], ["SUM", "AVERAGE", "MIN", "MAX"])):
        targets = 1 + number % 3
        lists = trees(9, 5, 6, targets, [MODES[number % 6]], "target")
        base = {"base_values": [0.25] * targets} if number % 2 else {}
        x = some(37, 6, np.float64)
        x = x.astype(dtype)
        saved(f"regressor_{number}", "TreeEnsembleRegressor", {"x": x}, {"y": FLOAT}, n_targets=targets, aggregate_function=how, **base, **lists)
    x = some(50, 4)
    x[rng.random(x.shape) < 0.3] = np.nan
    for number, modes in enumerate([MODES[:1], MODES[1:2], MODES]):
        lists = trees(20, 6, 4, 1, modes, "target", missing=True)
        saved(f"missing_{number}", "TreeEnsembleRegressor", {"x": x}, {"y": FLOAT}, n_targets=1, **lists)
    saved("wide", "TreeEnsembleRegressor", {"x": some(100, 5)}, {"y": FLOAT}, n_targets=1, **trees(100, 8, 5, 1, MODES[:1], "target"))
    outputs = {"label": INT, "scores": FLOAT}
    for number, (classes, post) in enumerate(itertools.product([2, 3, 5], ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])):
        lists = trees(15, 4, 6, classes, MODES[:2], "class", weights=None if number % 2 and classes > 2 else lambda tree: [tree % classes] if classes > 2 else [0])
        labels = {"classlabels_int64s": [7 * each - 3 for each in range(classes)]}
        saved(f"classifier_{number}", "TreeEnsembleClassifier", {"x": some(40, 6)}, outputs, post_transform=post, **labels, **lists)
    lists = trees(15, 4, 6, 2, MODES[:1], "class", weights=lambda _: [0])
    lists["class_weights"] = [abs(weight) / 5 for weight in lists["class_weights"]]
    x = {"x": some(40, 6)}
    saved("positive", "TreeEnsembleClassifier", x, outputs, classlabels_int64s=[0, 1], **lists)
    for number, base in enumerate([[0.1], [0.1, 0.1]]):
        saved(f"base_{number}", "TreeEnsembleClassifier", x, outputs, classlabels_int64s=[0, 1], post_transform="LOGISTIC", base_values=base, **lists)
    names = {"classlabels_strings": ["red", "green", "blue"]}
    lists = trees(15, 4, 6, 3, MODES[:1], "class")
    saved("names", "TreeEnsembleClassifier", x, {"label": STRING, "scores": FLOAT}, post_transform="SOFTMAX", **names, **lists)


def linear():
    outputs = {"label": INT, "scores": FLOAT}
    x = {"x": some(30, 4)}
    for number, (classes, post) in enumerate(itertools.product([2, 3], ["NONE", "LOGISTIC", "SOFTMAX"])):
        weights = [float(each) for each in rng.normal(size=classes * 4).astype(np.float32)]
        saved(f"linear_{number}", "LinearClassifier", x, outputs, 1, coefficients=weights, intercepts=weights[:classes],
              classlabels_ints=[3, 1, 2][:classes], post_transform=post)
        saved(f"two_{number}", "LinearClassifier", x, outputs, 1, coefficients=weights[:4], intercepts=weights[:1],
              classlabels_ints=[5, 6], post_transform=post)
        saved(f"line_{number}", "LinearRegressor", x, {"y": FLOAT}, 1, coefficients=weights, intercepts=weights[:classes], targets=classes)
    saved("linear_names", "LinearClassifier", x, {"label": STRING, "scores": FLOAT}, 1, coefficients=weights, intercepts=weights[:3],
          classlabels_strings=["a", "b", "a b"])
    for number, kernel in enumerate(["LINEAR", "POLY", "RBF", "SIGMOID"]):
        vectors = [float(each) for each in rng.normal(size=7 * 4).astype(np.float32)]
        machine = {"kernel_type": kernel, "kernel_params": [0.3, 0.5, 2.0], "support_vectors": vectors}
        for one_class in [0, 1]:
            saved(f"svr_{number}{one_class}", "SVMRegressor", x, {"y": FLOAT}, 1, n_supports=7, rho=[0.1], one_class=one_class,
                  coefficients=vectors[:7], **machine)
        pairs = {"prob_a": [-1.5, -1.2, -0.9], "prob_b": [0.1, -0.2, 0.3]}
        for proba in [{}, pairs]:
            saved(f"svc_{number}{len(proba)}", "SVMClassifier", x, outputs, 1, rho=[0.1, -0.2, 0.05], vectors_per_class=[2, 3, 2],
                  coefficients=vectors[:14], classlabels_ints=[0, 1, 2], **proba, **machine)
            proba = {key: value[:1] for key, value in proba.items()}
            saved(f"svc2_{number}{len(proba)}", "SVMClassifier", x, outputs, 1, rho=[0.1], vectors_per_class=[4, 3],
                  coefficients=vectors[:7], classlabels_ints=[4, 9], **proba, **machine)


def features():
    x = some(12, 3)
    saved("scaler", "Scaler", {"x": x}, {"y": FLOAT}, 1, offset=[0.5, 1.0, -2.0], scale=[2.0, 0.1, 3.0])
    for norm in ["MAX", "L1", "L2"]:
        with_zeros = np.where(np.arange(12)[:, None] % 5 == 0, 0, x).astype(np.float32)
        saved(f"norm_{norm}", "Normalizer", {"x": with_zeros}, {"y": FLOAT}, 1, norm=norm)
    gaps = np.where(rng.random(x.shape) < 0.3, np.nan, x).astype(np.float32)
    saved("imputer", "Imputer", {"x": gaps}, {"y": FLOAT}, 1, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))
    whole = rng.integers(0, 4, size=(12, 3))
    saved("imputer_ints", "Imputer", {"x": whole}, {"y": INT}, 1, imputed_value_int64s=[9], replaced_value_int64=2)
    saved("binarizer", "Binarizer", {"x": x}, {"y": FLOAT}, 1, threshold=0.25)
    saved("one_hot", "OneHotEncoder", {"x": whole}, {"y": FLOAT}, 1, cats_int64s=[0, 2, 3], zeros=1)
    saved("vectorizer", "FeatureVectorizer", {"x": x, "z": x * 2}, {"y": FLOAT}, 1, inputdimensions=[3, 3])
    saved("encoder", "LabelEncoder", {"x": whole}, {"y": INT}, 2, keys_int64s=[0, 2], values_int64s=[10, 20], default_int64=-7)
    saved("encoder_floats", "LabelEncoder", {"x": x}, {"y": FLOAT}, 2, keys_floats=[0.5], values_floats=[2.5], default_float=-1.0)
    words = np.array([["cat"], ["dog"], ["cow"], [""], ["Dog"]], dtype=object)
    saved("words", "LabelEncoder", {"x": words}, {"y": INT}, 2, keys_strings=["dog", "cat"], values_int64s=[1, 2], default_int64=0)
    saved("words_back", "LabelEncoder", {"x": whole}, {"y": STRING}, 2, keys_int64s=[1, 2], values_strings=["one", "two"], default_string="many")
    saved("words_hot", "OneHotEncoder", {"x": words}, {"y": FLOAT}, 1, cats_strings=["dog", "cat"], zeros=1)
    saved("mapper", "CategoryMapper", {"x": words}, {"y": INT}, 1, cats_strings=["dog", "cat"], cats_int64s=[3, 4], default_int64=-1)


def chained(name, nodes, inputs, outputs, words=()):
    """A model of several nodes, with a constant `named` of these strings."""
    kinds = {np.dtype("f4"): FLOAT, np.dtype("i8"): INT, np.dtype("O"): STRING, np.dtype("?"): TensorProto.BOOL}
    given = [helper.make_tensor_value_info(key, kinds[value.dtype], value.shape) for key, value in inputs.items()]
    made = [helper.make_tensor_value_info(key, kind, None) for key, kind in outputs.items()]
    named = helper.make_tensor("named", STRING, [len(words)], [word.encode() for word in words])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "g", given, made, initializer=[named] if words else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    saving.save(sys.argv[1], name, model.SerializeToString(), inputs)


def strings():
    """Strings that are moved, chosen, compared and counted by ONNX's own operators."""
    words = np.array(["cat", "dog", "cow", "", "Dog", "cat"], dtype=object)

    def encoded(source, result):
        return helper.make_node("LabelEncoder", [source], [result], domain="ai.onnx.ml", keys_strings=["dog", "cat", "cow"],
                                values_int64s=[1, 2, 3], default_int64=-1)

    truths = rng.random(6) < 0.5
    chained("words_where", [helper.make_node("Where", ["t", "x", "named"], ["z"]), encoded("z", "y")],
            {"t": truths, "x": words}, {"y": INT}, ["dog"])
    chained("words_split", [helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2), encoded("a", "y"), encoded("b", "z")],
            {"x": words}, {"y": INT, "z": INT})
    chained("words_compress", [helper.make_node("Compress", ["x", "t"], ["z"]), encoded("z", "y")],
            {"x": words, "t": truths}, {"y": INT})
    chained("words_scatter", [helper.make_node("ScatterElements", ["x", "i", "named"], ["z"]), encoded("z", "y")],
            {"x": words, "i": np.array([4, 0])}, {"y": INT}, ["dog", "cow"])
    chained("words_equal", [helper.make_node("Equal", ["x", "named"], ["y"])], {"x": words}, {"y": TensorProto.BOOL}, ["cat"])
    grams = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 2], "ngram_indexes": [1, 0, 2],
             "pool_strings": ["dog", "cat", "cat", "dog"], "weights": [0.5, 2.0, 4.0]}
    for mode in ["TF", "IDF", "TFIDF"]:
        chained(f"words_counted_{mode}", [helper.make_node("TfIdfVectorizer", ["x"], ["y"], mode=mode, **grams)],
                {"x": words.reshape(2, 3)}, {"y": FLOAT})


def alone(name, op, inputs, outputs, domain="", **attributes):
    chained(name, [helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes)], inputs, outputs)


def texts():
    """What looks into strings, or makes some."""
    words = np.array(["Monday", "tuesday", "ÉCOLE ß İ", "", "a b,c  d", "tuesday"], dtype=object)
    for case in ["NONE", "LOWER", "UPPER"]:
        for sensitive in [0, 1]:
            alone(f"text_case_{case}_{sensitive}", "StringNormalizer", {"x": words}, {"y": STRING}, case_change_action=case,
                  is_case_sensitive=sensitive, stopwords=["monday", "tuesday"], locale="C.UTF-8")
    alone("text_case_row", "StringNormalizer", {"x": words.reshape(1, 6)}, {"y": STRING}, case_change_action="LOWER", locale="C.UTF-8")
    alone("text_case_none_left", "StringNormalizer", {"x": words[:2]}, {"y": STRING}, stopwords=["monday", "Tuesday"], locale="C.UTF-8")
    tokens = {"marked": {"mark": 1, "separators": [" ", ","]}, "long": {"mincharnum": 2, "separators": [" "]},
              "expressions": {"separators": ["[ ,]+", "b"]}, "letters": {"separators": [""]}, "found": {"tokenexp": "[a-zA-Z0-9_]+"},
              "longest": {"tokenexp": "t|tu|tue"}, "ascii": {"tokenexp": "\\w+", "mark": 1}, "empty": {"tokenexp": "x*"}}
    for name, attributes in tokens.items():
        attributes = {"mark": 0, "pad_value": "#", "mincharnum": 1} | attributes
        for shape in [(6,), (2, 3)]:
            alone(f"text_tokens_{name}_{len(shape)}", "Tokenizer", {"x": words.reshape(shape)}, {"y": STRING}, "com.microsoft", **attributes)
    alone("text_tokens_nothing", "Tokenizer", {"x": words[3:4]}, {"y": STRING}, "com.microsoft", mark=1, pad_value="#", mincharnum=1,
          separators=[" "])
    alone("text_concat", "StringConcat", {"x": words, "z": words.reshape(6, 1)}, {"y": STRING})
    lists = np.array(["a b  c", " x ", "", "a,b,,c", ",x"], dtype=object)
    for name, attributes in {"space": {}, "comma": {"delimiter": ","}, "once": {"delimiter": ",", "maxsplit": 1}, "one": {"maxsplit": 1},
                             "never": {"maxsplit": 0}}.items():
        alone(f"text_split_{name}", "StringSplit", {"x": lists}, {"y": STRING, "z": INT}, **attributes)
    alone("text_split_none", "StringSplit", {"x": lists[2:3]}, {"y": STRING, "z": INT})
    alone("text_match", "RegexFullMatch", {"x": words}, {"y": TensorProto.BOOL}, pattern="[A-Z]?[a-z]+|a|.*ß..")
    numbers = np.array([1.5, 1e10, 1e-7, np.nan, np.inf, -np.inf, 0, -0.0, 123456789, 1e5, 1 / 3, 1e8], np.float32)
    alone("text_written", "Cast", {"x": numbers}, {"y": STRING}, to=STRING)
    alone("text_written_whole", "Cast", {"x": np.array([-3, 2**62])}, {"y": STRING}, to=STRING)
    alone("text_written_truth", "Cast", {"x": np.array([True, False])}, {"y": STRING}, to=STRING)
    told = np.array(["1.5", " 7", "7x", "NaN", "-inf", "1e3", "300", "-1"], dtype=object)
    alone("text_read", "Cast", {"x": told}, {"y": FLOAT}, to=FLOAT)
    whole = np.array(["1.5", " 7", "7x", "1e3", "300", "-1"], dtype=object)
    alone("text_read_whole", "Cast", {"x": whole}, {"y": INT}, to=INT)
    alone("text_read_bytes", "Cast", {"x": whole}, {"y": TensorProto.UINT8}, to=TensorProto.UINT8)
    for positive, kind in [(1, TensorProto.UINT32), (0, TensorProto.INT32)]:
        alone(f"text_hash_{positive}", "MurmurHash3", {"x": words}, {"y": kind}, "com.microsoft", positive=positive, seed=3)
    alone("text_equal", "Equal", {"x": words, "z": words[::-1].copy()}, {"y": TensorProto.BOOL})
    alone("text_moved", "Gather", {"x": words, "z": np.array([4, 0, 4])}, {"y": STRING})
    alone("text_joined", "Concat", {"x": words, "z": lists}, {"y": STRING}, axis=0)
    # As skl2onnx writes a TfidfVectorizer.
    pool = ["the", "cat", "dog", "runs", "the", "cat", "cat", "runs"]
    nodes = [
        helper.make_node("Reshape", ["x", "all"], ["flat"]),
        helper.make_node("StringNormalizer", ["flat"], ["lower"], case_change_action="LOWER", is_case_sensitive=0, locale="C.UTF-8"),
        helper.make_node("Tokenizer", ["lower"], ["tokens"], domain="com.microsoft", mark=0, mincharnum=1, pad_value="#",
                         tokenexp="[a-zA-Z0-9_]+"),
        helper.make_node("Flatten", ["tokens"], ["rows"]),
        helper.make_node("TfIdfVectorizer", ["rows"], ["y"], mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=0,
                         ngram_counts=[0, 4], ngram_indexes=[3, 0, 1, 2, 4, 5], pool_strings=pool, weights=[1.5, 2.0, 0.5, 1.0, 3.0, 4.0]),
    ]
    documents = np.array(["The cat runs", "a DOG; the cat, the cat!", "", "nothing"], dtype=object).reshape(4, 1)
    model = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", STRING, [None, 1])],
                              [helper.make_tensor_value_info("y", FLOAT, None)],
                              [helper.make_tensor("all", INT, [1], [-1])])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    saving.save(sys.argv[1], "text_counted", helper.make_model(model, opset_imports=opsets, ir_version=9).SerializeToString(), {"x": documents})
    for name, key, given in [("words", STRING, {"b": 2.0, "z": 5.0, "a": 1.0}), ("numbers", INT, {3: 2.0, 9: 4.0})]:
        kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(FLOAT, []))
        known = {"string_vocabulary": ["a", "b", "c"]} if key == STRING else {"int64_vocabulary": [1, 3]}
        node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", **known)
        graph = helper.make_graph([node], "g", [helper.make_value_info("x", kind)], [helper.make_tensor_value_info("y", FLOAT, None)])
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
        saving.save(sys.argv[1], f"text_dictionary_{name}", helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString(),
                    {"x": given})


ensembles()
linear()
features()
strings()
texts()
