//! Small models, written as a test needs them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_model::onnx::writer::{self, Attribute};
use streampool_model::{Array, Session, SessionOptions};
use streampool_tensor::{DType, Pool};

pub use writer::{int, ints};

/// The operators' version.
const OPSET: i64 = 18;

/// A graph under construction: a model, or what a node holds.
#[derive(Default, Clone)]
pub struct Graph(writer::Graph);

impl Graph {
    /// Nothing so far.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// With an input of these sizes, divided by blanks: numbers, or names.
    pub fn input(self, name: &str, dtype: DType, sizes: &str) -> Graph {
        Graph(self.0.input(name, dtype, sizes))
    }

    /// With an output of these sizes.
    pub fn output(self, name: &str, dtype: DType, sizes: &str) -> Graph {
        Graph(self.0.output(name, dtype, sizes))
    }

    /// With an input of which nothing is said.
    pub fn untyped(self, name: &str) -> Graph {
        Graph(self.0.untyped(name))
    }

    /// With these outputs, divided by blanks, of which nothing is said.
    pub fn outputs(self, names: &str) -> Graph {
        Graph(self.0.outputs(names))
    }

    /// With a value that is always the same.
    pub fn constant(self, name: &str, array: &Array) -> Graph {
        Graph(self.0.constant(name, array))
    }

    /// With a node: `"Add a b = c"`, and its attributes.
    pub fn node(self, text: &str, attributes: &[Attribute]) -> Graph {
        Graph(self.0.node(text, attributes))
    }

    /// As [`node`](Self::node), with an operator of a domain.
    pub fn node_of(self, domain: &str, text: &str, attributes: &[Attribute]) -> Graph {
        Graph(self.0.node_of(domain, text, attributes))
    }

    /// Its session.
    pub fn session(self, pool: &Pool) -> Session {
        self.load(pool, &SessionOptions::default())
            .expect("a good model")
    }

    /// The bytes of its file.
    pub fn model(self) -> Vec<u8> {
        self.0.model(&[("", OPSET), ("of.nobody", OPSET)])
    }

    /// Its session with options, if it can be loaded.
    pub fn load(self, pool: &Pool, options: &SessionOptions) -> streampool_model::Result<Session> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let model = self.model();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("model-{}-{number}.onnx", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, model).expect("the target directory can be written");
        let session = Session::load_with(pool, &path, options);
        // Where a file that is mapped cannot be removed it stays.
        let _ = std::fs::remove_file(&path);
        session
    }
}

/// An attribute that is a graph.
pub fn graph(name: &str, graph: Graph) -> Attribute {
    writer::graph(name, graph.0)
}
