#!/usr/bin/env python3
"""Models of scikit-learn, LightGBM and XGBoost, converted by skl2onnx and onnxmltools, with what ONNX Runtime makes of them.

    python3 bench/models/classical.py FOLDER
    CLASSICAL_DATA=FOLDER cargo test --release -p streampool-model --test classical -- --nocapture

The test compares: labels have to be equal, probabilities within 1e-5. Data and models are by a fixed seed. Needs onnx,
onnxruntime, numpy, scikit-learn, skl2onnx, onnxmltools, lightgbm and xgboost.
"""

import itertools
import os
import sys
import warnings

import lightgbm
import numpy as np
import onnxmltools
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as ToolsFloats
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DictionaryType, FloatTensorType, StringTensorType
from sklearn import compose, ensemble, feature_extraction, impute, linear_model, naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../crates/model/tests/classical"))
import saving  # noqa: E402

warnings.simplefilter("ignore")
rng = np.random.default_rng(36)
X = rng.normal(size=(600, 8)).astype(np.float32)
SCORE = X[:, 0] * 2 + X[:, 1] * X[:, 2] + rng.normal(size=600) * 0.3
TWO, THREE = (SCORE > 0).astype(np.int64), np.digitize(SCORE, [-1, 1]).astype(np.int64)
NAMES = np.array(["low", "middle", "high"])[THREE]
TEST = rng.normal(size=(300, 8)).astype(np.float32)


def classifiers():
    yield "logistic", linear_model.LogisticRegression()
    yield "sgd", linear_model.SGDClassifier(loss="log_loss", random_state=0)
    yield "ridge", linear_model.RidgeClassifier()
    yield "linear_svc", svm.LinearSVC(random_state=0)
    yield "svc", svm.SVC(random_state=0)
    yield "svc_poly", svm.SVC(kernel="poly", random_state=0)
    yield "tree", tree.DecisionTreeClassifier(max_depth=6, random_state=0)
    yield "forest", ensemble.RandomForestClassifier(50, max_depth=8, random_state=0)
    yield "extra", ensemble.ExtraTreesClassifier(30, random_state=0)
    yield "gradient", ensemble.GradientBoostingClassifier(n_estimators=30, random_state=0)
    yield "histogram", ensemble.HistGradientBoostingClassifier(max_iter=30, random_state=0)
    yield "ada", ensemble.AdaBoostClassifier(n_estimators=20, random_state=0)
    yield "bayes", naive_bayes.GaussianNB()
    yield "neighbours", neighbors.KNeighborsClassifier()
    yield "network", neural_network.MLPClassifier((16,), max_iter=60, random_state=0)
    scaled = [preprocessing.StandardScaler(), preprocessing.Normalizer(), linear_model.LogisticRegression()]
    yield "pipeline", pipeline.make_pipeline(*scaled)
    yield "ranged", pipeline.make_pipeline(preprocessing.MinMaxScaler(), preprocessing.PolynomialFeatures(2), linear_model.LogisticRegression())
    yield "imputed", pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.RobustScaler(), linear_model.LogisticRegression())


def regressors():
    yield "linear", linear_model.LinearRegression()
    yield "lasso", linear_model.Lasso(0.01)
    yield "svr", svm.SVR()
    yield "tree", tree.DecisionTreeRegressor(max_depth=6, random_state=0)
    yield "forest", ensemble.RandomForestRegressor(50, max_depth=8, random_state=0)
    yield "gradient", ensemble.GradientBoostingRegressor(n_estimators=30, random_state=0)
    yield "histogram", ensemble.HistGradientBoostingRegressor(max_iter=30, random_state=0)


def save(name, make, inputs=None):
    """Saves one model; says so if a tool cannot make it."""
    try:
        model = make().SerializeToString()
        saving.save(sys.argv[1], name, model, inputs or {"X": TEST})
    except Exception as error:  # noqa: BLE001
        print(f"{name}: not made: {str(error).splitlines()[0][:150]}")


def converted(model, zipmap=True):
    options = {"zipmap": zipmap} if hasattr(model, "predict_proba") else None
    options = None if options is None else {id(model): options}
    kind = [("X", FloatTensorType([None, X.shape[1]]))]
    opsets = {"": 18, "ai.onnx.ml": 3}
    try:
        return to_onnx(model, initial_types=kind, options=options, target_opset=opsets)
    except NameError:
        return to_onnx(model, initial_types=kind, target_opset=opsets)


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    for target, labels in (("two", TWO), ("three", THREE), ("names", NAMES)):
        for name, model in classifiers():
            save(f"{name}_{target}", lambda: converted(model.fit(X, labels), zipmap=target == "three"))
    for name, model in regressors():
        save(f"{name}_number", lambda: converted(model.fit(X, SCORE)))
    save("outliers", lambda: converted(svm.OneClassSVM(nu=0.05).fit(X)))
    kinds = [("X", ToolsFloats([None, X.shape[1]]))]
    for target, labels in (("two", TWO), ("three", THREE)):
        model = lightgbm.LGBMClassifier(n_estimators=40, verbose=-1, random_state=0).fit(X, labels)
        save(f"lightgbm_{target}", lambda: onnxmltools.convert_lightgbm(model, initial_types=kinds, target_opset=15))
        boosted = xgboost.XGBClassifier(n_estimators=40, max_depth=6, random_state=0).fit(X, labels)
        save(f"xgboost_{target}", lambda: onnxmltools.convert_xgboost(boosted, initial_types=kinds, target_opset=15))
    model = lightgbm.LGBMRegressor(n_estimators=40, verbose=-1, random_state=0).fit(X, SCORE)
    save("lightgbm_number", lambda: onnxmltools.convert_lightgbm(model, initial_types=kinds, target_opset=15))
    boosted = xgboost.XGBRegressor(n_estimators=40, max_depth=6, random_state=0).fit(X, SCORE)
    save("xgboost_number", lambda: onnxmltools.convert_xgboost(boosted, initial_types=kinds, target_opset=15))

    colours = np.array(["red", "green", "blue"], dtype=object)[rng.integers(0, 3, (600, 1))]
    columns = compose.ColumnTransformer([("words", preprocessing.OneHotEncoder(handle_unknown="ignore"), [0])])
    words = pipeline.make_pipeline(columns, linear_model.LogisticRegression()).fit(colours, NAMES)
    given = np.array(["red", "green", "blue", "black"], dtype=object)[rng.integers(0, 4, (50, 1))]
    kind = [("X", StringTensorType([None, 1]))]
    save("words", lambda: to_onnx(words, initial_types=kind, options={"zipmap": False}, target_opset={"": 18, "ai.onnx.ml": 3}), {"X": given})
    texts()


def texts():
    """Pipelines that begin with strings."""
    word = np.array(["cheap", "rates", "meeting", "lunch", "the", "a", "Report", "CALL", "now", "win", "x1", "don't"])
    documents = np.array([" ".join(rng.choice(word, rng.integers(2, 20))) + "." for _ in range(400)], dtype=object)
    labels = np.array(["ham", "spam"])[[int("win" in each or "cheap rates" in each) for each in documents]]
    given = np.array([*documents[:40], "nothing known here", "WIN!"], dtype=object).reshape(-1, 1)
    kind = [("X", StringTensorType([None, 1]))]
    counters = {
        "tfidf": feature_extraction.text.TfidfVectorizer(),
        "tfidf_pairs": feature_extraction.text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, norm="l1"),
        "tfidf_case": feature_extraction.text.TfidfVectorizer(lowercase=False, token_pattern="[a-zA-Z]+"),
        "counts": feature_extraction.text.CountVectorizer(stop_words=["the", "a"]),
        "counts_binary": feature_extraction.text.CountVectorizer(binary=True, min_df=2),
        "counts_letters": feature_extraction.text.CountVectorizer(analyzer="char", ngram_range=(1, 3)),
    }
    ends = {"logistic": linear_model.LogisticRegression(), "bayes": naive_bayes.MultinomialNB(), "forest": ensemble.RandomForestClassifier(20, random_state=0)}
    options = {"tokenexp": None, "separators": "DEFAULT", "locale": "C.UTF-8"}
    for (name, counter), (end, model) in itertools.product(counters.items(), ends.items()):
        # Its sums of f32 are so large that ONNX Runtime's own two probabilities do not add up to 1 within 1e-5.
        if (name, end) == ("counts_letters", "bayes"):
            continue
        whole = pipeline.make_pipeline(counter, model).fit(documents, labels)
        chosen = {id(counter): options, id(model): {"zipmap": False}}
        save(f"text_{name}_{end}", lambda: to_onnx(whole, initial_types=kind, options=chosen, target_opset={"": 18, "ai.onnx.ml": 3}), {"X": given})
    table = np.stack([rng.choice(["red", "green", "blue"], 300), rng.choice(["S", "M", "L"], 300)], axis=1).astype(object)
    colour = np.array(["yes", "no"])[(table[:, 0] == "red").astype(int) ^ (rng.random(300) < 0.1)]
    kind = [("X", StringTensorType([None, 2]))]
    unknown = np.concatenate([table[:30], [["black", "M"], ["", "XL"]]])
    encoders = {"ordinal": (preprocessing.OrdinalEncoder(), table[:30]),
                "ordinal_unknown": (preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), unknown),
                "one_hot": (preprocessing.OneHotEncoder(handle_unknown="ignore"), unknown),
                "one_hot_drop": (preprocessing.OneHotEncoder(drop="first"), table[:30]),
                "imputed": (pipeline.make_pipeline(impute.SimpleImputer(strategy="most_frequent", missing_values=""),
                                                   preprocessing.OneHotEncoder(handle_unknown="ignore")), unknown)}
    for name, (encoder, rows) in encoders.items():
        model = linear_model.LogisticRegression()
        whole = pipeline.make_pipeline(encoder, model).fit(table, colour)
        save(f"table_{name}", lambda: to_onnx(whole, initial_types=kind, options={id(model): {"zipmap": False}},
                                              target_opset={"": 18, "ai.onnx.ml": 3}), {"X": rows})
    hashed = feature_extraction.FeatureHasher(n_features=16, input_type="string").fit(table)
    save("table_hashed", lambda: to_onnx(hashed, initial_types=kind, target_opset={"": 18, "ai.onnx.ml": 3}), {"X": table[:30]})
    dictionary = feature_extraction.DictVectorizer(sparse=False).fit([{"a": 1.0, "b": 2.0}, {"c": 3.0}])
    kind = [("X", DictionaryType(StringTensorType([1]), FloatTensorType([1])))]
    save("dictionary", lambda: to_onnx(dictionary, initial_types=kind, target_opset={"": 18, "ai.onnx.ml": 3}), {"X": {"b": 5.0, "z": 1.0, "a": 2.0}})


main()
