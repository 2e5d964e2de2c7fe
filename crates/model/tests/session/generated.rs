//! Random graphs: a session that lives long answers each request as one that was made for it alone.
//!
//! Weights are cut and turned by shapes and small integers, nodes that ask for values come between, and sequences, loops and
//! choices; requests differ in sizes and values, some are bad, and they come by all ways that there are, from several threads
//! too. `GENERATED_GRAPHS` says how many graphs there are, `GENERATED_FIRST` the seed of the first.

use std::fmt::Write;

use streampool_model::{Array, Input, Outputs, RunOptions, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

use super::device::host;
use super::longs;
use crate::arrays::Random;
use crate::onnx::{Graph, graph, int};

/// The columns of every matrix: 17 rows are more than what is told apart by its values.
const WIDTH: usize = 64;

/// So many graphs, if nothing is said.
const GRAPHS: u64 = 400;

/// A graph in the making: matrices of `WIDTH` columns, by name.
struct Making {
    random: Random,
    graph: Graph,
    matrices: Vec<String>,
    sequences: Vec<String>,
    /// What may fail by an index. All of it is an output: whether a value is made that nobody needs depends on the plan.
    watched: Vec<String>,
    names: usize,
    /// What it is, for whoever looks for the reason.
    text: String,
}

impl Making {
    fn new(seed: u64) -> Making {
        let mut random = Random::new(seed);
        let graph = Graph::new()
            .input("x", DType::F32, "n 64")
            .input("count", DType::I64, "1")
            .input("places", DType::I64, "m")
            .constant("table", &random.reals(&[256, WIDTH]))
            .constant("wide", &random.reals(&[32, 8 * WIDTH]))
            .constant("square", &random.reals(&[WIDTH, WIDTH]))
            .constant("zero", &longs(&[0], &[1]))
            .constant("one", &longs(&[1], &[1]))
            .constant("nothing", &longs(&[0], &[]))
            .constant("step", &longs(&[1], &[]))
            .constant("rows_of", &longs(&[-1, WIDTH as i64], &[2]))
            .constant("limit", &Array::scalar(0f32));
        Making {
            random,
            graph,
            matrices: vec!["x".to_owned()],
            sequences: Vec::new(),
            watched: Vec::new(),
            names: 0,
            text: String::new(),
        }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    /// Adds a node; the name of what it makes.
    fn node(
        &mut self,
        call: &str,
        attributes: &[streampool_model::onnx::writer::Attribute],
    ) -> String {
        let name = self.name();
        let text = format!("{call} = {name}");
        let _ = writeln!(self.text, "{text}");
        self.graph = std::mem::take(&mut self.graph).node(&text, attributes);
        name
    }

    fn matrix(&mut self) -> String {
        // The latest are the likeliest.
        let count = self.matrices.len() as u64;
        let back = self.random.below(count).min(self.random.below(count));
        self.matrices[(count - 1 - back) as usize].clone()
    }

    fn add(&mut self) {
        let m = self.matrix();
        let made = match self.random.below(22) {
            // Weights, as shapes and small integers say.
            0 | 1 => {
                let shape = self.node(&format!("Shape {m}"), &[]);
                let rows = self.node(&format!("Slice {shape} zero one zero"), &[]);
                self.node(&format!("Slice table zero {rows} zero"), &[])
            }
            2 | 3 => self.node("Slice table zero count zero", &[]),
            4 => {
                let sizes = self.node("Concat count rows_of", &[int("axis", 0)]);
                let sizes = self.node(&format!("Slice {sizes} one three zero"), &[]);
                self.node(&format!("Reshape wide {sizes}"), &[])
            }
            5 => {
                let turned = self.node("Transpose square", &[]);
                let both = self.node(&format!("Concat {turned} square"), &[int("axis", 0)]);
                self.node(&format!("Slice {both} count end zero"), &[])
            }
            6 => {
                let number = self.node("Squeeze count zero", &[]);
                let range = self.node(&format!("Range nothing {number} step"), &[]);
                self.node(&format!("Gather table {range}"), &[int("axis", 0)])
            }
            // Values decide.
            7 | 8 => {
                let column = self.node(&format!("Slice {m} zero one one"), &[]);
                // Of a single element there is as much in each request, so that only what is known differs.
                let positive = match self.random.below(2) {
                    0 => self.node(&format!("Relu {column}"), &[]),
                    _ => {
                        let one = self.node(&format!("Slice {column} zero one zero"), &[]);
                        self.node(&format!("Abs {one}"), &[])
                    }
                };
                let flat = self.node(&format!("Squeeze {positive} one"), &[]);
                let places = self.node(&format!("NonZero {flat}"), &[]);
                let flat = self.node(&format!("Squeeze {places} zero"), &[]);
                let from = self.matrix();
                self.gather(&from, &flat)
            }
            9 => {
                let sums = self.node(&format!("ReduceSum {m} one"), &[int("keepdims", 0)]);
                let kept = self.node(&format!("Greater {sums} limit"), &[]);
                self.node(&format!("Compress {m} {kept}"), &[int("axis", 0)])
            }
            10 => self.choice(&m),
            11 => self.rounds(&m),
            12 => self.gather(&m, "places"),
            13 => {
                let most = self.node("ReduceMax places", &[]);
                let end = self.node(&format!("Add {most} one"), &[]);
                self.node(&format!("Slice {m} zero {end} zero"), &[])
            }
            // Sequences.
            14 => {
                let made = self.node(&format!("SplitToSequence {m} one"), &[int("axis", 0)]);
                self.sequences.push(made);
                return;
            }
            15 | 16 => {
                let Some(sequence) = self.sequences.last().cloned() else {
                    return;
                };
                match self.random.below(3) {
                    0 => self.node(&format!("SequenceAt {sequence} nothing"), &[]),
                    1 => self.node(&format!("ConcatFromSequence {sequence}"), &[int("axis", 0)]),
                    _ => {
                        let made = self.node(&format!("SequenceInsert {sequence} {m}"), &[]);
                        self.sequences.push(made);
                        return;
                    }
                }
            }
            // And the ordinary.
            17 => self.node(&format!("MatMul {m} square"), &[]),
            18 => self.node(&format!("Tanh {m}"), &[]),
            19 => {
                let mean = self.node(&format!("ReduceMean {m} zero"), &[]);
                self.node(&format!("Sub {m} {mean}"), &[])
            }
            20 => self.node(&format!("Softmax {m}"), &[]),
            _ => {
                let other = self.matrix();
                self.node(&format!("Concat {m} {other}"), &[int("axis", 0)])
            }
        };
        self.matrices.push(made);
    }

    fn gather(&mut self, from: &str, places: &str) -> String {
        let made = self.node(&format!("Gather {from} {places}"), &[int("axis", 0)]);
        self.watched.push(made.clone());
        made
    }

    fn choice(&mut self, m: &str) -> String {
        let sum = self.node(&format!("ReduceSum {m}"), &[int("keepdims", 0)]);
        let yes = self.node(&format!("Less {sum} limit"), &[]);
        let [then, other] = [self.name(), self.name()];
        let then = Graph::new()
            .node(&format!("Neg {m} = {then}"), &[])
            .outputs(&then);
        let other = Graph::new()
            .node(&format!("Concat {m} {m} = {other}"), &[int("axis", 0)])
            .outputs(&other);
        let branches = [graph("then_branch", then), graph("else_branch", other)];
        self.node(&format!("If {yes}"), &branches)
    }

    fn rounds(&mut self, m: &str) -> String {
        let number = self.node("Squeeze small zero", &[]);
        let [round, more, carried, next] = [(); 4].map(|()| self.name());
        let body = Graph::new()
            .input(&round, DType::I64, "")
            .input(&more, DType::Bool, "")
            .untyped(&carried)
            .node(&format!("Identity {more} = on_{next}"), &[])
            .node(&format!("Add {carried} {m} = {next}"), &[])
            .outputs(&format!("on_{next} {next}"));
        self.node(&format!("Loop {number} - {m}"), &[graph("body", body)])
    }

    /// The model, and what it is.
    fn model(mut self) -> (Vec<u8>, String) {
        let graph = std::mem::take(&mut self.graph);
        let last = self.matrices.iter().rev().take(3);
        let mut outputs: Vec<&str> = last.chain(&self.watched).map(String::as_str).collect();
        outputs.sort_unstable();
        outputs.dedup();
        let mut outputs = outputs.join(" ");
        if let Some(sequence) = self.sequences.last() {
            let _ = write!(outputs, " {sequence}");
        }
        (graph.outputs(&outputs).model(), self.text)
    }
}

/// A graph of this seed.
fn generated(seed: u64) -> (Vec<u8>, String) {
    let mut making = Making::new(seed);
    making.graph = std::mem::take(&mut making.graph)
        .constant("three", &longs(&[3], &[1]))
        .constant("end", &longs(&[1 << 20], &[1]))
        .node("Min count three = small", &[]);
    for _ in 0..3 + making.random.below(10) {
        making.add();
    }
    making.model()
}

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
fn agree(one: &Answer, other: &Answer) -> bool {
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
                        || (one - other).abs() <= 1e-4 * (1.0 + one.abs())
                };
                Ok::<bool, streampool_tensor::Error>(pairs.all(is_near))
            };
            one.shape() == other.shape() && (one == other || near().unwrap_or(false))
        })
}

/// What is wrong with the answers of a session that lives long, if anything is.
fn wrong(pool: &Pool, seed: u64) -> Result<usize, String> {
    let (model, text) = generated(seed);
    let load = || Session::from_bytes(pool, model.clone(), &SessionOptions::default());
    let told = |what: String| format!("graph {seed}: {what}\n{text}");
    let session = load().map_err(|error| told(error.to_string()))?;
    let mut random = Random::new(seed ^ 0x5eed);
    let rows = 1 + random.below(40) as usize;
    let requests: Vec<Request> = (0..4).map(|_| Request::new(rows, &mut random)).collect();
    let expected: Vec<Answer> = requests
        .iter()
        .map(|request| {
            let alone = load().and_then(|session| session.run_in_order(&request.inputs()));
            answer(alone)
        })
        .collect();
    let urgent = RunOptions {
        urgent: true,
        ..RunOptions::default()
    };
    let compare = |got: Answer, place: usize, how: &str| match agree(&got, &expected[place]) {
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
                answer(session.run_in_order(&request.inputs())),
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
    let pool = host();
    let (first, count) = (
        setting("GENERATED_FIRST").unwrap_or(1),
        setting("GENERATED_GRAPHS").unwrap_or(GRAPHS),
    );
    let (mut answered, mut wrongs) = (0, Vec::new());
    for seed in first..first + count {
        match wrong(&pool, seed) {
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
