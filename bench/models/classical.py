#!/usr/bin/env python3
"""Models of scikit-learn, LightGBM and XGBoost, converted by skl2onnx and onnxmltools, with what ONNX Runtime makes of them.

    python3 bench/models/classical.py FOLDER
    CLASSICAL_DATA=FOLDER cargo test --release -p streampool-model --test classical -- --nocapture

The test compares: labels have to be equal, probabilities within 1e-5. Data and models are by a fixed seed. Needs onnx,
onnxruntime, numpy, scikit-learn, skl2onnx, onnxmltools, lightgbm and xgboost.
"""

import os
import sys
import warnings

import lightgbm
import numpy as np
import onnxmltools
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as ToolsFloats
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn import compose, ensemble, impute, linear_model, naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree

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


main()
