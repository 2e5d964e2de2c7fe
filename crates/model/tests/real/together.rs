//! Every model from many threads at once, with inputs of several shapes; also on a device with all the defects that
//! drivers are known to have.

use std::sync::{Arc, Barrier};

use streampool_adversary::Adversary;
use streampool_device::Quirk;
use streampool_host::{HostDevice, HostOptions};
use streampool_model::Session;
use streampool_runtime::{Mitigations, Settings};
use streampool_tensor::Pool;

use crate::compare::{assert_near, run};
use crate::data::Arrays;
use crate::{kinds, minilm, ocr, pool, silero};

/// A model, and inputs of several shapes.
struct Case {
    name: &'static str,
    session: fn(&Pool) -> Result<Session, String>,
    inputs: fn() -> Vec<Arrays>,
}

/// How far outputs may be off where a defect is worked around, which may add up in another order.
const NEAR: f32 = 1e-4;

const fn case(
    name: &'static str,
    session: fn(&Pool) -> Result<Session, String>,
    inputs: fn() -> Vec<Arrays>,
) -> Case {
    Case {
        name,
        session,
        inputs,
    }
}

fn frames(file: &str) -> Vec<Arrays> {
    let variants = silero::VARIANTS
        .iter()
        .filter(|variant| variant.file == file);
    let of = |variant: &silero::Variant| [variant.frame(1), variant.frame(2)];
    variants.flat_map(of).collect()
}

const CASES: &[Case] = &[
    case("minilm", minilm::session, || {
        let sizes = [(1, 8), (2, 5), (3, 16), (1, 31)];
        let each = (0..).zip(sizes);
        each.map(|(seed, (batch, length))| minilm::sentences(seed, batch, length))
            .collect()
    }),
    case(
        "silero",
        |pool| silero::session(pool, "silero_vad.onnx"),
        || frames("silero_vad.onnx"),
    ),
    case(
        "silero without If",
        |pool| silero::session(pool, "silero_vad_op18_ifless.onnx"),
        || frames("silero_vad_op18_ifless.onnx"),
    ),
    case(
        "silero of halves",
        |pool| silero::session(pool, "silero_vad_half.onnx"),
        || frames("silero_vad_half.onnx"),
    ),
    case("magika", kinds::session, || {
        vec![kinds::batch(0, 1), kinds::batch(1, 1), kinds::batch(2, 2)]
    }),
    case(
        "detect",
        |pool| ocr::session(pool, ocr::DETECT),
        || {
            vec![
                ocr::noise(1, &[1, 3, 32, 64]),
                ocr::noise(2, &[1, 3, 64, 32]),
            ]
        },
    ),
    case(
        "read",
        |pool| ocr::session(pool, ocr::READ),
        || {
            vec![
                ocr::noise(1, &[1, 3, 48, 32]),
                ocr::noise(2, &[1, 3, 48, 64]),
            ]
        },
    ),
    case(
        "turn",
        |pool| ocr::session(pool, ocr::TURN),
        || {
            vec![
                ocr::noise(1, &[1, 3, 48, 96]),
                ocr::noise(2, &[2, 3, 48, 64]),
            ]
        },
    ),
];

/// Each thread runs all inputs `turns` times, each from another one on; `check` gets the number of the inputs.
fn from_threads(
    threads: usize,
    turns: usize,
    session: &Session,
    inputs: &[Arrays],
    check: impl Fn(usize, &Arrays) + Sync,
) {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (barrier, check) = (&barrier, &check);
            scope.spawn(move || {
                barrier.wait();
                for turn in 0..turns * inputs.len() {
                    let number = (thread + turn) % inputs.len();
                    check(number, &run(session, &inputs[number]));
                }
            });
        }
    });
}

#[test]
fn all_threads_get_the_bits_of_one() {
    let Some(pool) = pool() else { return };
    for case in CASES {
        let session = match (case.session)(&pool) {
            Ok(session) => session,
            Err(why) => return println!("skipped: {why}"),
        };
        let inputs = (case.inputs)();
        let expected: Vec<Arrays> = inputs.iter().map(|inputs| run(&session, inputs)).collect();
        for (threads, turns) in [(1, 2), (8, 1), (31, 1)] {
            from_threads(threads, turns, &session, &inputs, |number, outputs| {
                assert!(
                    outputs == &expected[number],
                    "{}: inputs {number} differ among {threads} threads",
                    case.name
                );
            });
        }
        println!("{}: {:?}", case.name, session.statistics());
    }
}

#[test]
fn all_models_run_at_the_same_time() {
    let Some(pool) = pool() else { return };
    let made: Result<Vec<_>, String> = CASES
        .iter()
        .map(|case| Ok(((case.session)(&pool)?, (case.inputs)())))
        .collect();
    let made = match made {
        Ok(made) => made,
        Err(why) => return println!("skipped: {why}"),
    };
    let expected: Vec<Vec<Arrays>> = made
        .iter()
        .map(|(session, inputs)| inputs.iter().map(|inputs| run(session, inputs)).collect())
        .collect();
    let threads = 31;
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (made, expected, barrier) = (&made, &expected, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for turn in 0..made.len() {
                    let model = (thread + turn) % made.len();
                    let (session, inputs) = &made[model];
                    let number = thread % inputs.len();
                    let outputs = run(session, &inputs[number]);
                    let name = CASES[model].name;
                    assert!(
                        outputs == expected[model][number],
                        "{name}, inputs {number}"
                    );
                }
            });
        }
    });
}

/// A device with all defects, and a pool that works around them.
fn defective() -> (Arc<Adversary>, Pool) {
    let host = HostDevice::new(HostOptions::default().threads(2));
    let quirks = [
        Quirk::SharedMatMulState,
        Quirk::NormBoundToThread,
        Quirk::EncoderFreedInUse,
        Quirk::StridedCopyRace,
        Quirk::BuffersInFlight(2),
    ];
    let device = Adversary::new(host.expect("every machine is a host"), quirks);
    let settings = Settings::builder()
        .without_environment()
        .mitigations(Mitigations::All)
        .build()
        .expect("settings that are good");
    let pool = Pool::with_settings(device.clone(), settings).expect("a pool on the host");
    (device, pool)
}

#[test]
fn defects_of_drivers_are_worked_around() {
    let (device, pool) = defective();
    let sound = streampool_model::testing::host_pool();
    for case in CASES {
        let made = (case.session)(&pool).and_then(|own| Ok((own, (case.session)(&sound)?)));
        let (session, reference) = match made {
            Ok(made) => made,
            Err(why) => return println!("skipped: {why}"),
        };
        let inputs = (case.inputs)();
        let expected: Vec<Arrays> = inputs
            .iter()
            .map(|inputs| run(&reference, inputs))
            .collect();
        from_threads(8, 1, &session, &inputs, |number, outputs| {
            assert_near(case.name, outputs, &expected[number], NEAR);
        });
        assert_eq!(device.violations(), 0, "{}", case.name);
    }
}
