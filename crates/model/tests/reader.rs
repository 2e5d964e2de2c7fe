//! The reader on real models, and on what becomes of them when they are damaged.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use streampool_conformance::packages;
use streampool_model::graph::Graph;
use streampool_model::onnx;
use streampool_tensor::Pool;

/// More than any file here may take to be read or refused, on a machine that does other things, too.
const LONGEST: Duration = Duration::from_secs(10);

fn pool() -> Pool {
    streampool_model::testing::host_pool()
}

/// A model with graphs inside nodes; or why it cannot be had.
fn silero() -> Result<PathBuf, String> {
    let folder = packages::installed(env!("CARGO_TARGET_TMPDIR"), "silero-vad", "6.2.3")?;
    Ok(folder.join("silero_vad/data/silero_vad.onnx"))
}

/// Checks what a reader promises of a graph, and of those inside it.
fn assert_sound(graph: &Graph) {
    let mut made = vec![false; graph.value_count()];
    let captures = graph.captures.iter().map(|capture| capture.here);
    let given = graph.inputs.iter().copied().chain(captures);
    for id in given.chain(graph.constants.keys().copied()) {
        assert!(!made[id.index()], "{} is given twice", graph.name(id));
        made[id.index()] = true;
    }
    for node in &graph.nodes {
        for id in node.reads() {
            assert!(
                made[id.index()],
                "{} reads {} early",
                node.name,
                graph.name(id)
            );
        }
        for id in node.outputs.iter().flatten() {
            assert!(!made[id.index()], "{} is made twice", graph.name(*id));
            made[id.index()] = true;
        }
        node.graphs().for_each(assert_sound);
    }
    for id in &graph.outputs {
        assert!(made[id.index()], "{} is made nowhere", graph.name(*id));
    }
}

/// Reads a file that may be anything; says whether it is a model.
fn survives(bytes: Vec<u8>, pool: &Pool) -> bool {
    let begin = Instant::now();
    let read = onnx::read_bytes(Bytes::from(bytes), pool);
    assert!(begin.elapsed() < LONGEST, "{:?}", begin.elapsed());
    match &read {
        Ok(model) => assert_sound(&model.graph),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    read.is_ok()
}

/// Draws the same cases each time.
fn runner(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]))
}

#[test]
fn a_real_model_is_read() {
    let path = match silero() {
        Ok(path) => path,
        Err(why) => return println!("skipped: {why}"),
    };
    let model = onnx::read(&path, &pool()).unwrap();
    assert_sound(&model.graph);
    let names = |ids: &[streampool_model::graph::ValueId]| -> Vec<String> {
        ids.iter()
            .map(|id| model.graph.name(*id).to_owned())
            .collect()
    };
    assert_eq!(names(&model.graph.inputs), ["input", "state", "sr"]);
    assert_eq!(names(&model.graph.outputs), ["output", "stateN"]);
    assert!(
        model
            .graph
            .nodes
            .iter()
            .any(|node| node.graphs().count() == 2)
    );
    assert!(model.opsets[""] >= 7);
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(onnx::read(path, &pool()).is_err(), "a folder");
    assert!(
        onnx::read(&path.join("Cargo.toml"), &pool()).is_err(),
        "a text"
    );
}

#[test]
fn arbitrary_bytes_are_refused() {
    let pool = pool();
    let bytes = prop::collection::vec(any::<u8>(), 0..400);
    let test = |bytes: Vec<u8>| {
        survives(bytes, &pool);
        Ok(())
    };
    runner(4000).run(&bytes, test).unwrap();
}

/// How a file is damaged: places are parts of its length.
#[derive(Debug, Clone)]
enum Damage {
    Flip(Vec<(f64, u8)>),
    Cut(f64),
    /// Copies a stretch over another place.
    Splice {
        from: f64,
        to: f64,
        length: usize,
    },
    Remove {
        from: f64,
        length: usize,
    },
    /// Writes a length of many bytes.
    Swell(f64),
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = || 0.0..1.0f64;
    prop_oneof![
        prop::collection::vec((place(), any::<u8>()), 1..4).prop_map(Damage::Flip),
        place().prop_map(Damage::Cut),
        (place(), place(), 1..5000usize).prop_map(|(from, to, length)| Damage::Splice {
            from,
            to,
            length
        }),
        (place(), 1..5000usize).prop_map(|(from, length)| Damage::Remove { from, length }),
        place().prop_map(Damage::Swell),
    ]
}

/// Where in a file damage does most: most of its bytes are weights, which may be any.
fn structure(model: &[u8]) -> Vec<usize> {
    let is_text = |window: &&[u8]| {
        window
            .iter()
            .filter(|byte| byte.is_ascii_alphabetic())
            .count()
            >= 32
    };
    let windows = model.chunks(64).enumerate();
    let texts = windows.filter(|(_, window)| is_text(window));
    texts
        .flat_map(|(place, window)| (0..window.len()).map(move |byte| place * 64 + byte))
        .collect()
}

fn damaged(model: &[u8], places: &[usize], damage: &Damage) -> Vec<u8> {
    let at = |part: f64| places[(part * places.len() as f64) as usize];
    let mut bytes = model.to_vec();
    match *damage {
        Damage::Flip(ref flips) => {
            for &(place, byte) in flips {
                bytes[at(place)] ^= byte;
            }
        }
        Damage::Cut(length) => bytes.truncate(at(length)),
        Damage::Splice { from, to, length } => {
            let (from, to) = (at(from), at(to));
            let length = length.min(model.len() - from.max(to));
            bytes[to..][..length].copy_from_slice(&model[from..][..length]);
        }
        Damage::Remove { from, length } => {
            let from = at(from);
            bytes.drain(from..model.len().min(from + length));
        }
        Damage::Swell(place) => {
            let rest = &mut bytes[at(place)..];
            let length = rest.len().min(5);
            rest[..length].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x07][..length]);
        }
    }
    bytes
}

#[test]
fn damaged_models_are_read_or_refused() {
    let path = match silero() {
        Ok(path) => path,
        Err(why) => return println!("skipped: {why}"),
    };
    let model = std::fs::read(path).unwrap();
    let places = structure(&model);
    assert!(!places.is_empty());
    let pool = pool();
    let read = Cell::new(0);
    let test = |damage: Damage| {
        let survived = survives(damaged(&model, &places, &damage), &pool);
        read.set(read.get() + u32::from(survived));
        Ok(())
    };
    const CASES: u32 = 1000;
    runner(CASES).run(&damage(), test).unwrap();
    let read = read.get();
    println!("{read} of {CASES} damaged models are models still");
    assert!(read > 0 && read < CASES);
}
