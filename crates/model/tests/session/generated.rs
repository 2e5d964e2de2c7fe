//! Random graphs: a session that lives long answers each request as one that was made for it alone.
//!
//! Weights are cut and turned by shapes and small integers, nodes that ask for values come between, and sequences, loops and
//! choices; requests differ in sizes and values, some are bad, and they come by all ways that there are, from several threads
//! too. `GENERATED_GRAPHS` says how many graphs there are, `GENERATED_FIRST` the seed of the first, and `GRAPHS_TO` a folder that
//! gets each model with its requests and their answers; `bench/graphs/compare.py` sets these and asks ONNX Runtime.

mod maker;
mod pieces;

use std::path::Path;

use streampool_model::{Array, Input, Outputs, RunOptions, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

use self::maker::generated;
use super::longs;
use streampool_model::testing::{Random, host_pool, save_case};

/// The columns of every matrix: 17 rows are more than what is told apart by its values.
const WIDTH: usize = 64;

/// So many graphs, if nothing is said.
const GRAPHS: u64 = 400;

/// What one request gives.
struct Request([Array; 3]);

impl Request {
    /// Often of so many rows.
    fn new(rows: usize, random: &mut Random) -> Request {
        let rows = match random.below(2) {
            0 => rows,
            _ => 1 + random.below(40) as usize,
        };
        let most = [40, 40, 40, 200][random.below(4) as usize];
        let count = random.below(most);
        // Now and then there are more than a plan is made for, or a place that is not there.
        let most = [4, 4, 12][random.below(3) as usize];
        let many = 1 + random.below(most) as usize;
        let end = if random.below(6) == 0 {
            60
        } else {
            rows as u64
        };
        let places: Vec<i64> = (0..many).map(|_| random.below(end) as i64).collect();
        Request([
            random.reals(&[rows, WIDTH]),
            longs(&[count as i64], &[1]),
            longs(&places, &[many]),
        ])
    }

    fn inputs(&self) -> Vec<Input<'_>> {
        self.0.iter().map(Input::from).collect()
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &Array)> {
        ["x", "count", "places"].into_iter().zip(&self.0)
    }
}

type Answer = Result<Vec<Vec<Array>>, String>;

fn answer(outputs: streampool_model::Result<Outputs>) -> Answer {
    let outputs = outputs.map_err(|error| error.to_string())?;
    Ok(outputs.iter().map(|(_, arrays)| arrays.to_vec()).collect())
}

/// Whether both are the same but for rounding, or both failed.
fn agree(one: &Answer, other: &Answer, room: f32) -> bool {
    let (one, other) = match (one, other) {
        (Ok(one), Ok(other)) => (one.concat(), other.concat()),
        (one, other) => return one.is_err() && other.is_err(),
    };
    one.len() == other.len()
        && one.iter().zip(&other).all(|(one, other)| {
            let near = || {
                let (one, other) = (one.values::<f32>()?, other.values::<f32>()?);
                let mut pairs = one.iter().zip(other);
                let is_near = |(one, other): (&f32, &f32)| {
                    one.to_bits() == other.to_bits()
                        || (one - other).abs() <= room * (1.0 + one.abs())
                };
                Ok::<bool, streampool_tensor::Error>(pairs.all(is_near))
            };
            one.shape() == other.shape() && (one == other || near().unwrap_or(false))
        })
}

/// What is wrong with the answers of a session that lives long, if anything is.
fn wrong(pool: &Pool, seed: u64, folder: Option<&Path>) -> Result<usize, String> {
    let (model, text) = generated(seed);
    let in_halves = SessionOptions {
        precision: Some(DType::F16),
        ..SessionOptions::default()
    };
    // Files tell of what the model says itself; and with control flow there are no halves.
    let half = folder.is_none()
        && seed % 5 == 1
        && Session::from_bytes(pool, model.clone(), &in_halves).is_ok();
    let options = match half {
        true => in_halves,
        false => SessionOptions::default(),
    };
    let room = if half { 2e-2 } else { 1e-4 };
    let load = || Session::from_bytes(pool, model.clone(), &options);
    let told = |what: String| format!("graph {seed} (half: {half}): {what}\n{text}");
    let session = load().map_err(|error| told(error.to_string()))?;
    let mut random = Random::new(seed ^ 0x5eed);
    let rows = 1 + random.below(40) as usize;
    let requests: Vec<Request> = (0..4).map(|_| Request::new(rows, &mut random)).collect();
    let expected: Vec<Answer> = requests
        .iter()
        .map(|request| {
            let alone = load().and_then(|session| session.run_positional(&request.inputs()));
            answer(alone)
        })
        .collect();
    if let Some(folder) = folder {
        for (place, (request, answer)) in requests.iter().zip(&expected).enumerate() {
            let number = seed * requests.len() as u64 + place as u64;
            let made = answer.as_ref().map(|made| made.concat());
            let made = made.as_deref().map_err(|why| &why[..]);
            save_case(folder, number, &model, request.named(), made);
        }
    }
    let urgent = RunOptions {
        urgent: true,
        ..RunOptions::default()
    };
    let compare = |got: Answer, place: usize, how: &str| match agree(&got, &expected[place], room) {
        true => Ok(()),
        false => {
            let short = |answer: &Answer| match answer {
                Ok(arrays) => format!("{arrays:?}"),
                Err(error) => error.clone(),
            };
            let (got, expected) = (short(&got), short(&expected[place]));
            Err(told(format!(
                "request {place}, {how}: {got} for {expected}"
            )))
        }
    };
    let one = |place: usize, way: u64| {
        let request = &requests[place];
        match way {
            0 => compare(
                answer(session.run_positional(&request.inputs())),
                place,
                "run",
            ),
            1 => compare(
                answer(session.run_with(request.named(), &urgent)),
                place,
                "urgent",
            ),
            2 => {
                let pending = session.submit(request.named());
                compare(answer(pending.and_then(|run| run.wait())), place, "submit")
            }
            _ => {
                // Nobody waits for these; what comes next does.
                drop(session.run_to_tensors(&request.inputs()));
                drop(session.submit(request.named()));
                Ok(())
            }
        }
    };
    for _ in 0..8 {
        one(random.below(4) as usize, random.below(4))?;
    }
    let pending: Vec<_> = requests
        .iter()
        .map(|request| session.submit(request.named()))
        .collect();
    for (place, run) in pending.into_iter().enumerate() {
        compare(answer(run.and_then(|run| run.wait())), place, "pending")?;
    }
    if seed.is_multiple_of(4) {
        std::thread::scope(|scope| {
            let threads = [0, 1, 2].map(|thread| {
                let one = &one;
                scope.spawn(move || {
                    let mut random = Random::new(seed + thread);
                    (0..6).try_for_each(|_| one(random.below(4) as usize, random.below(3)))
                })
            });
            let all =
                threads.map(|thread| thread.join().map_err(|_| told("a panic".to_owned()))?);
            all.into_iter().collect::<Result<Vec<()>, String>>()
        })?;
    }
    Ok(expected.iter().filter(|answer| answer.is_ok()).count())
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_session_that_lives_long_answers_as_one_made_for_the_request() {
    let pool = host_pool();
    let (first, count) = (
        setting("GENERATED_FIRST").unwrap_or(1),
        setting("GENERATED_GRAPHS").unwrap_or(GRAPHS),
    );
    let folder = std::env::var_os("GRAPHS_TO");
    let (mut answered, mut wrongs) = (0, Vec::new());
    for seed in first..first + count {
        match wrong(&pool, seed, folder.as_deref().map(Path::new)) {
            Ok(good) => answered += good,
            Err(why) => wrongs.push(why),
        }
    }
    println!(
        "{count} graphs, {answered} of {} requests answered",
        4 * count
    );
    let shown: Vec<&str> = wrongs.iter().take(3).map(String::as_str).collect();
    assert!(
        wrongs.is_empty(),
        "{} are wrong:\n{}",
        wrongs.len(),
        shown.join("\n")
    );
    assert!(answered as u64 > 2 * count, "too few are good");
}
