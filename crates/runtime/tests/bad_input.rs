//! Nonsense is refused with an error that names it and what would be right, and the pool stays usable.
#![cfg(not(loom))]

use std::sync::Arc;
use std::time::Duration;

use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::{
    Activation, Axes, Binary, Buffer, Capture, DType, Exhaustion, Expr, Layout, MatMul, Norm,
    NormKind, Op, Pool, ReduceKind, Settings, Stream, Unary,
};

type AnyError = Box<dyn std::error::Error>;
type Outcome = Result<(), AnyError>;

/// What each case can use.
struct World {
    pool: Pool,
    other: Pool,
    stream: Stream,
    foreign: Stream,
}

impl World {
    fn new() -> World {
        let pool = || {
            let device = HostDevice::new(HostOptions::default().threads(1).capacity(1 << 28));
            let settings = Settings::builder().without_environment().build();
            Pool::with_settings(device.unwrap(), settings.unwrap()).unwrap()
        };
        let (pool, other) = (pool(), pool());
        World {
            stream: pool.stream(1).unwrap().clone(),
            foreign: other.stream(1).unwrap().clone(),
            pool,
            other,
        }
    }

    fn buffer(&self) -> Buffer {
        self.stream.allocate(256).unwrap()
    }

    fn matmul(&self, a: (DType, &[usize]), b: (DType, &[usize]), out: &[usize]) -> Outcome {
        let (left, right, mut result) = (self.buffer(), self.buffer(), self.buffer());
        self.stream.encode(Op::MatMul(MatMul {
            a: left.read(a.0, a.1)?,
            b: right.read(b.0, b.1)?,
            out: result.write(DType::F32, out)?,
            bias: None,
            activation: Activation::None,
            alpha: 1.0,
        }))?;
        Ok(())
    }

    fn map(&self, expr: Expr, input: (DType, &[usize]), output: (DType, &[usize])) -> Outcome {
        let (a, mut b) = (self.buffer(), self.buffer());
        self.stream.encode(Op::Map {
            expr: Arc::new(expr),
            inputs: vec![a.read(input.0, input.1)?],
            outputs: vec![b.write(output.0, output.1)?],
        })?;
        Ok(())
    }
}

/// What was made instead of an error is of no interest.
fn done<T>(_: T) -> Outcome {
    Ok(())
}

fn settings(name: &str, value: &str) -> Outcome {
    let read = |asked: &str| (asked == name).then(|| value.to_owned());
    Settings::builder().build_from(read, [name.to_owned()])?;
    Ok(())
}

/// A name, what is done, and what the error has to say.
type Case = (&'static str, fn(&World) -> Outcome, &'static [&'static str]);

const CASES: &[Case] = &[
    // Sizes.
    (
        "an absurd allocation",
        |w| done(w.stream.allocate(usize::MAX)?),
        &["18446744073709551615 bytes", "at most"],
    ),
    (
        "more than the device has",
        |w| done(w.stream.allocate(1 << 30)?),
        &[
            "out of memory",
            "1073741824 bytes",
            "268435456",
            "STREAMPOOL_MEMORY_LIMIT",
        ],
    ),
    (
        "a shape that overflows",
        |w| done(w.buffer().read(DType::F32, &[usize::MAX, 3])?),
        &["number of elements", "[18446744073709551615, 3]"],
    ),
    (
        "a shape larger than the buffer",
        |w| done(w.buffer().read(DType::F32, &[65])?),
        &["[65]", "elements 0 to 63"],
    ),
    (
        "a rank that is too high",
        |w| done(w.buffer().read(DType::F32, &[1; 9])?),
        &["rank", "9", "at most 8"],
    ),
    (
        "data longer than the buffer",
        |w| done(w.stream.upload(&mut w.buffer(), &[0u8; 257])?),
        &["257", "at most 256"],
    ),
    (
        "a place longer than the buffer",
        |w| Ok(w.stream.download_into(&w.buffer(), &mut [0f32; 65])?),
        &["260", "at most 256"],
    ),
    // Layouts.
    (
        "strides out of bounds",
        |w| {
            done(
                w.buffer()
                    .read_as(DType::F32, Layout::strided(&[4], &[32], 0)?)?,
            )
        },
        &["elements 0 to 96", "0 to 63"],
    ),
    (
        "a stride below the start",
        |w| {
            done(
                w.buffer()
                    .read_as(DType::F32, Layout::strided(&[4], &[-1], 2)?)?,
            )
        },
        &["elements -1 to 2"],
    ),
    (
        "strides that overflow",
        |_| done(Layout::strided(&[3], &[isize::MAX], 0)?),
        &["reach of a layout"],
    ),
    (
        "as many strides as no dimension",
        |_| done(Layout::strided(&[3, 3], &[1], 0)?),
        &["number of strides is 1", "2"],
    ),
    (
        "a permutation that repeats an axis",
        |_| done(Layout::contiguous(&[2, 3])?.permute(&[0, 0])?),
        &["[0, 0]", "each axis below 2 once"],
    ),
    (
        "an axis that no shape has",
        |_| done(Axes::new(&[8])?),
        &["8", "below 8"],
    ),
    (
        "writing where indices collide",
        |w| {
            let mut b = w.buffer();
            let dst = b.write_as(DType::F32, Layout::strided(&[4, 4], &[1, 1], 0)?)?;
            done(w.stream.encode(Op::Fill {
                dst,
                value: 0.0.into(),
            })?)
        },
        &["fill", "dst", "no two indices"],
    ),
    // Ops.
    (
        "a product of shapes that do not fit",
        |w| w.matmul((DType::F32, &[2, 3]), (DType::F32, &[4, 2]), &[2, 2]),
        &["matmul", "b", "[4, 2]", "3 rows"],
    ),
    (
        "a product into the wrong shape",
        |w| w.matmul((DType::F32, &[2, 3]), (DType::F32, &[3, 2]), &[2, 3]),
        &["matmul", "out", "[2, 3]", "[2, 2]"],
    ),
    (
        "a product of types that differ",
        |w| w.matmul((DType::F32, &[2, 3]), (DType::F16, &[3, 2]), &[2, 2]),
        &["matmul", "b", "f16", "f32"],
    ),
    (
        "a product of a type it cannot take",
        |w| w.matmul((DType::Bool, &[2, 3]), (DType::Bool, &[3, 2]), &[2, 2]),
        &["matmul", "a", "bool", "a float type"],
    ),
    (
        "an expression over another type",
        |w| {
            w.map(
                Expr::unary(Unary::Exp, DType::F32)?,
                (DType::F64, &[4]),
                (DType::F32, &[4]),
            )
        },
        &["map", "input", "f64", "f32"],
    ),
    (
        "an expression over shapes that do not broadcast",
        |w| {
            w.map(
                Expr::unary(Unary::Exp, DType::F32)?,
                (DType::F32, &[3]),
                (DType::F32, &[4]),
            )
        },
        &["map", "[3]", "broadcasts to [4]"],
    ),
    (
        "an expression with an operand missing",
        |w| {
            w.map(
                Expr::binary(Binary::Add, DType::F32)?,
                (DType::F32, &[4]),
                (DType::F32, &[4]),
            )
        },
        &["map", "inputs is 1", "2 operands"],
    ),
    (
        "a function that a type has not",
        |_| done(Expr::unary(Unary::Exp, DType::I32)?),
        &["i32 for Exp", "a float"],
    ),
    (
        "the mean of integers",
        |w| {
            let (a, mut b) = (w.buffer(), w.buffer());
            let (src, dst) = (a.read(DType::I32, &[4])?, b.write(DType::I32, &[1])?);
            done(w.stream.encode(Op::Reduce {
                kind: ReduceKind::Mean,
                src,
                dst,
                axes: Axes::new(&[0])?,
            })?)
        },
        &["reduce", "src", "i32", "a float type"],
    ),
    (
        "the largest of nothing",
        |w| {
            let (a, mut b) = (w.buffer(), w.buffer());
            let (src, dst) = (a.read(DType::F32, &[0])?, b.write(DType::F32, &[1])?);
            done(w.stream.encode(Op::Reduce {
                kind: ReduceKind::Max,
                src,
                dst,
                axes: Axes::new(&[0])?,
            })?)
        },
        &["reduce", "at least one element"],
    ),
    (
        "softmax along an axis that is not there",
        |w| {
            let (a, mut b) = (w.buffer(), w.buffer());
            let (src, dst) = (a.read(DType::F32, &[4])?, b.write(DType::F32, &[4])?);
            done(w.stream.encode(Op::Softmax {
                src,
                dst,
                axis: 1,
                log: false,
            })?)
        },
        &["softmax", "axis is 1", "below 1"],
    ),
    (
        "a norm with a negative epsilon",
        |w| {
            let (a, mut b) = (w.buffer(), w.buffer());
            let (src, dst) = (a.read(DType::F32, &[4])?, b.write(DType::F32, &[4])?);
            done(w.stream.encode(Op::Norm(Norm {
                added: None,
                kind: NormKind::Layer,
                src,
                dst,
                scale: None,
                bias: None,
                axis: 0,
                epsilon: -1.0,
            }))?)
        },
        &["norm", "epsilon is -1", "not negative"],
    ),
    (
        "writing what was given for reading",
        |w| {
            let b = w.buffer();
            let dst = b.read(DType::F32, &[4])?;
            done(w.stream.encode(Op::Fill {
                dst,
                value: 0.0.into(),
            })?)
        },
        &["fill", "dst", "`write`"],
    ),
    // Streams and what belongs to another pool.
    (
        "a stream that is not there",
        |w| done(w.pool.stream(32)?),
        &["stream 32", "0 to 31"],
    ),
    (
        "a scope on another pool's stream",
        |w| Ok(w.pool.on(&w.foreign, || ())?),
        &["another pool"],
    ),
    (
        "a task on another pool's stream",
        |w| done(w.pool.task_on(&w.foreign, async {})?),
        &["another pool"],
    ),
    (
        "waiting for another pool's stream",
        |w| Ok(w.stream.wait_for_stream(&w.foreign)?),
        &["another pool"],
    ),
    (
        "another pool's buffer as an operand",
        |w| {
            let mut b = w.foreign.allocate(16)?;
            let dst = b.write(DType::F32, &[4])?;
            done(w.stream.encode(Op::Fill {
                dst,
                value: 0.0.into(),
            })?)
        },
        &["buffer", "another pool"],
    ),
    (
        "uploading to another pool's buffer",
        |w| done(w.stream.upload(&mut w.foreign.allocate(4)?, &[0f32])?),
        &["buffer", "another pool"],
    ),
    (
        "recording use on another pool's stream",
        |w| Ok(w.buffer().record_stream(&w.foreign)?),
        &["buffer", "another pool"],
    ),
    (
        "another pool's event",
        |w| done(w.stream.record(&w.other.event()?)?),
        &["event", "another pool"],
    ),
    // Events.
    (
        "waiting on the host for an event never recorded",
        |w| Ok(w.pool.event()?.wait()?),
        &["never recorded"],
    ),
    (
        "waiting with a limit for an event never recorded",
        |w| Ok(w.pool.event()?.wait_timeout(Duration::from_secs(60))?),
        &["never recorded"],
    ),
    (
        "waiting on a stream for an event never recorded",
        |w| Ok(w.stream.wait(&w.pool.event()?)?),
        &["never recorded"],
    ),
    (
        "the time since an event never recorded",
        |w| {
            let (start, end) = (w.pool.timed_event()?, w.pool.timed_event()?);
            w.stream.record(&end)?;
            done(end.elapsed_since(&start)?)
        },
        &["never recorded"],
    ),
    (
        "the time between events without timing",
        |w| {
            let (start, end) = (w.pool.event()?, w.pool.event()?);
            w.stream.record(&start)?;
            w.stream.record(&end)?;
            done(end.elapsed_since(&start)?)
        },
        &["no time stamp", "with timing"],
    ),
    (
        "time that runs backwards",
        |w| {
            let (start, end) = (w.pool.timed_event()?, w.pool.timed_event()?);
            w.stream.record(&start)?;
            w.stream.record(&end)?;
            done(start.elapsed_since(&end)?)
        },
        &["elapsed", "before the end"],
    ),
    // Programs.
    (
        "an operand of another capture",
        |w| {
            let (mut one, mut two) = (Capture::new(&w.stream), Capture::new(&w.stream));
            let stray = one.output(16)?;
            two.output(16)?;
            Ok(two.encode(Op::Fill {
                dst: stray.view(DType::F32, &[4])?,
                value: 0.0.into(),
            })?)
        },
        &["fill", "dst", "another capture"],
    ),
    (
        "capturing a write to an input",
        |w| {
            let mut capture = Capture::new(&w.stream);
            let input = capture.input(16)?;
            Ok(capture.encode(Op::Fill {
                dst: input.view(DType::F32, &[4])?,
                value: 0.0.into(),
            })?)
        },
        &["fill", "dst", "written"],
    ),
    (
        "an input named as an output of another capture was",
        |w| {
            let stray = Capture::new(&w.stream).output(256)?;
            // The same memory, at the same place, in another role.
            let mut capture = Capture::new(&w.stream);
            capture.input(256)?;
            let dst = stray.view(DType::F32, &[4])?;
            Ok(capture.encode(Op::Fill {
                dst,
                value: 0.0.into(),
            })?)
        },
        &["fill", "dst", "another capture"],
    ),
    (
        "capturing a copy onto itself, shifted",
        |w| {
            let mut capture = Capture::new(&w.stream);
            let scratch = capture.scratch(64)?;
            let part = |start| Layout::contiguous(&[16])?.slice(0, start, start + 8, 1);
            let (src, dst) = (
                scratch.view_as(DType::F32, part(0)?)?,
                scratch.view_as(DType::F32, part(4)?)?,
            );
            Ok(capture.encode(Op::Copy { src, dst })?)
        },
        &["copy", "dst", "src is in, too", "memory of its own"],
    ),
    (
        "replaying with an output missing",
        |w| {
            let mut capture = Capture::new(&w.stream);
            let output = capture.output(16)?;
            capture.encode(Op::Fill {
                dst: output.view(DType::F32, &[4])?,
                value: 0.0.into(),
            })?;
            done(w.stream.replay(&capture.finish()?, &[], &mut [])?)
        },
        &["output 0", "1 in all"],
    ),
    (
        "replaying into a buffer that is too small",
        |w| {
            let mut capture = Capture::new(&w.stream);
            let output = capture.output(512)?;
            capture.encode(Op::Fill {
                dst: output.view(DType::F32, &[128])?,
                value: 0.0.into(),
            })?;
            done(
                w.stream
                    .replay(&capture.finish()?, &[], &mut [&mut w.buffer()])?,
            )
        },
        &["output 0", "256 bytes", "at least 512"],
    ),
    (
        "replaying another pool's program",
        |w| {
            let program = Capture::new(&w.foreign).finish()?;
            done(w.stream.replay(&program, &[], &mut [])?)
        },
        &["program", "another pool"],
    ),
    // Settings.
    (
        "a pool of no streams",
        |_| {
            done(
                Settings::builder()
                    .without_environment()
                    .streams(0)
                    .build()?,
            )
        },
        &["STREAMPOOL_STREAMS", "`0`", "1 to 64"],
    ),
    (
        "a pool of absurdly many streams",
        |_| {
            done(
                Settings::builder()
                    .without_environment()
                    .streams(1000)
                    .build()?,
            )
        },
        &["1000", "1 to 64"],
    ),
    (
        "settings spoilt after they were built",
        |w| {
            let mut settings = Settings::builder().without_environment().build()?;
            settings.streams = 0;
            done(Pool::with_settings(w.pool.device().clone(), settings)?)
        },
        &["0", "1 to 64"],
    ),
    (
        "watermarks that cross",
        |_| {
            done(
                Settings::builder()
                    .without_environment()
                    .high_watermark(0.2)
                    .low_watermark(0.8)
                    .build()?,
            )
        },
        &["0.2", "0.8"],
    ),
    (
        "a number that does not parse",
        |_| settings("STREAMPOOL_STREAMS", "many"),
        &["STREAMPOOL_STREAMS", "many", "1 to 64"],
    ),
    (
        "a wait that does not parse",
        |_| settings("STREAMPOOL_WAIT_TIMEOUT_MS", "-2"),
        &["STREAMPOOL_WAIT_TIMEOUT_MS", "-2", "-1"],
    ),
    (
        "a size that does not parse",
        |_| settings("STREAMPOOL_MEMORY_LIMIT", "12 parsecs"),
        &["STREAMPOOL_MEMORY_LIMIT", "12 parsecs"],
    ),
    (
        "a fraction that is none",
        |_| settings("STREAMPOOL_HIGH_WATERMARK", "1.5"),
        &["STREAMPOOL_HIGH_WATERMARK", "1.5"],
    ),
    (
        "a quirk nobody knows",
        |_| settings("STREAMPOOL_MITIGATIONS", "-gremlins"),
        &["STREAMPOOL_MITIGATIONS", "gremlins", "shared-matmul-state"],
    ),
    (
        "a variable nobody knows",
        |_| settings("STREAMPOOL_STREAM", "4"),
        &["STREAMPOOL_STREAM", "STREAMPOOL_STREAMS"],
    ),
    (
        "a host without threads",
        |_| done(HostDevice::new(HostOptions::default().threads(0))?),
        &["threads", "0"],
    ),
    (
        "a host of absurdly many threads",
        |_| done(HostDevice::new(HostOptions::default().threads(100_000))?),
        &["100000"],
    ),
    (
        "a host without memory",
        |_| done(HostDevice::new(HostOptions::default().capacity(0))?),
        &["0"],
    ),
];

#[test]
fn nonsense_is_named_and_changes_nothing() {
    let world = World::new();
    for (name, attempt, says) in CASES {
        let error = match attempt(&world) {
            Ok(()) => panic!("{name} was accepted"),
            Err(error) => error.to_string(),
        };
        for part in *says {
            assert!(
                error.contains(part),
                "{name}: `{error}` does not say `{part}`"
            );
        }
        assert_usable(&world, name);
    }
    let snapshot = world.pool.snapshot().unwrap();
    assert_eq!((snapshot.memory.in_use, snapshot.memory.pending), (0, 0));
}

#[test]
fn a_pool_of_the_default_stream_alone_waits_for_nobody() {
    let device = HostDevice::new(HostOptions::default().threads(1)).unwrap();
    let settings = Settings::builder()
        .without_environment()
        .streams(1)
        .exhaustion(Exhaustion::Wait(None));
    let pool = Pool::with_settings(device, settings.build().unwrap()).unwrap();
    let error = pool.lease().unwrap_err().to_string();
    assert!(error.contains("STREAMPOOL_STREAMS"), "{error}");
    pool.default_stream().unwrap().synchronize().unwrap();
}

#[test]
fn an_exhausted_pool_names_its_limit() {
    let device = HostDevice::new(HostOptions::default().threads(1)).unwrap();
    for (policy, says) in [
        (Exhaustion::Fail, "all 1 worker streams are in use"),
        (
            Exhaustion::Wait(Some(Duration::from_millis(5))),
            "stayed in use for 5ms",
        ),
    ] {
        let settings = Settings::builder()
            .without_environment()
            .streams(2)
            .exhaustion(policy);
        let pool = Pool::with_settings(device.clone(), settings.build().unwrap()).unwrap();
        let lease = pool.lease().unwrap();
        let error = pool.lease().unwrap_err().to_string();
        assert!(
            error.contains(says) && error.contains("STREAMPOOL_STREAMS"),
            "{error}"
        );
        drop(lease);
        pool.lease().unwrap().synchronize().unwrap();
    }
}

fn assert_usable(world: &World, after: &str) {
    let mut buffer = world.stream.allocate(64).unwrap();
    let dst = buffer.write(DType::I32, &[16]).unwrap();
    let fill = Op::Fill {
        dst,
        value: 7.into(),
    };
    world
        .stream
        .encode(fill)
        .unwrap_or_else(|error| panic!("after {after}: {error}"));
    assert_eq!(
        world.stream.download::<i32>(&buffer).unwrap(),
        [7; 16],
        "after {after}"
    );
}
