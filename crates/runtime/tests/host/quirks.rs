//! Each quirk of a driver: without its workaround the imitation reports violations, with it none in ten
//! thousand tries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use streampool_adversary::Adversary;
use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::{
    Buffer, Capture, DType, Error, Layout, MatMul, Mitigations, Norm, NormKind, Op, Pool, Quirk,
    Settings, Stream,
};

const THREADS: usize = 4;
const TRIES: usize = if cfg!(any(sanitize_thread, sanitize_address)) {
    1_000
} else {
    10_000
};
/// How often the failure may be tried for before it counts as absent.
const PATIENCE: usize = 200_000;

/// One try: encode what meets the quirk. `a` holds 64 values of 1, `b` takes the result.
type Try = fn(&Stream, &Buffer, &mut Buffer) -> Result<(), Error>;

fn with_quirk(quirk: Quirk, mitigations: Mitigations) -> (Arc<Adversary>, Pool) {
    let host = HostDevice::new(HostOptions::default().threads(2)).unwrap();
    let device = Adversary::new(host, [quirk]);
    let settings = Settings::builder()
        .without_environment()
        .mitigations(mitigations)
        .build()
        .unwrap();
    let pool = Pool::with_settings(device.clone(), settings).unwrap();
    (device, pool)
}

/// Tries from several threads until `enough` says so, and gives the violations that callers were told of.
fn tell(pool: &Pool, attempt: Try, enough: impl Fn(usize, usize) -> bool + Sync) -> usize {
    let (tried, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let stream = pool.current().unwrap();
                let mut a = stream.allocate(64 * 4).unwrap();
                let mut b = stream.allocate(64 * 4).unwrap();
                // Getting ready can meet the quirk, too; what counts are the tries.
                while stream
                    .upload(&mut a, &[1f32; 64])
                    .and_then(|_| stream.synchronize())
                    .is_err()
                {
                    stream.recover().unwrap();
                }
                while !enough(
                    tried.fetch_add(1, Ordering::SeqCst),
                    told.load(Ordering::SeqCst),
                ) {
                    let outcome = attempt(stream, &a, &mut b).and_then(|()| stream.synchronize());
                    if let Err(error) = outcome {
                        let fault = error.fault().expect("only faults are expected here");
                        assert!(fault.message().contains("quirk violated"), "{fault}");
                        told.fetch_add(1, Ordering::SeqCst);
                        stream.recover().unwrap();
                    }
                }
            });
        }
    });
    told.into_inner()
}

fn prove(quirk: Quirk, attempt: Try) {
    let (device, pool) = with_quirk(quirk, Mitigations::None);
    let told = tell(&pool, attempt, |tried, told| told > 0 || tried > PATIENCE);
    assert!(told > 0, "{quirk} was never met without its workaround");
    assert!(device.violations() > 0);

    let (device, pool) = with_quirk(quirk, Mitigations::All);
    let told = tell(&pool, attempt, |tried, _| tried >= TRIES);
    assert_eq!((told, device.violations()), (0, 0), "{quirk}");

    // Leaving one workaround out by name is leaving that one out.
    let (_, pool) = with_quirk(quirk, Mitigations::Except(vec![quirk.name().to_owned()]));
    assert!(!pool.snapshot().unwrap().quirks[0].mitigated);
}

#[test]
fn matrix_products_encode_one_at_a_time() {
    prove(Quirk::SharedMatMulState, |stream, a, b| {
        stream.encode(Op::MatMul(MatMul {
            a: a.read(DType::F32, &[8, 8])?,
            b: a.read(DType::F32, &[8, 8])?,
            out: b.write(DType::F32, &[8, 8])?,
            bias: None,
            activation: Default::default(),
            alpha: 1.0,
        }))?;
        assert_result(stream, b, 8.0)
    });
}

#[test]
fn normalisation_goes_through_a_program() {
    prove(Quirk::NormBoundToThread, |stream, a, b| {
        stream.encode(Op::Norm(Norm {
            added: None,
            sum: None,
            kind: NormKind::Rms,
            src: a.read(DType::F32, &[64])?,
            dst: b.write(DType::F32, &[64])?,
            scale: None,
            bias: None,
            axis: 0,
            epsilon: 0.0,
        }))?;
        assert_result(stream, b, 1.0)
    });
}

#[test]
fn encoders_are_not_freed_in_use() {
    prove(Quirk::EncoderFreedInUse, |stream, _, b| {
        stream.encode(Op::Fill {
            dst: b.write(DType::F32, &[64])?,
            value: 2.0.into(),
        })?;
        stream.flush()?;
        assert_result(stream, b, 2.0)
    });
}

#[test]
fn strided_copies_do_not_share_scratch() {
    prove(Quirk::StridedCopyRace, |stream, a, b| {
        stream.encode(Op::Copy {
            src: a.read_as(DType::F32, Layout::contiguous(&[8, 8])?.permute(&[1, 0])?)?,
            dst: b.write(DType::F32, &[8, 8])?,
        })?;
        assert_result(stream, b, 1.0)
    });
}

#[test]
fn captured_strided_copies_do_not_share_scratch() {
    prove(Quirk::StridedCopyRace, |stream, a, b| {
        let mut capture = Capture::new(stream);
        let (src, dst) = (capture.input(256)?, capture.output(256)?);
        let transposed = Layout::contiguous(&[8, 8])?.permute(&[1, 0])?;
        capture.encode(Op::Copy {
            src: src.view_as(DType::F32, transposed)?,
            dst: dst.view(DType::F32, &[8, 8])?,
        })?;
        stream.replay(&capture.finish()?, &[a], &mut [&mut *b])?;
        assert_result(stream, b, 1.0)
    });
}

#[test]
fn buffers_in_flight_stay_within_the_limit() {
    prove(Quirk::BuffersInFlight(2), |stream, _, b| {
        for value in [1.0, 2.0, 3.0] {
            stream.encode(Op::Fill {
                dst: b.write(DType::F32, &[64])?,
                value: value.into(),
            })?;
            stream.flush()?;
        }
        assert_result(stream, b, 3.0)
    });
}

#[test]
fn who_waits_for_a_buffer_in_flight_minds_the_deadline() {
    const OP: Duration = Duration::from_millis(500);
    let host = HostDevice::new(HostOptions::default().threads(2)).unwrap();
    host.injector().delay_queue(1, OP);
    let device = Adversary::new(host, [Quirk::BuffersInFlight(2)]);
    let settings = Settings::builder().without_environment().build().unwrap();
    let pool = Pool::with_settings(device, settings).unwrap();
    let stream = pool.stream(1).unwrap();
    let mut buffer = stream.allocate(256).unwrap();
    // The third has to wait until a buffer is no longer in flight. It takes as long as an op if the wait has no deadline.
    let mut are_late_in_time = || {
        let begun = Instant::now();
        let waited = [1.0, 2.0, 3.0].map(|value| {
            let dst = buffer.write(DType::F32, &[64]).unwrap();
            let value = value.into();
            stream.encode(Op::Fill { dst, value }).unwrap();
            stream.synchronize_timeout(Duration::from_millis(10))
        });
        let elapsed = begun.elapsed();
        stream.synchronize().unwrap();
        let is_late = |waited| {
            matches!(
                waited,
                Err(Error::Device(streampool_device::Error::Timeout(_)))
            )
        };
        waited.into_iter().all(is_late) && elapsed < OP
    };
    // If no worker gets a processor for some time, the thread that waits does the op itself, and is late.
    assert!((0..10).any(|_| are_late_in_time()));
}

/// A workaround must not only be quiet: the result has to be right.
fn assert_result(stream: &Stream, buffer: &Buffer, expected: f32) -> Result<(), Error> {
    assert_eq!(stream.download::<f32>(buffer)?, [expected; 64]);
    Ok(())
}
