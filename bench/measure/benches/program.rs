//! Programs with constant weights: what packing them once saves, what a replay costs beyond its kernels, and what
//! many threads come to together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use streampool_device::{
    Activation, DType, Device, Flush, Layout, MatMul, Op, Program, Queue, QueueOptions, Result,
    Span, View,
};
use streampool_host::{HostDevice, HostOptions, bare_execute};
use streampool_measure::host;

/// The inner dimensions and columns of the products of a small encoder's layer, and how many of each.
const PRODUCTS: [(usize, usize, usize); 3] = [(384, 384, 4), (384, 1536, 1), (1536, 384, 1)];

/// The operands of products one after another, each with weights of its own.
struct Chain {
    /// The left factor, the right one, the bias and the product of each.
    memory: Vec<[Vec<f32>; 4]>,
    ops: Vec<Op>,
    constants: Vec<Span>,
}

impl Chain {
    fn new(m: usize, products: impl Iterator<Item = (usize, usize)>) -> Result<Chain> {
        let mut chain = Chain {
            memory: Vec::new(),
            ops: Vec::new(),
            constants: Vec::new(),
        };
        for (k, n) in products {
            let memory = [&[m, k][..], &[k, n], &[n], &[m, n]].map(|shape| numbers(shape, n));
            let [a, b, bias, out] = &memory;
            let bias = view(bias, &[n])?;
            let op = MatMul {
                a: view(a, &[m, k])?,
                b: view(b, &[k, n])?,
                out: view(out, &[m, n])?,
                bias: Some(bias),
                activation: Activation::None,
                alpha: 1.0,
            };
            chain.constants.extend([op.b.span(), bias.span()]);
            chain.ops.push(Op::MatMul(op));
            chain.memory.push(memory);
        }
        Ok(chain)
    }

    fn multiplications(&self) -> usize {
        let of = |op: &Op| match op {
            Op::MatMul(op) => op.out.layout().elements() * op.a.shape()[1],
            _ => 0,
        };
        self.ops.iter().map(of).sum()
    }

    fn capture(&self, queue: &mut dyn Queue, constant: bool) -> Result<Arc<dyn Program>> {
        queue.begin_capture()?;
        let constants = if constant { &self.constants[..] } else { &[] };
        // SAFETY: the operands live as long as the chain, and nobody writes the constants.
        unsafe {
            for op in &self.ops {
                queue.encode(op)?;
            }
            queue.end_capture(&[], constants)
        }
    }
}

fn replay(queue: &mut dyn Queue, program: &Arc<dyn Program>) {
    // SAFETY: the operands live longer, and nothing else touches them.
    let tick = unsafe { queue.replay(program, &[]) };
    let done = tick
        .and_then(|_| queue.flush(Flush::ForWaiter))
        .and_then(|tick| queue.progress().wait(tick, None));
    done.unwrap_or_else(|error| panic!("{error}"));
}

fn main() -> Result<()> {
    let slices = (0..60).map(|_| host::flops(1, Duration::from_millis(5)).expect("one thread"));
    let peak = slices.fold(0.0, f64::max) / 1e9;
    println!("one thread computes {peak:.0} GFLOP/s at most");
    products(peak)?;
    overhead()?;
    crowd()
}

/// Single products on one thread, their right operands as they lie and packed.
fn products(peak: f64) -> Result<()> {
    let device = HostDevice::new(HostOptions::default().threads(1))?;
    let mut queue = device.create_queue(QueueOptions::default())?;
    println!(
        "{:>22} {:>10} {:>10} {:>10} {:>7}",
        "m x k x n", "plain us", "packed us", "GFLOP/s", "peak"
    );
    for m in [1, 2, 4, 8, 16, 32, 128] {
        for (k, n, _) in PRODUCTS {
            let chain = Chain::new(m, [(k, n)].into_iter())?;
            let plain = queued(&chain.ops[0], HostOptions::default().threads(1))?;
            let program = chain.capture(&mut *queue, true)?;
            let packed = fastest(|| replay(&mut *queue, &program));
            let rate = 2.0 * chain.multiplications() as f64 / packed / 1e9;
            println!(
                "{:>22} {:>10.1} {:>10.1} {rate:>10.1} {:>6.0}%",
                format!("{m} x {k} x {n}"),
                plain * 1e6,
                packed * 1e6,
                rate / peak * 100.0,
            );
        }
    }
    Ok(())
}

/// What a replay of many small ops costs beyond their kernels.
fn overhead() -> Result<()> {
    const OPS: usize = 64;
    let device = HostDevice::new(HostOptions::default().threads(1))?;
    let mut queue = device.create_queue(QueueOptions::default())?;
    let chain = Chain::new(1, (0..OPS).map(|_| (8, 8)))?;
    let bare = fastest(|| {
        for op in &chain.ops {
            // SAFETY: the operands live longer, and nothing else touches them.
            unsafe { bare_execute(op) }.unwrap_or_else(|error| panic!("{error}"));
        }
    });
    let program = chain.capture(&mut *queue, true)?;
    let all = fastest(|| replay(&mut *queue, &program));
    println!(
        "{OPS} small products: bare {:.2} us, a replay {:.2} us, {:.0} ns an op more",
        bare * 1e6,
        all * 1e6,
        (all - bare) / OPS as f64 * 1e9,
    );
    Ok(())
}

/// Replays of the products of three layers, from one thread and from several that each have a program of their own.
fn crowd() -> Result<()> {
    let device = HostDevice::new(HostOptions::default())?;
    println!(
        "{:>6} {:>8} {:>14} {:>10} {:>14}",
        "rows", "threads", "replays/s", "GFLOP/s", "CPU us each"
    );
    for m in [16, 128] {
        let layer = PRODUCTS
            .iter()
            .flat_map(|&(k, n, count)| (0..count).map(move |_| (k, n)));
        let layers: Vec<_> = layer.clone().chain(layer.clone()).chain(layer).collect();
        let weights = Chain::new(m, layers.iter().copied())?;
        for (threads, constant) in [(1, false), (1, true), (2, true), (8, false), (8, true)] {
            let (rate, busy) = together(&device, &weights, threads, constant)?;
            println!(
                "{m:>6} {threads:>8} {rate:>14.1} {:>10.1} {:>14.1}{}",
                2.0 * rate * weights.multiplications() as f64 / 1e9,
                busy * 1e6,
                if constant { " packed" } else { "" },
            );
        }
    }
    Ok(())
}

/// Seconds of all processors that this process has used so far; nothing where there is no such file.
fn processors() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // In hundredths, the twelfth and thirteenth after the name.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// Replays per second of so many threads together, the best of some tries, and what each took of all processors.
fn together(
    device: &Arc<HostDevice>,
    weights: &Chain,
    threads: usize,
    constant: bool,
) -> Result<(f64, f64)> {
    let run = |_| -> Result<(f64, f64)> {
        let mut own = Vec::new();
        for _ in 0..threads {
            own.push(weights.with_results()?);
        }
        let (begin, used) = (Instant::now(), processors());
        let counts: Vec<Result<u32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = own
                .iter()
                .map(|chain| {
                    scope.spawn(move || {
                        let mut queue = device.create_queue(QueueOptions::default())?;
                        let program = chain.capture(&mut *queue, constant)?;
                        let mut count = 0;
                        while begin.elapsed() < Duration::from_millis(600) {
                            replay(&mut *queue, &program);
                            count += 1;
                        }
                        Ok(count)
                    })
                })
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|count| count.unwrap_or(Ok(0))).collect()
        });
        let seconds = begin.elapsed().as_secs_f64();
        let total = f64::from(counts.into_iter().sum::<Result<u32>>()?);
        Ok((total / seconds, (processors() - used) / total))
    };
    let tries = (0..3).map(run).collect::<Result<Vec<_>>>()?.into_iter();
    Ok(
        tries.fold((0.0, f64::INFINITY), |(rate, used), (other, less)| {
            (f64::max(rate, other), f64::min(used, less))
        }),
    )
}

impl Chain {
    /// The same products of the same factors, with results of its own.
    fn with_results(&self) -> Result<Chain> {
        let mut chain = Chain {
            memory: Vec::new(),
            ops: self.ops.clone(),
            constants: self.constants.clone(),
        };
        for op in &mut chain.ops {
            if let Op::MatMul(op) = op {
                let out = vec![0f32; op.out.layout().elements()];
                op.out = view(&out, op.out.shape())?;
                chain.memory.push([out, Vec::new(), Vec::new(), Vec::new()]);
            }
        }
        Ok(chain)
    }
}

/// Numbers for a tensor of this shape.
fn numbers(shape: &[usize], seed: usize) -> Vec<f32> {
    (0..shape.iter().product())
        .map(|index| ((index * 7 + seed) % 17) as f32 * 0.1 - 0.8)
        .collect()
}

/// A row-major view of numbers of this program: on the host a handle is an address.
fn view(numbers: &[f32], shape: &[usize]) -> Result<View> {
    let span = Span {
        handle: numbers.as_ptr().expose_provenance() as u64,
        offset: 0,
        bytes: size_of_val(numbers),
    };
    View::new(span, DType::F32, Layout::contiguous(shape)?)
}

/// The shortest time of a call in seconds, over repeated runs of about two milliseconds.
fn fastest(mut call: impl FnMut()) -> f64 {
    call();
    let start = Instant::now();
    call();
    let once = start.elapsed().max(Duration::from_nanos(50));
    let calls = (Duration::from_millis(2).as_nanos() / once.as_nanos()).max(1) as u32;
    let run = |_| {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed() / calls
    };
    (0..40).map(run).min().unwrap_or_default().as_secs_f64()
}

/// The shortest time of an op on a device, in seconds.
fn queued(op: &Op, options: HostOptions) -> Result<f64> {
    let device = HostDevice::new(options)?;
    let mut queue = device.create_queue(QueueOptions::default())?;
    let progress = queue.progress();
    Ok(fastest(|| {
        // SAFETY: the operands are the caller's, which waits here until the work is over.
        let tick = unsafe { queue.encode(op) };
        let done = tick
            .and_then(|_| queue.flush(Flush::ForWaiter))
            .and_then(|tick| progress.wait(tick, None));
        done.unwrap_or_else(|error| panic!("{error}"));
    }))
}
