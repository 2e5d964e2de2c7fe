//! Where somebody speaks: a model with a state, in each of its variants.

use streampool_model::{Array, Session};
use streampool_tensor::Pool;

use crate::compare::{assert_near, run};
use crate::data::{Arrays, SILERO, references};
use crate::pool;
use streampool_model::testing::Random;

const FRAMES: usize = 30;
/// The numbers in a state for each signal.
const STATE: usize = 128;

/// How far outputs may be off, also after many frames.
const NEAR: f32 = 2e-5;

/// A variant of the model, for a sampling rate.
pub struct Variant {
    pub file: &'static str,
    /// Given with each frame.
    rate: Option<i64>,
    batch: usize,
    /// In a frame, with those of the frame before it that it takes.
    samples: usize,
}

const fn variant(file: &'static str, rate: Option<i64>, batch: usize) -> Variant {
    Variant {
        file,
        rate,
        batch,
        samples: match rate {
            Some(8000) => 256 + 32,
            _ => 512 + 64,
        },
    }
}

/// All whose state is one array.
pub const VARIANTS: &[Variant] = &[
    variant("silero_vad.onnx", Some(16000), 1),
    variant("silero_vad.onnx", Some(8000), 1),
    variant("silero_vad.onnx", Some(16000), 3),
    variant("silero_vad_16k_op15.onnx", Some(16000), 2),
    variant("silero_vad_op18_ifless.onnx", Some(16000), 2),
    variant("silero_vad_op18_ifless.onnx", Some(8000), 1),
    variant("silero_vad_openvino_16k.onnx", None, 1),
    variant("silero_vad_half.onnx", None, 1),
];

impl Variant {
    /// Something between a voice and noise: tones that come and go.
    fn signal(&self, seed: u64, frames: usize) -> Array {
        let mut random = Random::new(seed);
        let mut values = Vec::new();
        for frame in 0..frames {
            for voice in 0..self.batch {
                let loud = ((frame + voice) as f32 * 0.4).sin().max(0.0) * 0.3;
                for sample in 0..self.samples {
                    let time = (frame * self.samples + sample) as f32 / 16000.0;
                    let pitch = 120.0 + 40.0 * voice as f32;
                    let tone: f32 = (1..8)
                        .map(|over| {
                            (time * pitch * over as f32 * std::f32::consts::TAU).sin() / over as f32
                        })
                        .sum();
                    values.push(loud * tone + 0.01 * random.real());
                }
            }
        }
        Array::new(&values, &[frames, self.batch, self.samples]).expect("as many as counted")
    }

    /// All frames of a signal, and the state before the first.
    fn frames(&self, seed: u64) -> Arrays {
        let mut inputs = vec![("input".to_owned(), self.signal(seed, FRAMES))];
        if let Some(rate) = self.rate {
            let rates = Array::new(&[rate; FRAMES], &[FRAMES]).expect("one for each frame");
            inputs.push(("sr".to_owned(), rates));
        }
        let state = Array::new(&vec![0f32; 2 * self.batch * STATE], &[2, self.batch, STATE]);
        inputs.push(("feedback.stateN.state".to_owned(), state.expect("zeros")));
        inputs
    }

    /// One frame of some state.
    pub fn frame(&self, seed: u64) -> Arrays {
        let signal = self.signal(seed, 1);
        let frame = Array::from_bytes(signal.dtype(), signal.bytes(), &signal.shape()[1..]);
        let state = Random::new(seed).reals(&[2, self.batch, STATE]);
        let mut inputs = vec![
            ("input".to_owned(), frame.expect("the only frame")),
            ("state".to_owned(), state),
        ];
        if let Some(rate) = self.rate {
            inputs.push(("sr".to_owned(), Array::scalar(rate)));
        }
        inputs
    }
}

pub fn session(pool: &Pool, file: &str) -> Result<Session, String> {
    let path = SILERO.file(file)?;
    Ok(Session::load(pool, path).unwrap_or_else(|error| panic!("{file}: {error}")))
}

/// Part `step` of an array along its first axis.
fn part(array: &Array, step: usize) -> Array {
    let bytes = array.bytes().len() / array.shape()[0];
    let bytes = &array.bytes()[step * bytes..][..bytes];
    Array::from_bytes(array.dtype(), bytes, &array.shape()[1..]).expect("a part")
}

#[test]
fn every_frame_agrees_with_onnx_runtime() {
    let Some(pool) = pool() else { return };
    for (number, variant) in VARIANTS.iter().enumerate() {
        let what = format!("{} at {:?}", variant.file, variant.rate);
        let made = SILERO.file(variant.file).and_then(|path| {
            let given = [variant.frames(number as u64)];
            let mut made = references(&path, &format!("silero{number}"), &given)?;
            Ok((session(&pool, variant.file)?, made.remove(0)))
        });
        let (session, (given, expected)) = match made {
            Ok(made) => made,
            Err(why) => return println!("skipped: {why}"),
        };
        let mut state = None;
        for step in 0..FRAMES {
            let inputs = given.iter().map(|(name, array)| match &name[..] {
                "feedback.stateN.state" => {
                    let state = state.clone().unwrap_or_else(|| array.clone());
                    ("state".to_owned(), state)
                }
                name => (name.to_owned(), part(array, step)),
            });
            let outputs = run(&session, &inputs.collect());
            let expected = expected
                .iter()
                .map(|(name, all)| (name.clone(), part(all, step)));
            let what = format!("{what}, frame {step}");
            assert_near(&what, &outputs, &expected.collect(), NEAR);
            let next = outputs.iter().find(|(name, _)| name == "stateN");
            state = next.map(|(_, array)| array.clone());
        }
        println!("{what}: {:?}", session.statistics());
    }
}

#[test]
fn both_rates_may_alternate() {
    let Some(pool) = pool() else { return };
    let session = match session(&pool, VARIANTS[0].file) {
        Ok(session) => session,
        Err(why) => return println!("skipped: {why}"),
    };
    let frames = [VARIANTS[0].frame(1), VARIANTS[1].frame(2)];
    let expected = frames.each_ref().map(|inputs| run(&session, inputs));
    for _ in 0..5 {
        for (inputs, expected) in frames.iter().zip(&expected) {
            assert!(&run(&session, inputs) == expected);
        }
    }
}

#[test]
fn a_whole_sequence_agrees_with_onnx_runtime() {
    let Some(pool) = pool() else { return };
    let file = "silero_vad_16k_sequence.onnx";
    let inputs: Vec<Arrays> = [1usize, 7, 40]
        .iter()
        .map(|&frames| {
            let signal = VARIANTS[0].signal(frames as u64, frames);
            let shape = [frames, VARIANTS[0].samples];
            let signal = Array::from_bytes(signal.dtype(), signal.bytes(), &shape);
            let mut random = Random::new(9);
            vec![
                ("input".to_owned(), signal.expect("one signal")),
                ("h".to_owned(), random.reals(&[1, 1, STATE])),
                ("c".to_owned(), random.reals(&[1, 1, STATE])),
            ]
        })
        .collect();
    let made = SILERO.file(file).and_then(|path| {
        let references = references(&path, "silero_sequence", &inputs)?;
        Ok((session(&pool, file)?, references))
    });
    let (session, references) = match made {
        Ok(made) => made,
        Err(why) => return println!("skipped: {why}"),
    };
    for (inputs, expected) in &references {
        assert_near(file, &run(&session, inputs), expected, NEAR);
    }
}
