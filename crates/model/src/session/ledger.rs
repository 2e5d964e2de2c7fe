//! What the plans of a session take, kept tensors included, each buffer counted once.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use streampool_device::Span;
use streampool_device::lock::Mutex;
use streampool_tensor::Tensor;

use crate::graph::{Attribute, Graph};
use crate::ranks;

/// The sum of what is held.
pub struct Ledger {
    /// Of the model itself: they are there anyway.
    weights: HashSet<Span>,
    bytes: AtomicUsize,
    /// Buffers, and by how many they are held.
    buffers: Mutex<HashMap<Span, usize>>,
}

/// What one plan takes, until it is dropped.
pub struct Held {
    ledger: Arc<Ledger>,
    bytes: usize,
    buffers: Vec<Span>,
}

impl Ledger {
    /// Nothing is held so far beside the weights of this graph.
    pub fn new(graph: &Graph) -> Arc<Ledger> {
        let mut weights = HashSet::new();
        add_weights(graph, &mut weights);
        Arc::new(Ledger {
            weights,
            bytes: AtomicUsize::new(0),
            buffers: Mutex::new(ranks::LEDGER, HashMap::new()),
        })
    }

    /// Notes `bytes` and the buffers of `tensors`.
    pub fn hold<'t>(
        self: &Arc<Self>,
        bytes: usize,
        tensors: impl Iterator<Item = &'t Tensor>,
    ) -> Held {
        let spans = tensors.map(|tensor| tensor.buffer().span());
        let buffers: Vec<Span> = spans.filter(|span| !self.weights.contains(span)).collect();
        let mut all = self.buffers.lock();
        let mut new = bytes;
        for &span in &buffers {
            let holders = all.entry(span).or_insert(0);
            if *holders == 0 {
                new += span.bytes;
            }
            *holders += 1;
        }
        drop(all);
        self.bytes.fetch_add(new, Ordering::Relaxed);
        Held {
            ledger: self.clone(),
            bytes,
            buffers,
        }
    }

    /// The sum.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut all = self.ledger.buffers.lock();
        let mut gone = self.bytes;
        for &span in &self.buffers {
            if let Entry::Occupied(mut holders) = all.entry(span) {
                *holders.get_mut() -= 1;
                if *holders.get() == 0 {
                    holders.remove();
                    gone += span.bytes;
                }
            }
        }
        drop(all);
        self.ledger.bytes.fetch_sub(gone, Ordering::Relaxed);
    }
}

fn add_weights(graph: &Graph, weights: &mut HashSet<Span>) {
    weights.extend(graph.constants.values().map(|one| one.buffer().span()));
    for (_, attribute) in graph.nodes.iter().flat_map(|node| &node.attributes) {
        match attribute {
            Attribute::Tensor(tensor) => drop(weights.insert(tensor.buffer().span())),
            Attribute::Graph(inner) => add_weights(inner, weights),
            _ => {}
        }
    }
}
