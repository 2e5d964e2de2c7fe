//! Operators with types beside the usual ones, as ONNX Runtime 1.32 computes them; where it has none, as ONNX defines them.

use half::f16;
use streampool_tensor::DType;

use super::{Given, bytes, expected, floats, given, made, onnx, positive};
use crate::onnx::writer;
use crate::{Array, Session, SessionOptions};

fn halves(shape: &[usize], seed: usize) -> Option<Given> {
    made(shape, |place| {
        f16::from_f32(((place * 7 + seed * 5) % 13) as f32 / 4.0 - 1.5)
    })
}

fn doubles(shape: &[usize], seed: usize) -> Option<Given> {
    made(shape, |place| {
        ((place * 7 + seed * 5) % 13) as f64 / 4.0 - 1.5
    })
}

#[test]
fn powers_of_integers_are_those_of_c() {
    let least = f64::from(i32::MIN);
    let bases = || given::<i32>(&[10], &[10, -10, 3, 2, -2, 7, 0, -1, 2, 46341]);
    let wanted = [
        least, least, least, least, least, 0.0, least, -1.0, least, least,
    ];
    let powers = [10, 11, 20, 31, 31, -1, -1, -3, 40, 2];
    onnx("Pow", 15).check(
        &[bases(), given::<i32>(&[10], &powers)],
        &[expected(&[10], &wanted)],
    );
    let powers = powers.map(|power| power as f32);
    onnx("Pow", 15).check(
        &[bases(), given(&[10], &powers)],
        &[expected(&[10], &wanted)],
    );
    onnx("Pow", 15).check(
        &[
            given::<i64>(&[4], &[3, 10, 2, -2]),
            given::<i64>(&[4], &[39, 20, 63, 63]),
        ],
        &[expected(
            &[4],
            &[
                4_052_555_153_018_976_267.0,
                i64::MIN as f64,
                i64::MIN as f64,
                i64::MIN as f64,
            ],
        )],
    );
}

#[test]
fn a_clip_of_an_lstm_leaves_its_cell_alone() {
    onnx("LSTM", 14)
        .int("hidden_size", 1)
        .float("clip", 0.25)
        .check(
            &[
                floats(&[3, 1, 2], 1),
                floats(&[1, 4, 2], 2),
                floats(&[1, 4, 1], 3),
                floats(&[1, 8], 4),
            ],
            &[
                expected(&[3, 1, 1, 1], &[-0.053349, -0.08916, -0.10879]),
                expected(&[1, 1, 1], &[-0.10879]),
                expected(&[1, 1, 1], &[-0.25379]),
            ],
        );
}

#[test]
fn attention_takes_values_and_a_mask_of_other_types() {
    let node = || onnx("Attention", 24);
    let shape = [1, 1, 3, 2];
    let wanted = [expected(
        &shape,
        &[-0.58483, 1.1652, -0.6374, 1.1126, -0.94903, 0.80097],
    )];
    let mask = || given::<f32>(&[3, 3], &[0.0, 1.0, 2.0, -1.0, 0.0, 1.0, 3.0, 0.0, 1.0]);
    node().check(
        &[
            floats(&shape, 1),
            floats(&shape, 2),
            floats(&shape, 3),
            mask(),
        ],
        &wanted,
    );
    let whole = given::<i8>(&[3, 3], &[0, 1, 2, -1, 0, 1, 3, 0, 1]);
    node().check(
        &[
            floats(&shape, 1),
            floats(&shape, 2),
            doubles(&shape, 3),
            whole,
        ],
        &wanted,
    );
}

#[test]
fn normalisations_take_parameters_of_other_types() {
    let wanted = || [expected(&[1, 2, 2], &[-1.6325, 0.58113, 0.19099, 0.8618])];
    let variance = |place: usize| ((place * 5 + 15) % 11 + 1) as f64 / 8.0;
    onnx("BatchNormalization", 15).check(
        &[
            floats(&[1, 2, 2], 1),
            halves(&[2], 2),
            halves(&[2], 3),
            doubles(&[2], 4),
            made(&[2], variance),
        ],
        &wanted(),
    );
    onnx("BatchNormalization", 15).check(
        &[
            doubles(&[1, 2, 2], 1),
            floats(&[2], 2),
            floats(&[2], 3),
            floats(&[2], 4),
            positive(&[2], 5),
        ],
        &wanted(),
    );
    let wanted = [expected(&[2, 2], &[-0.23249, -0.69748, 0.0, 0.70705])];
    onnx("RMSNormalization", 23).check(&[floats(&[2, 2], 1), floats(&[2], 2)], &wanted);
    onnx("RMSNormalization", 23).check(&[floats(&[2, 2], 1), doubles(&[2], 2)], &wanted);
    onnx("RMSNormalization", 23).check(&[halves(&[2, 2], 1), doubles(&[2], 2)], &wanted);
}

#[test]
fn integers_are_computed_by_way_of_floats() {
    let shrink = || onnx("Shrink", 9).float("lambd", 1.5).float("bias", 0.5);
    let wanted = [expected(
        &[9],
        &[-3.0, -2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0],
    )];
    let whole: Vec<i32> = (-4..5).collect();
    let small: Vec<i8> = (-4..5).collect();
    shrink().check(&[given(&[9], &whole)], &wanted);
    shrink().check(&[given(&[9], &small)], &wanted);
    // (2 * 3 + 4 * 5) / 2 + 7 / 4, and what is behind the point is left out.
    let gemm = || onnx("Gemm", 13).float("alpha", 0.5).float("beta", 0.25);
    gemm().check(
        &[
            given::<i32>(&[1, 2], &[2, 4]),
            given::<i32>(&[2, 1], &[3, 5]),
            given::<i32>(&[1], &[7]),
        ],
        &[expected(&[1, 1], &[14.0])],
    );
    onnx("Col2Im", 18).check(
        &[
            given::<i32>(&[1, 2, 2], &[1, 2, 3, 4]),
            given::<i64>(&[2], &[1, 3]),
            given::<i64>(&[2], &[1, 2]),
        ],
        &[expected(&[1, 1, 1, 3], &[1.0, 5.0, 4.0])],
    );
    onnx("GridSample", 20).string("mode", "nearest").check(
        &[
            given::<i64>(&[1, 1, 1, 2], &[1 << 40, 7]),
            given::<f32>(&[1, 1, 2, 2], &[-0.5, 0.0, 0.5, 0.0]),
        ],
        &[expected(&[1, 1, 1, 2], &[(1u64 << 40) as f64, 7.0])],
    );
    onnx("Det", 22).check(&[halves(&[2, 2], 1)], &[expected(&[], &[0.375])]);
}

#[test]
fn pictures_of_integers_are_rounded_where_they_are_smoothed() {
    let resize = |mode| onnx("Resize", 18).string("mode", mode).int("antialias", 1);
    let scales = |y, x| given::<f32>(&[4], &[1.0, 1.0, y, x]);
    resize("linear").check(
        &[bytes(&[1, 1, 4, 6], 1), None, scales(0.5, 0.5)],
        &[expected(
            &[1, 1, 2, 3],
            &[89.0, 87.0, 152.0, 181.0, 99.0, 92.0],
        )],
    );
    let wide = made(&[1, 1, 4, 6], |place| i32::from(super::byte(place, 3)));
    resize("cubic").check(
        &[wide, None, scales(0.5, 0.5)],
        &[expected(
            &[1, 1, 2, 3],
            &[89.0, 98.0, 185.0, 158.0, 38.0, 113.0],
        )],
    );
}

#[test]
fn pictures_of_integers_are_cut_off_where_they_grow() {
    onnx("Resize", 19)
        .string("mode", "linear")
        .string("coordinate_transformation_mode", "align_corners")
        .check(
            &[
                given::<i32>(&[1, 1, 2, 2], &[1, 2, 3, 4]),
                None,
                given::<f32>(&[4], &[1.0, 1.0, 2.0, 2.0]),
            ],
            &[expected(
                &[1, 1, 4, 4],
                &[
                    1.0, 1.0, 1.0, 2.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0, 3.0, 4.0,
                ],
            )],
        );
}

#[test]
fn truths_are_combined_as_numbers_and_none_is_false() {
    let scatter = |reduction| {
        onnx("ScatterElements", 18)
            .string("reduction", reduction)
            .int("axis", 0)
    };
    let inputs = || {
        [
            given::<bool>(&[3], &[false, true, true]),
            given::<i64>(&[3], &[0, 0, 1]),
            given::<bool>(&[3], &[true, true, false]),
        ]
    };
    scatter("add").check(&inputs(), &[expected(&[3], &[1.0, 1.0, 1.0])]);
    scatter("mul").check(&inputs(), &[expected(&[3], &[0.0, 0.0, 1.0])]);
    scatter("min").check(&inputs(), &[expected(&[3], &[0.0, 0.0, 1.0])]);
    let empty = || [given::<bool>(&[0, 2], &[]), given::<i64>(&[1], &[0])];
    onnx("ReduceMax", 20).check(&empty(), &[expected(&[1, 2], &[0.0, 0.0])]);
    onnx("ReduceMin", 20).check(&empty(), &[expected(&[1, 2], &[1.0, 1.0])]);
}

#[test]
fn regions_are_pooled_by_their_largest_elements() {
    let regions = given::<f32>(
        &[4, 5],
        &[
            0.0, 0.0, 0.0, 4.0, 3.0, 1.0, 1.25, -1.0, 5.5, 2.0, 0.0, 6.0, 5.0, 7.0, 5.0, 1.0, 2.0,
            1.0, 2.0, 1.0,
        ],
    );
    onnx("MaxRoiPool", 1)
        .ints("pooled_shape", &[2, 3])
        .float("spatial_scale", 0.75)
        .check(
            &[floats(&[2, 2, 4, 5], 1), regions],
            &[expected(
                &[4, 2, 2, 3],
                &[
                    1.5, 1.5, 0.75, 1.0, 1.25, 1.25, 1.25, 1.5, 1.5, 1.25, 1.5, 1.5, 0.0, 0.25,
                    0.25, 1.25, 1.5, 1.5, 1.0, 1.0, 1.25, 1.5, 0.75, 0.75, 0.0, 0.0, 0.0, 0.0, 0.0,
                    0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75, 0.0,
                    0.0, 0.0, 0.0, 0.0, 0.0,
                ],
            )],
        );
}

/// What a model of an early version gives for `x`, `[-1, 0.5, 2, 3]` of shape `[2, 2]`.
fn early(node: &str, version: i64, attributes: &[writer::Attribute]) -> Vec<f64> {
    let model = writer::Graph::new()
        .input("x", DType::F32, "2 2")
        .constant("column", &Array::new(&[10.0f32, 20.0], &[2]).unwrap())
        .constant("truth", &Array::new(&[true, false], &[2]).unwrap())
        .constant("times", &Array::new(&[2i64], &[]).unwrap())
        .constant("axis", &Array::new(&[1i64], &[]).unwrap())
        .node(node, attributes)
        .outputs("y")
        .model(&[("", version)]);
    let pool = crate::testing::host_pool();
    let session = Session::from_bytes(&pool, model, &SessionOptions::default()).unwrap();
    let x = Array::new(&[-1.0f32, 0.5, 2.0, 3.0], &[2, 2]).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    let y = outputs.get("y").unwrap();
    match y.dtype() {
        DType::I32 => y
            .values::<i32>()
            .unwrap()
            .iter()
            .map(|&y| y.into())
            .collect(),
        _ => y
            .values::<f32>()
            .unwrap()
            .iter()
            .map(|&y| y.into())
            .collect(),
    }
}

#[test]
fn early_versions_say_the_same_in_other_words() {
    use writer::{float, int, ints, string};
    let second = [int("broadcast", 1), int("axis", 0)];
    assert_eq!(
        early("Add x column = y", 6, &second),
        [9.0, 10.5, 22.0, 23.0]
    );
    assert_eq!(
        early("Add x column = y", 6, &[int("broadcast", 1)]),
        [9.0, 20.5, 12.0, 23.0]
    );
    assert_eq!(
        early("Cast x = y", 1, &[string("to", "INT32")]),
        [-1.0, 0.0, 2.0, 3.0]
    );
    let pads = [ints("paddings", &[0, 1, 0, 0]), float("value", 7.0)];
    assert_eq!(
        early("Pad x = y", 1, &pads),
        [7.0, -1.0, 0.5, 7.0, 2.0, 3.0]
    );
    assert_eq!(
        early("Tile x times axis = y", 1, &[]),
        [-1.0, 0.5, -1.0, 0.5, 2.0, 3.0, 2.0, 3.0]
    );
    let selu = early("Selu x = y", 1, &[])[0];
    let wanted = 1.0507 * 1.6732 * ((-1f64).exp() - 1.0);
    assert!((selu - wanted).abs() < 1e-6, "{selu}");
    assert_eq!(
        early("Reshape x = y", 1, &[ints("shape", &[4])]),
        [-1.0, 0.5, 2.0, 3.0]
    );
}

#[test]
fn grams_of_integers_are_counted() {
    let grams = |mode: &str| {
        onnx("TfIdfVectorizer", 9)
            .string("mode", mode)
            .int("min_gram_length", 1)
            .int("max_gram_length", 2)
            .int("max_skip_count", 1)
            .ints("ngram_counts", &[0, 2])
            .ints("ngram_indexes", &[2, 0, 1, 4])
            .ints("pool_int64s", &[5, 6, 5, 6, 6, 7])
            .floats("weights", &[0.5, 2.0, 3.0, 4.0])
    };
    let rows = || given::<i32>(&[2, 5], &[5, 6, 5, 7, 6, 6, 6, 7, 0, 5]);
    grams("TF").check(
        &[rows()],
        &[expected(
            &[2, 5],
            &[2.0, 2.0, 2.0, 0.0, 1.0, 2.0, 0.0, 1.0, 0.0, 2.0],
        )],
    );
    grams("IDF").check(
        &[rows()],
        &[expected(
            &[2, 5],
            &[2.0, 3.0, 0.5, 0.0, 4.0, 2.0, 0.0, 0.5, 0.0, 4.0],
        )],
    );
    grams("TFIDF").check(
        &[rows()],
        &[expected(
            &[2, 5],
            &[4.0, 6.0, 1.0, 0.0, 4.0, 4.0, 0.0, 0.5, 0.0, 8.0],
        )],
    );
}
