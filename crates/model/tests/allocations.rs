//! How often a run asks for memory of the heap, counted. Alone in its program: all that the process does counts.

#[path = "support/device.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod device;
#[path = "support/onnx.rs"]
#[allow(dead_code, unused_imports, reason = "shared with other tests")]
mod onnx;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use onnx::{Graph, Load};
use streampool_model::Session;
use streampool_model::testing::Random;
use streampool_tensor::DType;

/// Counts what is asked for.
struct Counting;

static ASKED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Some layers, of which each has weights.
fn layers(outputs: &str) -> Graph {
    let mut random = Random::new(5);
    let mut graph = Graph::new().input("x", DType::F32, "n 16");
    for layer in 0..12 {
        let from = match layer {
            0 => "x".to_owned(),
            _ => format!("t{}", layer - 1),
        };
        graph = graph
            .constant(&format!("w{layer}"), &random.reals(&[16, 16]))
            .node(&format!("MatMul {from} w{layer} = h{layer}"), &[])
            .node(&format!("Tanh h{layer} = t{layer}"), &[]);
    }
    graph.outputs(outputs)
}

/// How often each of many runs on the host asks for memory.
fn asked_by_a_run(session: &Session) -> usize {
    const RUNS: usize = 1000;
    let x = Random::new(3).reals(&[4, 16]);
    let run = || drop(session.run([("x", &x)]).unwrap());
    (0..100).for_each(|_| run());
    let before = ASKED.load(Ordering::Relaxed);
    (0..RUNS).for_each(|_| run());
    // Other threads of the process ask now and then.
    (ASKED.load(Ordering::Relaxed) - before + RUNS / 2) / RUNS
}

#[test]
fn a_run_on_the_host_asks_for_memory_twice() {
    let pool = streampool_model::testing::host_pool();
    // For its command and for the values of its output.
    let one = layers("t11").session(&pool);
    assert_eq!(asked_by_a_run(&one), 2);
    // For the list of outputs, too, and for the values of each.
    let three = layers("t11 t10 t9").session(&pool);
    assert_eq!(asked_by_a_run(&three), 5);
}
