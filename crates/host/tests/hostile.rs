//! Shapes, requests and callbacks of people who wish us ill: each ends right or with an error, soon, and leaves the
//! device as it was.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use streampool_device::*;
use streampool_host::{HostDevice, HostOptions};

const FOREVER: Duration = Duration::from_secs(60);

/// A device with one queue and some memory.
struct Bench {
    device: Arc<HostDevice>,
    queue: Box<dyn Queue>,
    memory: Vec<Memory>,
}

impl Bench {
    fn new() -> Bench {
        let device = HostDevice::new(HostOptions::default().threads(2)).unwrap();
        let queue = device.create_queue(QueueOptions::default()).unwrap();
        Bench {
            device,
            queue,
            memory: Vec::new(),
        }
    }

    /// Memory of its own for a view of this shape.
    fn view(&mut self, shape: &[usize]) -> View {
        let layout = Layout::contiguous(shape).unwrap();
        let memory = self
            .device
            .allocate(layout.elements() * 4, Space::Device)
            .unwrap();
        let span = memory.span().part(0, layout.elements() * 4).unwrap();
        let view = View::new(span, DType::F32, layout).unwrap();
        self.memory.push(memory);
        view
    }

    /// One element of this value, seen wherever the shape has one.
    fn broadcast(&mut self, value: f32, shape: &[usize]) -> View {
        let one = self.view(&[]);
        self.run(&Op::Fill {
            dst: one,
            value: Scalar::Float(value.into()),
        })
        .unwrap();
        let layout = one.layout().broadcast_to(shape).unwrap();
        View::new(one.span(), DType::F32, layout).unwrap()
    }

    /// What came of the op. The queue is as good as new after it.
    fn run(&mut self, op: &Op) -> Result<()> {
        // SAFETY: the memory lives as long as the bench, and each op is waited for.
        let tick = unsafe { self.queue.encode(op) }?;
        let deadline = Some(Instant::now() + FOREVER);
        let outcome = self.queue.progress().wait(tick, deadline);
        if matches!(outcome, Err(Error::Fault(_))) {
            self.queue.recover().unwrap();
        }
        outcome
    }

    fn read(&mut self, view: &View) -> Vec<f32> {
        let mut bytes = vec![0u8; view.span().bytes];
        // SAFETY: the bytes outlive the wait.
        let tick = unsafe {
            let into = HostSlice {
                pointer: bytes.as_mut_ptr(),
                bytes: bytes.len(),
            };
            self.queue.download(view.span(), into).unwrap();
            self.queue.flush(Flush::ForWaiter).unwrap()
        };
        self.queue.progress().wait(tick, None).unwrap();
        let numbers = bytes.chunks_exact(4);
        numbers
            .map(|number| f32::from_ne_bytes(number.try_into().unwrap()))
            .collect()
    }

    /// That there is an error which says that memory is short, and the device works on.
    fn has_no_room(&mut self, op: &Op) {
        let error = self.run(op).unwrap_err();
        let Error::Fault(fault) = &error else {
            panic!("expected a fault, got {error:?}");
        };
        assert!(fault.message().contains("no memory for the"), "{fault}");
        let one = self.broadcast(3.0, &[]);
        assert_eq!(self.read(&one), [3.0]);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for memory in self.memory.drain(..) {
            // SAFETY: every op was waited for.
            unsafe { self.device.free(memory) };
        }
    }
}

fn conv(src: View, weight: View, dst: View, slides: &[Slide], transposed: bool) -> Op {
    Op::Conv(Box::new(Conv {
        src,
        weight,
        bias: None,
        dst,
        window: Window::new(slides).unwrap(),
        groups: 1,
        transposed,
        activation: Activation::None,
        to_bytes: None,
        zero_point: 0,
    }))
}

#[test]
fn a_dilated_convolution_reads_only_what_is_there() {
    let mut bench = Bench::new();
    let far = Slide {
        dilation: 1 << 22,
        before: 1 << 22,
        ..Slide::new(2)
    };
    let src = bench.broadcast(3.0, &[1, 1, 1, 1]);
    let weight = bench.broadcast(5.0, &[1, 1, 2, 2]);
    let dst = bench.view(&[1, 1, 1, 1]);
    bench
        .run(&conv(src, weight, dst, &[far; 2], false))
        .unwrap();
    assert_eq!(bench.read(&dst), [15.0]);
    // The transpose spreads one element over four places far apart; all but one are cut off.
    let far = Slide {
        before: (1 << 22) - 1,
        after: 1,
        dilation: 1 << 22,
        ..Slide::new(2)
    };
    let dst = bench.view(&[1, 1, 1, 1]);
    let outcome = bench.run(&conv(src, weight, dst, &[far; 2], true));
    assert_eq!((outcome, bench.read(&dst)), (Ok(()), vec![0.0]));
}

#[test]
fn a_convolution_far_apart_copies_its_picture_a_few_times() {
    let mut bench = Bench::new();
    let apart = 1usize << 22;
    let far = Slide {
        dilation: apart as u32,
        ..Slide::new(3)
    };
    let src = bench.broadcast(3.0, &[1, 1, 5]);
    let weight = bench.broadcast(5.0, &[1, 1, 3]);
    let dst = bench.view(&[1, 1, 2 * apart + 5]);
    // In bands of a few elements, of which each has a copy of all that the window spans, it takes days.
    bench.run(&conv(src, weight, dst, &[far], true)).unwrap();
    let got = bench.read(&dst);
    for (place, got) in got.into_iter().enumerate() {
        let wanted = if place % apart < 5 { 15.0 } else { 0.0 };
        assert_eq!(got, wanted, "{place}");
    }
}

#[test]
fn a_transpose_of_a_large_stride_sees_taps_where_there_are_some() {
    let mut bench = Bench::new();
    let apart = 1usize << 22;
    let src = bench.broadcast(3.0, &[1, 1, 2]);
    for (taps, dilation) in [(1, 1), (2, 3), (1 << 22, 3)] {
        let far = Slide {
            stride: apart as u32,
            dilation,
            // No more than what the second element spreads to.
            after: if taps > 2 { 3 * (taps - 1) } else { 0 },
            ..Slide::new(taps)
        };
        let weight = bench.broadcast(5.0, &[1, 1, taps as usize]);
        let dst = bench.view(&[1, 1, far.spread(2) as usize]);
        let begun = Instant::now();
        bench.run(&conv(src, weight, dst, &[far], true)).unwrap();
        assert!(begun.elapsed() < FOREVER, "{far:?}");
        let mut wanted = vec![0.0; far.spread(2) as usize];
        for (from, tap) in (0..2).flat_map(|from| (0..taps as usize).map(move |tap| (from, tap))) {
            let place = from * apart + tap * dilation as usize;
            _ = wanted.get_mut(place).map(|sum| *sum += 15.0);
        }
        assert!(bench.read(&dst) == wanted, "{far:?}");
    }
}

#[test]
fn windows_far_larger_than_the_picture_see_the_picture_only() {
    let mut bench = Bench::new();
    let wide = Slide {
        before: 8_000_000,
        after: 7_999_996,
        ..Slide::new(16_000_000)
    };
    let src = bench.broadcast(2.0, &[1, 1, 4, 4]);
    for (kind, wanted) in [
        (
            PoolKind::Mean {
                count_padding: false,
            },
            2.0,
        ),
        (PoolKind::Max, 2.0),
        (PoolKind::Lp(2.0), 8.0),
    ] {
        let dst = bench.view(&[1, 1, 1, 1]);
        let pool = Op::Pool(Pool {
            kind,
            src,
            dst,
            indices: None,
            window: Window::new(&[wide; 2]).unwrap(),
        });
        bench.run(&pool).unwrap();
        assert_eq!(bench.read(&dst), [wanted]);
    }
}

#[test]
fn what_is_broadcast_is_not_walked() {
    let mut bench = Bench::new();
    let many = 1usize << 45;
    let src = bench.broadcast(3.0, &[many, 2]);
    for (kind, wanted) in [
        (ReduceKind::Sum, 3.0 * many as f32),
        (ReduceKind::Mean, 3.0),
        (ReduceKind::Prod, f32::INFINITY),
        (ReduceKind::Max, 3.0),
        (ReduceKind::Min, 3.0),
    ] {
        for (axes, shape) in [(&[0][..], &[1, 2][..]), (&[0, 1], &[1, 1])] {
            let dst = bench.view(shape);
            let axes = Axes::new(axes).unwrap();
            bench
                .run(&Op::Reduce {
                    kind,
                    src,
                    dst,
                    axes,
                })
                .unwrap();
            let wanted = match (kind, shape) {
                (ReduceKind::Sum, [1, 1]) => 2.0 * wanted,
                _ => wanted,
            };
            assert!(
                bench.read(&dst).iter().all(|&got| got == wanted),
                "{kind:?}"
            );
        }
    }
    let first = bench.view(&[2, 2]);
    let first = View::new(
        first.span(),
        DType::I64,
        Layout::contiguous(&[1, 2]).unwrap(),
    )
    .unwrap();
    bench
        .run(&Op::Reduce {
            kind: ReduceKind::ArgMax,
            src,
            dst: first,
            axes: Axes::new(&[0]).unwrap(),
        })
        .unwrap();
    assert_eq!(bench.read(&first), [0.0; 4]);
    let values = bench.view(&[4, 2]);
    bench
        .run(&Op::Sort(Sort {
            src,
            values,
            indices: None,
            axis: 0,
            descending: false,
        }))
        .unwrap();
    assert_eq!(bench.read(&values), [3.0; 8]);
    let weights = bench.broadcast(0.5, &[many, 2]);
    let bins = bench.view(&[1 << 10]);
    bench
        .run(&Op::Histogram(Histogram {
            src,
            weights: Some(weights),
            dst: bins,
            low: 0.0,
            high: 1024.0,
        }))
        .unwrap();
    assert_eq!(bench.read(&bins)[2..5], [0.0, many as f32, 0.0]);
}

#[test]
fn a_filter_far_wider_than_the_picture_ends() {
    let mut bench = Bench::new();
    for interpolation in [Interpolation::Linear, Interpolation::Cubic(-0.75)] {
        for exclude_outside in [false, true] {
            let src = bench.broadcast(2.0, &[1, 16]);
            let dst = bench.view(&[1, 4]);
            let wide = Along {
                scale: 1e15,
                shift: -7.0,
            };
            let resize = Op::Resize(Resize {
                src,
                dst,
                along: Dims::new(&[Along::default(), wide]).unwrap(),
                interpolation,
                antialias: true,
                exclude_outside,
                outside: None,
            });
            bench.run(&resize).unwrap();
            for got in bench.read(&dst) {
                assert!((got - 2.0).abs() < 1e-5, "{got}");
            }
        }
    }
}

#[test]
fn working_memory_that_cannot_be_had_is_a_fault() {
    let mut bench = Bench::new();
    let many = 1 << 44;
    // Each is small; what lies between is not.
    let src = bench.broadcast(1.0, &[1, many]);
    let dst = bench.view(&[1, 4]);
    bench.has_no_room(&Op::Resize(Resize {
        src,
        dst,
        along: Dims::new(&[
            Along::default(),
            Along {
                scale: (many / 4) as f64,
                shift: 0.0,
            },
        ])
        .unwrap(),
        interpolation: Interpolation::Linear,
        antialias: false,
        exclude_outside: false,
        outside: None,
    }));
    let (query, key) = (
        bench.broadcast(1.0, &[1, 1, 1, many]),
        bench.broadcast(1.0, &[1, 1, 1, many]),
    );
    let value = bench.broadcast(1.0, &[1, 1, 1, 1]);
    let out = bench.view(&[1, 1, 1, 1]);
    bench.has_no_room(&Op::Attention(Box::new(Attention {
        query,
        key,
        value,
        mask: None,
        out,
        scale: 1.0,
        causal: None,
        softcap: 0.0,
    })));
    let src = bench.broadcast(1.0, &[1, 1, many]);
    let apart = Slide {
        stride: 1 << 31,
        ..Slide::new(1 << 31)
    };
    let dst = bench.view(&[1, 1, apart.windows(many)]);
    bench.has_no_room(&Op::Pool(Pool {
        kind: PoolKind::Lp(3.0),
        src,
        dst,
        indices: None,
        window: Window::new(&[apart]).unwrap(),
    }));
}

#[test]
fn a_layer_finds_each_of_very_many_sequences_at_once() {
    let mut bench = Bench::new();
    let many = 1 << 22;
    let (src, dst) = (
        bench.broadcast(2.0, &[1, many, 1]),
        bench.view(&[1, 1, many, 1]),
    );
    let [weight, recurrent] = [3.0, 5.0].map(|value| bench.broadcast(value, &[1, 1, 1]));
    let begun = Instant::now();
    let layer = Op::Rnn(Box::new(Rnn {
        cell: Cell::Tanh,
        direction: Direction::Forward,
        src,
        weight,
        recurrent,
        bias: None,
        peephole: None,
        lengths: None,
        hidden: None,
        cell_state: None,
        dst,
        last_hidden: None,
        last_cell: None,
    }));
    bench.run(&layer).unwrap();
    assert!(begun.elapsed() < FOREVER / 2);
    assert!(
        bench
            .read(&dst)
            .iter()
            .all(|&got| (got - 6f32.tanh()).abs() < 1e-5)
    );
}

#[test]
fn what_has_no_elements_takes_no_time() {
    let mut bench = Bench::new();
    let many = 1 << 40;
    let empty = |view: View, shape: &[usize]| {
        let layout = Layout::contiguous(shape).unwrap();
        View::new(view.span(), view.dtype(), layout).unwrap()
    };
    let [a, b, c, d] = [0; 4].map(|_| bench.view(&[4]));
    let lu = Op::Linalg(Linalg::Lu {
        src: empty(a, &[many, 3, 0]),
        factors: empty(b, &[many, 3, 0]),
        pivots: View::new(
            c.span(),
            DType::I32,
            Layout::contiguous(&[many, 0]).unwrap(),
        )
        .unwrap(),
    });
    let rnn = Op::Rnn(Box::new(Rnn {
        cell: Cell::Tanh,
        direction: Direction::Forward,
        src: empty(a, &[0, many, 1]),
        weight: empty(b, &[1, 1, 1]),
        recurrent: empty(c, &[1, 1, 1]),
        bias: None,
        peephole: None,
        lengths: None,
        hidden: None,
        cell_state: None,
        dst: empty(d, &[0, 1, many, 1]),
        last_hidden: None,
        last_cell: None,
    }));
    let product = Op::MatMul(MatMul {
        a: empty(a, &[0, 0]),
        b: empty(b, &[0, many]),
        out: empty(c, &[0, many]),
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    });
    let turned = Layout::strided(&[0, 15, many], &[15, 1, 0], 0).unwrap();
    let copy = Op::Copy {
        src: View::new(a.span(), DType::F32, turned).unwrap(),
        dst: View::new(
            b.span(),
            DType::F32,
            Layout::strided(&[0, 15, many], &[1, 2, 90], 0).unwrap(),
        )
        .unwrap(),
    };
    for op in [lu, rnn, product, copy] {
        let begun = Instant::now();
        assert_eq!(bench.run(&op), Ok(()));
        assert!(begun.elapsed() < FOREVER / 4, "{op:?}");
    }
}

/// Panics when it is dropped.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        panic_any("dropped, and panics again");
    }
}

/// A trace that panics at each op, also when it is dropped.
struct Bomb(bool);

impl Trace for Bomb {
    fn op(&self, _interval: Interval) {
        match self.0 {
            true => panic_any(Mine),
            false => panic!("no more of this"),
        }
    }
}

#[test]
fn a_trace_that_panics_costs_no_worker() {
    for deep in [false, true] {
        let mut bench = Bench::new();
        let one = bench.broadcast(1.0, &[]);
        bench.device.set_trace(Some(Arc::new(Bomb(deep))));
        let fill = Op::Fill {
            dst: one,
            value: Scalar::Float(2.0),
        };
        for _ in 0..10 {
            // Workers do it: nobody waits for it here.
            // SAFETY: the memory lives until all is over.
            let tick = unsafe { bench.queue.encode(&fill) }.unwrap();
            bench.queue.flush(Flush::Start).unwrap();
            let begun = Instant::now();
            while bench.queue.progress().completed() < tick {
                assert!(begun.elapsed() < FOREVER, "the op is not over");
                std::thread::yield_now();
            }
            assert_eq!(bench.queue.progress().fault(), None);
        }
        bench.device.set_trace(None);
        assert_eq!(bench.read(&one), [2.0]);
    }
}

#[test]
fn handlers_that_panic_twice_cost_no_worker() {
    let mut bench = Bench::new();
    let (sender, receiver) = channel();
    for number in 0..10 {
        let sender = sender.clone();
        let handler = move |_: std::result::Result<(), Fault>| {
            sender.send(number).unwrap();
            panic_any(Mine);
        };
        bench.queue.on_complete(Box::new(handler)).unwrap();
    }
    bench.queue.flush(Flush::Start).unwrap();
    for number in 0..10 {
        assert_eq!(receiver.recv_timeout(FOREVER), Ok(number));
    }
    let one = bench.broadcast(1.0, &[]);
    assert_eq!(bench.read(&one), [1.0]);
}

#[cfg(all(unix, not(sanitize_thread), not(sanitize_address)))]
#[test]
fn a_forked_child_is_told_that_nobody_works_there() {
    let mut bench = Bench::new();
    let one = bench.broadcast(1.0, &[]);
    bench
        .device
        .injector()
        .delay_queue(0, Duration::from_secs(3));
    // SAFETY: the memory lives until all is over.
    let tick = unsafe {
        bench.queue.encode(&Op::Fill {
            dst: one,
            value: Scalar::Float(2.0),
        })
    }
    .unwrap();
    bench.queue.flush(Flush::Start).unwrap();
    // A worker is at it now, which the child does not have, and is not over when the child asks: both may wait for a processor.
    std::thread::sleep(Duration::from_millis(500));
    // SAFETY: the child calls nothing but the wait that is tested, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it ends the child if the wait does not.
        unsafe { libc::alarm(60) };
        let told = bench.queue.progress().wait(tick, None);
        let is_told = matches!(told, Err(Error::DeviceLost(_)));
        // SAFETY: as above.
        unsafe { libc::_exit(if is_told { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the status may be written.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child was not told, or waited for ever");
    assert_eq!(bench.queue.progress().wait(tick, None), Ok(()));
}
