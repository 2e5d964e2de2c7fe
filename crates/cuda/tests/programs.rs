//! Programs on a CUDA device: replays from many threads, with slots bound anew, within a bound, and dropped
//! under way.

mod common;
#[path = "../../runtime/tests/common/work.rs"]
#[allow(dead_code, reason = "shared with the runtime's own tests")]
mod work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use common::{device, device_with, is_imitated, options};
use half::f16;
use streampool_cuda::{CudaDevice, CudaOptions};
use streampool_device::{Activation, CacheReport, Device, MatMul};
use streampool_runtime::{
    Binary, Buffer, Capture, Captured, DType, Expr, Op, OpKind, Program, Reference, Stream,
};
use work::*;

const BYTES: usize = N * 4;
/// So many floats take a GPU longer to write than the host takes to replay a program.
const LARGE: usize = 64 << 20;

fn graphs(device: &CudaDevice) -> CacheReport {
    let mut caches = device.caches().into_iter();
    let found = caches.find(|cache| cache.name == "program graphs");
    found.expect("the device reports its graphs")
}

fn view(reference: &Reference) -> Captured {
    reference.view(DType::F32, &[N]).unwrap()
}

fn captured_add(capture: &mut Capture, from: &Reference, to: &Reference, amount: f32) {
    let op = Op::Map {
        expr: plus(amount),
        inputs: vec![view(from)],
        outputs: vec![view(to)],
    };
    capture.encode(op).unwrap();
}

/// `middle = input + amount; output = middle + constant`, all but the constant in slots.
fn two_sums(stream: &Stream, amount: f32, constant: f32) -> Program {
    let mut capture = Capture::new(stream);
    let input = capture.input(BYTES).unwrap();
    let [middle, output] = [0, 1].map(|_| capture.output(BYTES).unwrap());
    let weights = Arc::new(filled(stream, constant));
    let weights = capture.constant(&weights).unwrap();
    captured_add(&mut capture, &input, &middle, amount);
    let mut expr = Expr::builder();
    let [x, y] = [0, 1].map(|_| expr.input(DType::F32).unwrap());
    let sum = expr.binary(Binary::Add, x, y).unwrap();
    let op = Op::Map {
        expr: Arc::new(expr.finish(&[sum]).unwrap()),
        inputs: vec![view(&middle), view(&weights)],
        outputs: vec![view(&output)],
    };
    capture.encode(op).unwrap();
    capture.finish().unwrap()
}

/// An input and both outputs of [`two_sums`].
struct Binding {
    input: Buffer,
    middle: Buffer,
    output: Buffer,
}

impl Binding {
    fn new(stream: &Stream) -> Binding {
        let [input, middle, output] = [0, 1, 2].map(|_| buffer(stream));
        Binding {
            input,
            middle,
            output,
        }
    }

    fn replay(&mut self, stream: &Stream, program: &Program, value: f32) {
        fill(stream, &mut self.input, value).unwrap();
        let mut outputs = [&mut self.middle, &mut self.output];
        stream
            .replay(program, &[&self.input], &mut outputs)
            .unwrap();
    }

    fn values(&self, stream: &Stream) -> [f32; 2] {
        [&self.middle, &self.output].map(|buffer| value_of(stream, buffer).unwrap())
    }
}

#[test]
fn an_op_is_lowered_once_for_all_replays() {
    let Some(device) = device() else { return };
    let kernels = || {
        let mut caches = device.caches().into_iter();
        let kernels = caches.find(|cache| cache.name == "kernels");
        let kernels = kernels.expect("the device reports its kernels");
        // To lower an op is to ask for its kernel, once.
        kernels.hits + kernels.compiled + kernels.loaded
    };
    let pool = pool(&device, 4);
    let [first, second] = [0, 1].map(|index| pool.stream(index).unwrap());
    let one = filled(first, 1.0);
    let mut results = [0, 1].map(|_| buffer(first));
    first.synchronize().unwrap();
    let before = kernels();
    let mut capture = Capture::new(first);
    let input = capture.input(BYTES).unwrap();
    let output = capture.output(BYTES).unwrap();
    captured_add(&mut capture, &input, &output, 5.0);
    let program = capture.finish().unwrap();
    // With a graph for each stream, bound anew.
    for stream in [first, second, first] {
        for result in &mut results {
            stream.replay(&program, &[&one], &mut [result]).unwrap();
        }
    }
    first.synchronize().unwrap();
    assert_eq!(kernels() - before, 1);
    for result in &results {
        assert_eq!(value_of(first, result), Ok(6.0));
    }
}

#[test]
fn bindings_alternate_while_others_allocate_synchronise_and_capture() {
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let pool = pool(&device, 16);
        let program = two_sums(pool.stream(15).unwrap(), 1.0, 10.0);
        let (all_here, over) = (Barrier::new(7), AtomicBool::new(false));
        let replay_all = |number: usize| {
            let stream = pool.current().unwrap();
            let mut bindings: Vec<Binding> = (0..3).map(|_| Binding::new(stream)).collect();
            all_here.wait();
            for round in 0..300 {
                // Three replays under way, each with other memory; then what they wrote.
                for (place, binding) in bindings.iter_mut().enumerate() {
                    let value = (number * 10_000 + round * 10 + place) as f32;
                    binding.replay(stream, &program, value);
                }
                for (place, binding) in bindings.iter().enumerate() {
                    let value = (number * 10_000 + round * 10 + place) as f32;
                    assert_eq!(binding.values(stream), [value + 1.0, value + 11.0]);
                }
            }
        };
        let disturb = |number: usize| {
            let stream = pool.current().unwrap();
            all_here.wait();
            let mut round = 0;
            while !over.load(Ordering::Relaxed) {
                round += 1;
                match number {
                    0 => {
                        // Too large for what is there: the device is asked.
                        drop(stream.allocate((1 + round % 7) << 25).unwrap());
                        pool.trim().unwrap();
                    }
                    1 => pool.synchronize().unwrap(),
                    _ => {
                        let program = two_sums(stream, round as f32, 0.5);
                        let mut binding = Binding::new(stream);
                        binding.replay(stream, &program, 1.0);
                        let sum = 1.0 + round as f32;
                        assert_eq!(binding.values(stream), [sum, sum + 0.5]);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let disturbers: Vec<_> = (0..3)
                .map(|number| scope.spawn(move || disturb(number)))
                .collect();
            let replayers: Vec<_> = (0..4)
                .map(|number| scope.spawn(move || replay_all(number)))
                .collect();
            // Whatever becomes of them, the others have to end.
            let outcomes: Vec<_> = replayers.into_iter().map(|thread| thread.join()).collect();
            over.store(true, Ordering::Relaxed);
            disturbers.into_iter().for_each(join);
            for outcome in outcomes {
                outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
    });
}

#[test]
fn sixteen_threads_replay_one_program_each_with_its_own_memory() {
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let pool = pool(&device, 20);
        let program = two_sums(pool.stream(19).unwrap(), 0.25, 100.0);
        let all_here = Barrier::new(16);
        on_threads(16, |number| {
            let stream = pool.current().unwrap();
            let mut binding = Binding::new(stream);
            all_here.wait();
            for round in 0..200 {
                let value = (number * 1000 + round) as f32;
                binding.replay(stream, &program, value);
                assert_eq!(binding.values(stream), [value + 0.25, value + 100.25]);
            }
        });
        let graphs = graphs(&device);
        assert_eq!(
            graphs.hits,
            16 * 200 - 1,
            "each but the first was one launch"
        );
        assert!(
            graphs.compiled <= 16,
            "one graph for each stream: {graphs:?}"
        );
    });
}

#[test]
fn a_graph_is_made_for_the_second_replay_and_goes_on_while_it_is_the_only_one() {
    let Some(device) = device() else { return };
    let pool = pool(&device, 3);
    let [first, second] = [0, 1].map(|index| pool.stream(index).unwrap());
    let program = two_sums(first, 0.5, 10.0);
    let mut binding = Binding::new(first);
    let mut replay = |stream: &Stream, value: f32| {
        binding.replay(stream, &program, value);
        assert_eq!(binding.values(stream), [value + 0.5, value + 10.5]);
        graphs(&device).compiled
    };
    assert_eq!(replay(first, 1.0), 0, "it may not come back");
    for value in 2..5 {
        assert_eq!(replay(first, value as f32), 1);
        assert_eq!(replay(second, value as f32), 1);
    }
}

#[test]
fn of_several_graphs_one_goes_on_from_who_needs_it_no_more() {
    let Some(device) = device() else { return };
    let pool = pool(&device, 3);
    let [first, second] = [0, 1].map(|index| pool.stream(index).unwrap());
    let program = two_sums(first, 0.5, 10.0);
    let [mut on_first, mut on_second] = [first, second].map(Binding::new);
    for value in [1.0, 2.0] {
        on_first.replay(first, &program, value);
        assert_eq!(on_first.values(first), [value + 0.5, value + 10.5]);
    }
    // The second is at work with the first's graph when the first needs one again.
    let mut large = second.allocate(LARGE * 4).unwrap();
    for _ in 0..8 {
        let dst = large.write(DType::F32, &[LARGE]).unwrap();
        let value = 0.0_f32.into();
        second.encode(Op::Fill { dst, value }).unwrap();
    }
    on_second.replay(second, &program, 3.0);
    on_first.replay(first, &program, 4.0);
    assert_eq!(graphs(&device).compiled, 2, "two are at work");
    assert_eq!(on_first.values(first), [4.5, 14.5]);
    assert_eq!(on_second.values(second), [3.5, 13.5]);
    for stream in [first, second] {
        let mut other = buffer(stream);
        for _ in 0..64 {
            fill(stream, &mut other, 0.0).unwrap();
        }
        stream.synchronize().unwrap();
    }
    let third = pool.stream(2).unwrap();
    for value in 3..6 {
        let value = value as f32;
        on_first.replay(third, &program, value);
        assert_eq!(on_first.values(third), [value + 0.5, value + 10.5]);
    }
    let graphs = graphs(&device);
    assert_eq!((graphs.entries, graphs.compiled), (2, 2));
}

fn upload(stream: &Stream, values: &[f32]) -> Buffer {
    let mut buffer = stream.allocate(size_of_val(values)).unwrap();
    stream.upload(&mut buffer, values).unwrap();
    buffer
}

/// Values that sum up exactly in `f32`, in any order.
fn small(index: usize, seed: usize) -> f32 {
    ((index * 7 + index / 5 + seed * 3) % 5) as f32 - 2.0
}

/// Rows, inner length and columns of a product that is large for the GPU.
fn sides() -> [usize; 3] {
    match is_imitated() {
        true => [24, 64, 40],
        false => [96, 512, 160],
    }
}

fn product_of(a: &[f32], b: &[f32], bias: &[f32]) -> Vec<f32> {
    let [rows, inner, columns] = sides();
    let mut product = Vec::with_capacity(rows * columns);
    for row in a.chunks_exact(inner) {
        for column in 0..columns {
            let terms = row.iter().zip(b[column..].iter().step_by(columns));
            let sum: f32 = terms.map(|(a, b)| a * b).sum();
            product.push((sum + bias[column]).max(0.0));
        }
    }
    product
}

/// `out = relu(a @ b + bias)` with `a` and `out` in slots, large enough for the library; then `copy = out`.
fn product_program(stream: &Stream, b: &[f32], bias: &[f32]) -> Program {
    let [rows, inner, columns] = sides();
    let constant = |values: &[f32]| Arc::new(upload(stream, values));
    let mut capture = Capture::new(stream);
    let a = capture.input(rows * inner * 4).unwrap();
    let out = capture.output(rows * columns * 4).unwrap();
    let copy = capture.output(rows * columns * 4).unwrap();
    let b = capture.constant(&constant(b)).unwrap();
    let bias = capture.constant(&constant(bias)).unwrap();
    let matrix =
        |reference: &Reference, shape: &[usize]| reference.view(DType::F32, shape).unwrap();
    let out = matrix(&out, &[rows, columns]);
    let product = MatMul {
        a: matrix(&a, &[rows, inner]),
        b: matrix(&b, &[inner, columns]),
        out,
        bias: Some(matrix(&bias, &[columns])),
        activation: Activation::Relu,
        alpha: 1.0,
    };
    capture.encode(Op::MatMul(product)).unwrap();
    let dst = matrix(&copy, &[rows, columns]);
    capture.encode(Op::Copy { src: out, dst }).unwrap();
    capture.finish().unwrap()
}

#[test]
fn large_products_find_their_slots() {
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let [rows, inner, columns] = sides();
        let pool = pool(&device, 8);
        let b: Vec<f32> = (0..inner * columns).map(|at| small(at, 1)).collect();
        let bias: Vec<f32> = (0..columns).map(|at| small(at, 2)).collect();
        let program = product_program(pool.stream(7).unwrap(), &b, &bias);
        let (b, bias) = (&b, &bias);
        on_threads(4, |number| {
            let stream = pool.current().unwrap();
            let mut bound: Vec<_> = (0..2)
                .map(|place| {
                    let seed = 10 * number + place;
                    let a: Vec<f32> = (0..rows * inner).map(|at| small(at, seed)).collect();
                    let input = upload(stream, &a);
                    let outputs = [0, 1].map(|_| stream.allocate(rows * columns * 4).unwrap());
                    (input, outputs, product_of(&a, b, bias))
                })
                .collect();
            for round in 0..40 {
                for (input, outputs, _) in &mut bound {
                    let [out, copy] = outputs;
                    stream
                        .replay(&program, &[&*input], &mut [out, copy])
                        .unwrap();
                }
                for (_, outputs, expected) in &bound {
                    for output in outputs {
                        let got: Vec<f32> = stream.download(output).unwrap();
                        assert!(got == *expected, "round {round}: a wrong product");
                    }
                }
            }
        });
        let graphs = graphs(&device);
        assert_eq!(graphs.hits, 4 * 40 * 2 - 1);
        assert!(graphs.compiled <= 4, "slots are bound in place: {graphs:?}");
    });
}

/// `out = a @ b` of halves, `a` and `out` in slots: a product that has larger tiles on one of many streams.
fn product_of_halves(stream: &Stream, [rows, inner, columns]: [usize; 3]) -> Program {
    let b = halves(inner * columns, 1);
    let mut buffer = stream.allocate(b.len() * 2).unwrap();
    stream.upload(&mut buffer, &b).unwrap();
    let mut capture = Capture::new(stream);
    let a = capture.input(rows * inner * 2).unwrap();
    let out = capture.output(rows * columns * 2).unwrap();
    let b = capture.constant(&Arc::new(buffer)).unwrap();
    let matrix =
        |reference: &Reference, shape: &[usize]| reference.view(DType::F16, shape).unwrap();
    let product = MatMul {
        a: matrix(&a, &[rows, inner]),
        b: matrix(&b, &[inner, columns]),
        out: matrix(&out, &[rows, columns]),
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    };
    capture.encode(Op::MatMul(product)).unwrap();
    capture.finish().unwrap()
}

fn halves(count: usize, seed: usize) -> Vec<f16> {
    let value = |at: usize| ((at * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0;
    (0..count).map(|at| f16::from_f32(value(at))).collect()
}

#[test]
fn one_of_many_streams_gets_the_bits_of_one_alone() {
    const ROUNDS: usize = 40;
    let Some(device) = device() else { return };
    let (threads, sides) = match is_imitated() {
        true => (16, [128, 96, 64]),
        false => (31, [128, 384, 1536]),
    };
    let [rows, inner, columns] = sides;
    within(FOREVER, || {
        let pool = pool(&device, threads + 1);
        let stream = pool.stream(threads).unwrap();
        let program = product_of_halves(stream, sides);
        let result = |stream: &Stream, seed: usize| {
            let a = halves(rows * inner, seed);
            let mut input = stream.allocate(a.len() * 2).unwrap();
            stream.upload(&mut input, &a).unwrap();
            let mut output = stream.allocate(rows * columns * 2).unwrap();
            stream
                .replay(&program, &[&input], &mut [&mut output])
                .unwrap();
            let values: Vec<f16> = stream.download(&output).unwrap();
            values.into_iter().map(f16::to_bits).collect::<Vec<_>>()
        };
        let expected = [0, 1, 2].map(|seed| result(stream, seed));
        assert_eq!(graphs(&device).compiled, 1, "for all but the first");
        on_threads(threads, |number| {
            let stream = pool.current().unwrap();
            for round in 0..ROUNDS {
                let seed = (number + round) % 3;
                assert!(result(stream, seed) == expected[seed], "round {round}");
            }
        });
        // Alone again.
        assert!(result(stream, 1) == expected[1]);
        let graphs = graphs(&device);
        assert_eq!(graphs.hits as usize, 2 + threads * ROUNDS + 1);
        assert!(
            graphs.compiled as usize <= threads + 1,
            "kernels change in place: {graphs:?}"
        );
    });
}

#[test]
fn a_profile_tells_of_each_op_and_kernel_of_a_replay() {
    const REPLAYS: usize = 20;
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let pool = pool(&device, 8);
        let sums = two_sums(pool.stream(7).unwrap(), 1.0, 10.0);
        let [rows, inner, columns] = sides();
        let [a, b, bias] = [rows * inner, inner * columns, columns]
            .map(|count| (0..count).map(|at| small(at, 1)).collect::<Vec<_>>());
        let product = product_program(pool.stream(7).unwrap(), &b, &bias);
        let expected = product_of(&a, &b, &bias);
        pool.stream(7).unwrap().synchronize().unwrap();
        let recording = pool.profile(10_000).unwrap();
        on_threads(4, |number| {
            let stream = pool.current().unwrap();
            let mut bound = Binding::new(stream);
            let input = upload(stream, &a);
            let mut outputs = [0, 1].map(|_| stream.allocate(rows * columns * 4).unwrap());
            for round in 0..REPLAYS {
                let value = (number * REPLAYS + round) as f32;
                bound.replay(stream, &sums, value);
                let [out, copy] = &mut outputs;
                stream
                    .replay(&product, &[&input], &mut [out, copy])
                    .unwrap();
                assert_eq!(bound.values(stream), [value + 1.0, value + 11.0]);
                assert!(stream.download::<f32>(&outputs[1]).unwrap() == expected);
            }
        });
        let profile = recording.finish().unwrap();
        let count = |op| {
            let intervals = profile.intervals().iter();
            intervals.filter(|interval| interval.op == op).count()
        };
        assert_eq!(count(OpKind::Map), 4 * REPLAYS * 2);
        assert_eq!(count(OpKind::MatMul), 4 * REPLAYS);
        assert_eq!(count(OpKind::Replay), 0);
        let kernels = profile.kernels();
        let of = |op| kernels.iter().filter(move |one| one.interval.op == op);
        assert_eq!(of(OpKind::Map).count(), 4 * REPLAYS * 2);
        // On a GPU it is the library's.
        assert!(of(OpKind::MatMul).count() >= 4 * REPLAYS);
        for kernel in kernels {
            assert!(!kernel.name.is_empty() && kernel.launches > 0, "{kernel:?}");
            assert!(kernel.groups > 0 && kernel.fit > 0, "{kernel:?}");
            let is_of = |op: &&streampool_device::Interval| {
                (op.queue, op.tick, op.op)
                    == (
                        kernel.interval.queue,
                        kernel.interval.tick,
                        kernel.interval.op,
                    )
            };
            assert!(
                profile.intervals().iter().any(|op| is_of(&op)),
                "{kernel:?}"
            );
        }
        let units = device.properties().compute_units;
        let used = profile.per_kernel();
        let launches: usize = used.iter().map(|kernel| kernel.launches).sum();
        assert!(launches >= kernels.len());
        for kernel in &used {
            let most = units as f64 * kernel.time.total.as_secs_f64();
            assert!(
                (0.0..=most).contains(&kernel.processor_seconds(units)),
                "{kernel:?}"
            );
        }
    });
}

#[test]
fn without_room_for_a_graph_the_ops_run_one_by_one() {
    let options = CudaOptions {
        program_memory: 1000,
        ..options()
    };
    let Some(device) = device_with(options) else {
        return;
    };
    within(FOREVER, || {
        let [rows, inner, columns] = sides();
        let pool = pool(&device, 8);
        let program = two_sums(pool.stream(7).unwrap(), 3.0, 4.0);
        let b: Vec<f32> = (0..inner * columns).map(|at| small(at, 5)).collect();
        let product = product_program(pool.stream(7).unwrap(), &b, &vec![1.0; columns]);
        on_threads(4, |number| {
            let stream = pool.current().unwrap();
            let mut bindings = [Binding::new(stream), Binding::new(stream)];
            for round in 0..50 {
                for binding in &mut bindings {
                    let value = (number * 100 + round) as f32;
                    binding.replay(stream, &program, value);
                    assert_eq!(binding.values(stream), [value + 3.0, value + 7.0]);
                }
            }
            let a: Vec<f32> = (0..rows * inner).map(|at| small(at, number)).collect();
            let input = upload(stream, &a);
            let [mut out, mut copy] = [0, 1].map(|_| stream.allocate(rows * columns * 4).unwrap());
            stream
                .replay(&product, &[&input], &mut [&mut out, &mut copy])
                .unwrap();
            let got: Vec<f32> = stream.download(&copy).unwrap();
            assert!(
                got == product_of(&a, &b, &vec![1.0; columns]),
                "a wrong product"
            );
        });
        let graphs = graphs(&device);
        assert_eq!((graphs.entries, graphs.compiled, graphs.hits), (0, 0, 0));
    });
}

/// Zeroes of some megabytes, many times over: what is encoded after it is late.
fn keep_busy(stream: &Stream) -> Buffer {
    let floats = if is_imitated() { 1 << 12 } else { 8 << 20 };
    let mut buffer = stream.allocate(floats * 4).unwrap();
    for _ in 0..60 {
        let dst = buffer.write(DType::F32, &[floats]).unwrap();
        let value = 0f32.into();
        stream.encode(Op::Fill { dst, value }).unwrap();
    }
    buffer
}

#[test]
fn programs_are_dropped_under_way_also_by_others() {
    let Some(device) = device() else { return };
    within(FOREVER, || {
        let [rows, inner, columns] = sides();
        let pool = pool(&device, 8);
        let b: Vec<f32> = (0..inner * columns).map(|at| small(at, 1)).collect();
        let a: Vec<f32> = (0..rows * inner).map(|at| small(at, 2)).collect();
        let expected = product_of(&a, &b, &vec![0.0; columns]);
        on_threads(4, |number| {
            let stream = pool.current().unwrap();
            let input = upload(stream, &a);
            for round in 0..10 {
                let sums = two_sums(stream, 1.0, 2.0);
                let product = product_program(stream, &b, &vec![0.0; columns]);
                let mut binding = Binding::new(stream);
                let [mut out, mut copy] =
                    [0, 1].map(|_| stream.allocate(rows * columns * 4).unwrap());
                let busy = keep_busy(stream);
                binding.replay(stream, &sums, round as f32);
                stream
                    .replay(&product, &[&input], &mut [&mut out, &mut copy])
                    .unwrap();
                match number % 2 {
                    0 => drop((sums, product)),
                    _ => on_thread(move || drop((sums, product))),
                }
                // Who takes memory now must not get what the graphs still use.
                let taken: Vec<Buffer> = (0..8).map(|_| filled(stream, -1.0)).collect();
                let next = product_program(stream, &b, &vec![1.0; columns]);
                let [mut other, mut another] =
                    [0, 1].map(|_| stream.allocate(rows * columns * 4).unwrap());
                stream
                    .replay(&next, &[&input], &mut [&mut other, &mut another])
                    .unwrap();
                let sum = round as f32 + 1.0;
                assert_eq!(binding.values(stream), [sum, sum + 2.0]);
                let got: Vec<f32> = stream.download(&copy).unwrap();
                assert!(got == expected, "round {round}: a wrong product");
                drop((busy, taken));
            }
        });
        assert_eq!(graphs(&device).entries, 0, "no graph without its program");
        pool.synchronize().unwrap();
        assert_all_returned(&pool);
    });
}

#[test]
fn many_programs_keep_within_the_bound() {
    const PROGRAMS: usize = 20;
    let options = CudaOptions {
        program_memory: 512 << 10,
        ..options()
    };
    let Some(device) = device_with(options) else {
        return;
    };
    within(FOREVER, || {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        let programs: Vec<Program> = (0..PROGRAMS)
            .map(|number| two_sums(stream, number as f32, 1.0))
            .collect();
        let mut binding = Binding::new(stream);
        let mut replay = |number: usize, value: f32| {
            binding.replay(stream, &programs[number], value);
            let sum = value + number as f32;
            assert_eq!(binding.values(stream), [sum, sum + 1.0]);
            graphs(&device)
        };
        for round in 0..10 {
            for number in 0..PROGRAMS {
                let graphs = replay(number, round as f32);
                assert!(graphs.entries <= 8, "64 KiB each at least: {graphs:?}");
            }
        }
        let turns = graphs(&device);
        assert!(turns.entries > 1, "there is room for some: {turns:?}");
        assert!(
            turns.compiled < PROGRAMS as u64,
            "those that take turns leave each other alone: {turns:?}"
        );
        let launched = turns.hits;
        assert!(launched > 0 && launched < (10 * PROGRAMS) as u64);
        // Whoever is used alone gets a graph in the end, at the cost of one that is not.
        for _ in 0..3 * PROGRAMS {
            replay(PROGRAMS - 1, 5.0);
        }
        let alone = graphs(&device);
        assert!(alone.hits > launched, "it got none: {alone:?}");
        assert_eq!(alone.entries, turns.entries);
        let bytes: usize = programs.iter().map(Program::bytes).sum();
        assert!(bytes >= alone.entries * (64 << 10));
        drop(programs);
        assert_eq!(graphs(&device).entries, 0);
        assert_eq!(
            graphs(&device).hits,
            alone.hits,
            "what was counted stays so"
        );
    });
}
