//! Models of text: a tokenizer of a few words, and an encoder whose vectors can be told by hand.

use std::path::Path;

use serde_json::{Value, json};
use streampool::model::onnx::writer::{Graph, int};
use streampool::{Array, DType};

use super::common::{Running, folder, write};

const WORDS: [&str; 8] = [
    "[PAD]", "[CLS]", "[SEP]", "[UNK]", "red", "green", "blue", "grey",
];

/// A tokenizer of words, with a mark before and behind.
fn tokenizer() -> Value {
    let vocab: serde_json::Map<String, Value> = WORDS
        .iter()
        .enumerate()
        .map(|(id, word)| ((*word).to_owned(), id.into()))
        .collect();
    let special = |id: usize| json!({"id": WORDS[id], "ids": [id], "tokens": [WORDS[id]]});
    let mark = |id: usize| json!({"SpecialToken": {"id": WORDS[id], "type_id": 0}});
    let text = |id: &str, kind: u32| json!({"Sequence": {"id": id, "type_id": kind}});
    let second = json!({"SpecialToken": {"id": WORDS[2], "type_id": 1}});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"}, "decoder": null,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [mark(1), text("A", 0), mark(2)],
            "pair": [mark(1), text("A", 0), mark(2), text("B", 1), second],
            "special_tokens": {"[CLS]": special(1), "[SEP]": special(2)},
        },
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
    })
}

/// The vector of a token: its number, and 1.
fn table() -> Array {
    let values: Vec<f32> = (0..WORDS.len()).flat_map(|id| [id as f32, 1.0]).collect();
    Array::new(&values, &[WORDS.len(), 2]).unwrap()
}

fn inputs() -> Graph {
    let mut graph = Graph::new();
    for name in ["input_ids", "attention_mask", "token_type_ids"] {
        graph = graph.input(name, DType::I64, "batch length");
    }
    graph
}

/// Vectors of tokens; of padding they would be seen in the mean.
fn encoder() -> Graph {
    inputs()
        .constant("table", &table())
        .node("Gather table input_ids = last_hidden_state", &[])
        .output("last_hidden_state", DType::F32, "batch length 2")
}

/// A class: how many tokens are of the second text, less one. Two would be that, and the number of tokens.
fn classes(two: bool) -> Graph {
    let graph = inputs()
        .constant("axis", &Array::new(&[1i64], &[1]).unwrap())
        .constant("one", &Array::new(&[1.0f32], &[1]).unwrap())
        .node("ReduceSum token_type_ids axis = types", &[])
        .node("ReduceSum attention_mask axis = tokens", &[])
        .node("Cast types = second", &[int("to", 1)])
        .node("Cast tokens = all", &[int("to", 1)])
        .node("Sub second one = less", &[]);
    match two {
        true => graph
            .node("Concat less all = logits", &[int("axis", 1)])
            .output("logits", DType::F32, "batch 2"),
        false => graph
            .node("Identity less = logits", &[])
            .output("logits", DType::F32, "batch 1"),
    }
}

fn model(folder: &Path, name: &str, graph: Graph) {
    write(folder, &format!("{name}/1/model.onnx"), graph);
    std::fs::write(
        folder.join(name).join("tokenizer.json"),
        tokenizer().to_string(),
    )
    .unwrap();
    std::fs::write(
        folder.join(name).join("tokenizer_config.json"),
        r#"{"model_max_length": 8}"#,
    )
    .unwrap();
}

fn post(running: &Running, path: &str, body: Value) -> (u16, Value) {
    let answer = running.post(path, &body.to_string());
    (answer.status, answer.json())
}

fn close(value: &Value, expected: &[f64]) {
    let values: Vec<f64> = value
        .as_array()
        .unwrap_or_else(|| panic!("{value}"))
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect();
    let near = values
        .iter()
        .zip(expected)
        .all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(
        near && values.len() == expected.len(),
        "{values:?} is not {expected:?}"
    );
}

#[test]
fn texts_become_vectors() {
    let folder = folder();
    model(&folder, "mean", encoder());
    let running = Running::with(&folder);
    // [CLS] red [SEP] is 1, 4, 2.
    let body = json!({"inputs": "red", "normalize": false});
    let (status, vectors) = post(&running, "/embed", body);
    assert_eq!(status, 200, "{vectors}");
    close(&vectors[0], &[7.0 / 3.0, 1.0]);
    // Texts of several lengths go together, padded; padding is not in their vectors.
    let body = json!({"inputs": ["Red", "green blue grey", "purple"], "normalize": false});
    let (_, vectors) = post(&running, "/embed", body);
    close(&vectors[0], &[7.0 / 3.0, 1.0]);
    close(&vectors[1], &[(1 + 5 + 6 + 7 + 2) as f64 / 5.0, 1.0]);
    close(&vectors[2], &[2.0, 1.0]);
    let (_, vectors) = post(&running, "/embed", json!({"inputs": "purple"}));
    close(&vectors[0], &[2.0 / 5f64.sqrt(), 1.0 / 5f64.sqrt()]);
    // With as many digits as tell it from other numbers of 32 bits, and no more.
    let digits = vectors[0][0].to_string();
    assert_eq!(digits.parse::<f32>().unwrap().to_string(), digits);

    // Eight tokens at most: six words and two marks.
    let long = "red red red red red red grey grey grey";
    let (_, vectors) = post(
        &running,
        "/embed",
        json!({"inputs": long, "normalize": false}),
    );
    close(&vectors[0], &[27.0 / 8.0, 1.0]);
    let (status, error) = post(
        &running,
        "/embed",
        json!({"inputs": long, "truncate": false}),
    );
    assert_eq!(status, 400);
    assert!(
        error["error"]
            .as_str()
            .unwrap()
            .contains("more than 8 tokens"),
        "{error}"
    );
    let metrics = running.get("/metrics").text();
    assert!(
        metrics.contains(
            r#"nv_inference_request_failure{model="mean",version="1",reason="CLIENT"} 1"#
        )
    );
    let waste = metrics.lines().find_map(|line| {
        line.strip_prefix(r#"streampool_padding_waste{model="mean",version="1"} "#)
    });
    let waste: f64 = waste.unwrap().parse().unwrap();
    assert!(waste > 0.2 && waste < 0.9, "{waste}");
}

#[test]
fn embeddings_are_as_openai_has_them() {
    let folder = folder();
    model(&folder, "first", encoder());
    std::fs::create_dir(folder.join("first/1_Pooling")).unwrap();
    std::fs::write(
        folder.join("first/1_Pooling/config.json"),
        r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#,
    )
    .unwrap();
    let running = Running::with(&folder);
    let (status, answer) = post(
        &running,
        "/v1/embeddings",
        json!({"input": ["red", "green grey"], "model": "first"}),
    );
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        (&answer["object"], &answer["model"]),
        (&"list".into(), &"first".into())
    );
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 7, "total_tokens": 7})
    );
    let half = 0.5f64.sqrt();
    close(&answer["data"][1]["embedding"], &[half, half]);
    assert_eq!(answer["data"][1]["index"], 1);
    let body = json!({"input": [[5, 4], [4]], "model": "first", "encoding_format": "base64", "dimensions": 1});
    let (_, answer) = post(&running, "/v1/embeddings", body);
    assert_eq!(answer["data"][0]["embedding"], "AACAPw==", "1 as bytes");
    assert_eq!(running.get("/v1/models").json()["data"][0]["id"], "first");

    for (body, status, why) in [
        (
            json!({"input": "red", "model": "none"}),
            404,
            "unknown model",
        ),
        (json!({"input": [], "model": "first"}), 400, "no text"),
        (json!({"input": [[]], "model": "first"}), 400, "0 tokens"),
        (json!({"input": [[4000]], "model": "first"}), 400, ""),
        (json!({"input": 3}), 400, "parse"),
        (json!({"input": "red", "dimensions": 3}), 400, "1 to 2"),
        (
            json!({"input": "red", "encoding_format": "hex"}),
            400,
            "base64",
        ),
        (
            json!({"input": "red red red red red red red red"}),
            400,
            "more than 8",
        ),
    ] {
        let (got, error) = post(&running, "/v1/embeddings", body.clone());
        let text = error["error"]["message"].as_str().unwrap_or_default();
        assert!(got == status && text.contains(why), "{body}: {got} {error}");
    }
}

#[test]
fn texts_are_ranked_and_put_in_classes() {
    let folder = folder();
    model(&folder, "rank", classes(false));
    let running = Running::with(&folder);
    let body = json!({"query": "red", "texts": ["grey", "grey blue red"], "raw_scores": true, "return_text": true});
    let (status, ranks) = post(&running, "/rerank", body);
    assert_eq!(status, 200, "{ranks}");
    assert_eq!(
        ranks,
        json!([{"index": 1, "score": 3.0, "text": "grey blue red"}, {"index": 0, "score": 1.0, "text": "grey"}])
    );
    let (_, ranks) = post(
        &running,
        "/rerank",
        json!({"query": "red", "texts": ["grey"]}),
    );
    assert!(
        (ranks[0]["score"].as_f64().unwrap() - 0.731_058_6).abs() < 1e-6,
        "{ranks}"
    );
    assert_eq!(
        post(&running, "/embed", json!({"inputs": "red"})).0,
        400,
        "it makes no vectors"
    );

    model(&folder, "two", classes(true));
    std::fs::write(
        folder.join("two/config.json"),
        r#"{"id2label": {"0": "pair", "1": "length"}}"#,
    )
    .unwrap();
    running.server.repository().load("two").unwrap();
    let body = json!({"inputs": [["red"], ["red", "grey"]], "raw_scores": true, "model": "two"});
    let (_, told) = post(&running, "/predict", body);
    assert_eq!(
        told[0],
        json!([{"score": 3.0, "label": "length"}, {"score": -1.0, "label": "pair"}])
    );
    assert_eq!(
        told[1],
        json!([{"score": 5.0, "label": "length"}, {"score": 1.0, "label": "pair"}])
    );
    let (_, told) = post(
        &running,
        "/predict",
        json!({"inputs": "red", "model": "two"}),
    );
    let sum: f64 = told
        .as_array()
        .unwrap()
        .iter()
        .map(|class| class["score"].as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-5, "{told}");
    assert_eq!(
        post(&running, "/predict", json!({"inputs": "red"})).0,
        400,
        "there are two"
    );
    assert_eq!(
        post(
            &running,
            "/predict",
            json!({"inputs": [["a", "b", "c"]], "model": "two"})
        )
        .0,
        400
    );
}

#[test]
fn a_tokenizer_that_cannot_be_read_is_named() {
    let folder = folder();
    model(&folder, "bad", encoder());
    std::fs::write(folder.join("bad/tokenizer.json"), "{}").unwrap();
    let pool = streampool::host_pool().unwrap();
    let repository = streampool_serve::Repository::new(&folder, pool, Default::default());
    let failures = repository.load_all().unwrap();
    assert!(failures[0].1.contains("tokenizer.json"), "{failures:?}");
}
