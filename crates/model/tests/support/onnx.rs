//! Small models, written as a test needs them, and loaded from files.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_model::{Session, SessionOptions};
use streampool_tensor::Pool;

pub use streampool_model::onnx::writer::{Graph, graph, int, ints};

/// The operators' version.
const OPSET: i64 = 18;

/// Graphs as sessions.
pub trait Load: Sized {
    /// The bytes of a graph's file.
    fn file(self) -> Vec<u8>;

    /// Its session.
    fn session(self, pool: &Pool) -> Session {
        self.load(pool, &SessionOptions::default())
            .expect("a good model")
    }

    /// Its session with options, if it can be loaded.
    fn load(self, pool: &Pool, options: &SessionOptions) -> streampool_model::Result<Session> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let model = self.file();
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

impl Load for Graph {
    fn file(self) -> Vec<u8> {
        self.model(&[("", OPSET), ("of.nobody", OPSET)])
    }
}
