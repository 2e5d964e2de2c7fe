//! The chapter on the adversary: each imitated driver bug, met without its mitigation and with it.

use std::time::Duration;

use serde_json::json;
use streampool::host::{HostDevice, HostOptions};
use streampool::{
    Activation, Buffer, DType, Layout, MatMul, Mitigations, Norm, NormKind, Op, Pool, Quirk,
    Settings, Stream,
};
use streampool_adversary::Adversary;

use super::chapter::{Chapter, Check, Found, Now, Seen, bars, sums};
use super::setting::{Setting, on_own_streams};
use crate::Result;
use crate::text::count;

const QUIRKS: [Quirk; 5] = [
    Quirk::SharedMatMulState,
    Quirk::NormBoundToThread,
    Quirk::EncoderFreedInUse,
    Quirk::StridedCopyRace,
    Quirk::BuffersInFlight(2),
];

const THREADS: usize = 8;
const TRIES: usize = 1250;
const ALL_TRIES: u64 = (THREADS * TRIES) as u64;

/// A bug that is a race shows itself sooner or later: after at most so many rounds.
const MOST_ROUNDS: usize = 20;

/// Up to so long an op waits before it executes, so that threads meet more often.
const DELAY: Duration = Duration::from_micros(100);

/// The chapter.
pub fn chapter() -> Chapter {
    Chapter {
        name: "adversary",
        claim: format!(
            "Some driver bugs occur only when several threads use the driver. Each imitated bug occurs without its mitigation, and \
             never in {} tries with it.",
            count(ALL_TRIES)
        ),
        how: format!(
            "A device around the host imitates {} bugs of GPU drivers: it detects the interleaving that triggers each. {THREADS} threads \
             provoke each bug with random delays, first without mitigations until the bug occurs, then {} times with them.",
            QUIRKS.len(),
            count(ALL_TRIES)
        ),
        tell,
    }
}

fn tell(_: &Setting, now: Now<'_>) -> Result<Found> {
    let checks = QUIRKS.map(|quirk| Check::tried(now, quirk.name(), quirk.name(), || meet(quirk)));
    let [without, with] = sums(&checks);
    let title = "Adversary: how often each bug occurred";
    let series = ["without mitigation", "with"];
    Ok(Found {
        drawings: vec![bars(title, "violations and failures", series, &checks)],
        sum: format!(
            "The bugs occurred {} times without mitigations, and {} times with them.",
            count(without),
            count(with)
        ),
        checks: checks.into(),
        ..Found::default()
    })
}

fn meet(quirk: Quirk) -> Result<Seen> {
    let (mut without, mut rounds) = (0, 0);
    while without == 0 && rounds < MOST_ROUNDS {
        rounds += 1;
        without = work_against(quirk, Mitigations::None)?.violations;
    }
    let with = work_against(quirk, Mitigations::All)?;
    Ok(Seen {
        ok: without > 0 && with.violations == 0 && with.failed == 0,
        figures: format!(
            "off: {} seen; on: {} of {}",
            count(without),
            count(with.violations + with.failed),
            count(ALL_TRIES)
        ),
        numbers: json!({
            "tries": ALL_TRIES,
            "violations_without": without,
            "violations_with": with.violations,
            "failed_with": with.failed,
        }),
        drawn: vec![without, with.violations + with.failed],
    })
}

/// What happened.
struct Met {
    /// Times the imitated driver was used as it cannot bear.
    violations: u64,
    /// Tries that did not succeed.
    failed: u64,
}

fn work_against(quirk: Quirk, mitigations: Mitigations) -> Result<Met> {
    let host = HostDevice::new(HostOptions::default())?;
    host.injector().random_delays(7, DELAY);
    let device = Adversary::new(host, [quirk]);
    let settings = Settings::builder()
        .without_environment()
        .mitigations(mitigations)
        .build()?;
    let pool = Pool::with_settings(device.clone(), settings)?;
    let failed = on_own_streams(&pool, THREADS, |_, stream| {
        let mut operands = Operands::new(stream)?;
        let mut failed = 0u64;
        for _ in 0..TRIES {
            match operands.work(stream) {
                Ok(()) => {}
                Err(error) if error.fault().is_some() => {
                    failed += 1;
                    stream.recover()?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(failed)
    })?;
    Ok(Met {
        violations: device.violations(),
        failed: failed.into_iter().sum(),
    })
}

const SIZE: usize = 16;

/// What one thread works on.
struct Operands {
    input: Buffer,
    product: Buffer,
    normalised: Buffer,
    transposed: Buffer,
}

impl Operands {
    fn new(stream: &Stream) -> streampool::Result<Self> {
        let matrix = || stream.allocate(SIZE * SIZE * DType::F32.size());
        let mut input = matrix()?;
        let values: Vec<f32> = (0..SIZE * SIZE).map(|i| (i % 5) as f32).collect();
        stream.upload(&mut input, &values)?;
        Ok(Operands {
            input,
            product: matrix()?,
            normalised: matrix()?,
            transposed: matrix()?,
        })
    }

    /// Does once all that some driver cannot do on two threads at the same time.
    fn work(&mut self, stream: &Stream) -> streampool::runtime::Result<()> {
        const SHAPE: [usize; 2] = [SIZE, SIZE];
        let transposed = Layout::contiguous(&SHAPE)?.permute(&[1, 0])?;
        stream.encode(Op::MatMul(MatMul {
            a: self.input.read(DType::F32, &SHAPE)?,
            b: self.input.read(DType::F32, &SHAPE)?,
            out: self.product.write(DType::F32, &SHAPE)?,
            bias: None,
            activation: Activation::None,
            alpha: 1.0,
        }))?;
        stream.flush()?;
        stream.encode(Op::Norm(Norm {
            added: None,
            sum: None,
            kind: NormKind::Layer,
            src: self.input.read(DType::F32, &SHAPE)?,
            dst: self.normalised.write(DType::F32, &SHAPE)?,
            scale: None,
            bias: None,
            axis: 1,
            epsilon: 1e-5,
        }))?;
        stream.encode(Op::Copy {
            src: self.input.read_as(DType::F32, transposed)?,
            dst: self.transposed.write(DType::F32, &SHAPE)?,
        })?;
        stream.synchronize()
    }
}
