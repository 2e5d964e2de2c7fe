//! What the crate `tracing` is told.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use streampool::model::onnx::writer::{Graph, int};
use streampool::{Array, BatchQueue, DType, ForSession, Session, SessionOptions};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// How often each span began, and the messages of events.
#[derive(Clone, Default)]
struct Told {
    next: Arc<AtomicU64>,
    names: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Told {
    fn add(&self, name: &str) {
        *self
            .names
            .lock()
            .unwrap()
            .entry(name.to_owned())
            .or_default() += 1;
    }

    fn count(&self, name: &str) -> usize {
        self.names.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

impl Visit for &Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.add(&format!("{value:?}"));
        }
    }
}

impl Subscriber for Told {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "streampool"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.add(span.metadata().name());
        Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut &*self);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn runs_plans_captures_batches_and_faults_are_told() {
    let told = Told::default();
    tracing::subscriber::set_global_default(told.clone()).unwrap();
    let table = Array::new(&[1.0f32, 2.0], &[2]).unwrap();
    let graph = Graph::new()
        .input("places", DType::I64, "batch 1")
        .constant("table", &table)
        .node("Gather table places = y", &[int("axis", 0)])
        .output("y", DType::F32, "batch 1");
    let pool = streampool::host_pool().unwrap();
    let model = graph.model(&[("", 18)]);
    let session = Session::from_bytes(&pool, model, &SessionOptions::default()).unwrap();
    let place = |place: i64| Array::new(&[place], &[1, 1]).unwrap();
    for _ in 0..3 {
        session.run([("places", &place(1))]).unwrap();
    }
    assert_eq!(
        (told.count("run"), told.count("plan"), told.count("capture")),
        (3, 1, 1)
    );
    assert_eq!((told.count("batch"), told.count("fault")), (0, 0));
    session.run([("places", &place(7))]).unwrap_err();
    assert!(told.count("fault") >= 1);
    let queue = BatchQueue::for_session(&session, BatchQueue::builder()).unwrap();
    queue.infer(place(0)).unwrap();
    assert_eq!(told.count("batch"), 1);
}
