//! What a session says it holds is what the allocator sees.

#[path = "support/onnx.rs"]
#[expect(unused_imports, reason = "other tests use the rest")]
mod onnx;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use onnx::{Graph, Load, graph, int};
use streampool_host::{HostDevice, HostOptions};
use streampool_model::{Array, Input, Session};
use streampool_tensor::{DType, Pool};

/// Counts what lives.
struct Counted;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size, Ordering::Relaxed);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

/// What the process has taken, without the pool's memory that no buffer has.
fn live(session: &Session) -> usize {
    let memory = session.pool().snapshot().unwrap().memory;
    LIVE.load(Ordering::Relaxed) - (memory.reserved - memory.in_use)
}

/// What runs on so many requests leave behind, as the session tells it and as the allocator sees it.
fn held(session: &Session, requests: usize, request: impl Fn(usize) -> Vec<Array>) -> (f64, f64) {
    let run = |number: usize| {
        let arrays = request(number);
        let inputs: Vec<Input<'_>> = arrays.iter().map(Input::from).collect();
        session.run_positional(&inputs).unwrap();
    };
    // What is there whatever is held: streams, the first chunk of memory, tables of kernels.
    run(0);
    let before = (session.statistics().program_bytes, live(session));
    (1..requests).for_each(run);
    let after = (session.statistics().program_bytes, live(session));
    (
        (after.0 - before.0) as f64,
        (after.1 as f64) - before.1 as f64,
    )
}

fn zeros(shape: &[usize]) -> Array {
    Array::zeros(DType::F32, shape).unwrap()
}

#[test]
fn what_is_told_is_what_is_taken() {
    let device = HostDevice::new(HostOptions::default().threads(1)).unwrap();
    let pool = Pool::new(device).unwrap();
    let small = Graph::new()
        .untyped("x")
        .node("Relu x = y", &[])
        .outputs("y");
    let deep = (0..30).fold(Graph::new().input("x", DType::F32, "n 4"), |graph, node| {
        let from = if node == 0 {
            "x".to_owned()
        } else {
            format!("v{node}")
        };
        graph.node(&format!("Softmax {from} = v{}", node + 1), &[])
    });
    let deep = deep.outputs("v30");
    let joined = (0..40).fold(Graph::new().input("x", DType::F32, "n"), |graph, node| {
        let from = if node == 0 {
            "x".to_owned()
        } else {
            format!("v{node}")
        };
        let op = ["Tanh", "Exp", "Neg", "Sigmoid"][node % 4];
        graph.node(&format!("{op} {from} = v{}", node + 1), &[])
    });
    let joined = joined.outputs("v40");
    let products = Graph::new()
        .input("x", DType::F32, "n 64")
        .constant("w", &zeros(&[64, 64]))
        .node("MatMul x w = h", &[])
        .node("Softmax h = s", &[])
        .node("MatMul s w = y", &[])
        .outputs("y");
    let in_parts = Graph::new()
        .input("x", DType::F32, "n")
        .node("Relu x = positive", &[])
        .node("NonZero positive = places", &[])
        .node("Cast places = y", &[int("to", 1)])
        .outputs("y");
    let body = Graph::new()
        .untyped("turn")
        .untyped("go")
        .untyped("before")
        .node("Add before x = after", &[])
        .node("Identity go = on", &[])
        .outputs("on after");
    let valued = Graph::new()
        .input("x", DType::F32, "n")
        .input("turns", DType::I64, "")
        .constant("yes", &Array::scalar(true))
        .node("Loop turns yes x = y", &[graph("body", body)])
        .outputs("y");
    type Request = fn(usize) -> Vec<Array>;
    let cases: [(&str, Graph, usize, Request); 6] = [
        // More than are kept.
        ("small", small, 6_500, |number| {
            let axes = (0..8).map(|axis| number / 3usize.pow(axis) % 3 + 1);
            vec![zeros(&axes.collect::<Vec<_>>())]
        }),
        ("deep", deep, 600, |number| vec![zeros(&[number + 1, 4])]),
        ("joined", joined, 600, |number| vec![zeros(&[number + 1])]),
        ("products", products, 200, |number| {
            vec![zeros(&[number + 1, 64])]
        }),
        ("in parts", in_parts, 600, |number| {
            vec![zeros(&[number + 1])]
        }),
        ("valued", valued, 400, |number| {
            vec![
                zeros(&[number % 40 + 1]),
                Array::scalar((number / 40) as i64),
            ]
        }),
    ];
    for (name, graph, requests, request) in cases {
        let session = graph.session(&pool);
        let (told, taken) = held(&session, requests, request);
        let statistics = session.statistics();
        println!(
            "{name}: {told} told, {taken} taken: {:.2}; {statistics:?}",
            told / taken
        );
        assert!(
            told > 0.8 * taken && told < 1.2 * taken,
            "{name}: {told} of {taken}, {statistics:?}"
        );
    }
}
