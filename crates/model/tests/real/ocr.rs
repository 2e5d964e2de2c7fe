//! Text in pictures: where it is, which way up, and what it says.

use streampool_model::{Array, Session, onnx};
use streampool_tensor::Pool;

use crate::compare::{assert_near, floats, run};
use crate::data::{Arrays, OCR, references};
use crate::{picture, pool};
use streampool_model::testing::Random;
use streampool_model::testing::host_pool;

pub const DETECT: &str = "ch_PP-OCRv4_det_infer.onnx";
pub const READ: &str = "ch_PP-OCRv4_rec_infer.onnx";
pub const TURN: &str = "ch_ppocr_mobile_v2.0_cls_infer.onnx";

pub fn session(pool: &Pool, file: &str) -> Result<Session, String> {
    let path = OCR.file(file)?;
    Ok(Session::load(pool, path).unwrap_or_else(|error| panic!("{file}: {error}")))
}

/// Pictures of noise.
pub fn noise(seed: u64, shape: &[usize]) -> Arrays {
    vec![("x".to_owned(), Random::new(seed).reals(shape))]
}

fn agrees(file: &str, name: &str, inputs: &[Arrays], near: f32) {
    let Some(pool) = pool() else { return };
    let made = OCR.file(file).and_then(|path| {
        let references = references(&path, name, inputs)?;
        Ok((session(&pool, file)?, references))
    });
    let (session, references) = match made {
        Ok(made) => made,
        Err(why) => return println!("skipped: {why}"),
    };
    for (inputs, expected) in &references {
        let what = format!("{name} of {:?}", inputs[0].1);
        assert_near(&what, &run(&session, inputs), expected, near);
    }
    assert_eq!(
        session.statistics().nodes_alone,
        0,
        "all of it is one program"
    );
}

#[test]
fn detection_agrees_with_onnx_runtime() {
    let sizes = [
        [1, 3, 64, 64],
        [1, 3, 96, 160],
        [2, 3, 32, 96],
        [1, 3, 320, 224],
    ];
    let inputs = sizes.map(|size| noise(size[2] as u64, &size));
    agrees(DETECT, "detect", &inputs, 2e-5);
}

#[test]
fn reading_agrees_with_onnx_runtime() {
    let mut inputs = vec![
        noise(1, &[1, 3, 48, 32]),
        noise(2, &[1, 3, 48, 320]),
        noise(3, &[3, 3, 48, 100]),
    ];
    inputs.push(vec![("x".to_owned(), picture::text("STREAMPOOL"))]);
    agrees(READ, "read", &inputs, 1e-4);
}

#[test]
fn turning_agrees_with_onnx_runtime() {
    let inputs = [
        noise(1, &[1, 3, 48, 192]),
        noise(2, &[4, 3, 48, 192]),
        noise(3, &[1, 3, 48, 96]),
    ];
    agrees(TURN, "turn", &inputs, 2e-5);
}

/// The letters that the places of an output stand for; the first stands for none.
fn letters() -> Result<Vec<String>, String> {
    let model = onnx::read(&OCR.file(READ)?, &host_pool()).map_err(|error| error.to_string())?;
    let known = model
        .metadata
        .get("character")
        .expect("the model lists its letters");
    let mut letters = vec![String::new()];
    letters.extend(known.lines().map(str::to_owned));
    letters.push(" ".to_owned());
    Ok(letters)
}

/// What scores say: the best letter of each place, where it is another than that before.
fn said(scores: &Array, letters: &[String]) -> String {
    let best = floats(scores).chunks(letters.len()).map(|scores| {
        let best = scores
            .iter()
            .enumerate()
            .max_by(|one, other| one.1.total_cmp(other.1));
        best.map_or(0, |(letter, _)| letter)
    });
    let mut best: Vec<usize> = best.collect();
    best.dedup();
    best.into_iter()
        .map(|letter| &letters[letter][..])
        .collect()
}

#[test]
fn a_text_is_read() {
    let Some(pool) = pool() else { return };
    let made = session(&pool, READ).and_then(|session| Ok((session, letters()?)));
    let (session, letters) = match made {
        Ok(made) => made,
        Err(why) => return println!("skipped: {why}"),
    };
    for text in [
        "2024",
        "0123456789",
        "31415926",
        "HELLO",
        "STREAMPOOL",
        "THREADS",
        "SHARED",
    ] {
        let inputs = vec![("x".to_owned(), picture::text(text))];
        let outputs = run(&session, &inputs);
        assert_eq!(outputs[0].1.shape()[2], letters.len());
        assert_eq!(said(&outputs[0].1, &letters), text);
    }
}
