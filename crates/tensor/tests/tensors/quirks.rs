//! Operators know nothing of the defects of drivers: with the runtime's workarounds they are right from eight threads
//! on a device that imitates all of them, and without a workaround the defect is met.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use streampool_adversary::Adversary;
use streampool_device::Quirk;
use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::{Mitigations, Settings};
use streampool_tensor::{AttentionOptions, DType, Pool, Result, Tensor};

const THREADS: usize = 8;
const ROUNDS: usize = 60;
/// How often a defect may be tried for before it counts as absent.
const PATIENCE: usize = 20_000;

/// An operator on inputs that all threads share: `[4, 8, 8]`, and it turned.
type Case = (&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>);

const LINEAR: Case = ("linear", |x, _| x.linear(&x.select(0, 0)?, None));
const BMM: Case = ("bmm", |x, turned| x.bmm(turned));
const LAYER_NORM: Case = ("layer_norm", |x, _| x.layer_norm(-1, None, None, 1e-5));
const LU: Case = ("lu", |x, _| Ok(x.lu()?.factors));
const SOLVE: Case = ("solve", |x, turned| x.solve(turned));
const COPY: Case = ("transpose and contiguous", |x, _| {
    x.transpose(0, 2)?.contiguous()
});
const CAST: Case = ("cast of a view", |_, turned| turned.to_dtype(DType::F64));
const ATTENTION: Case = ("attention", |x, turned| {
    x.attention(turned, x, &AttentionOptions::default())
});

const ALL: [Case; 8] = [LINEAR, BMM, LAYER_NORM, LU, SOLVE, COPY, CAST, ATTENTION];

const QUIRKS: [Quirk; 5] = [
    Quirk::SharedMatMulState,
    Quirk::NormBoundToThread,
    Quirk::EncoderFreedInUse,
    Quirk::StridedCopyRace,
    Quirk::BuffersInFlight(2),
];

fn pool_with(quirks: &[Quirk], mitigations: Mitigations) -> (Arc<Adversary>, Pool) {
    let host = HostDevice::new(HostOptions::default().threads(2)).unwrap();
    let device = Adversary::new(host, quirks.iter().copied());
    let settings = Settings::builder()
        .without_environment()
        .mitigations(mitigations)
        .build()
        .unwrap();
    let pool = Pool::with_settings(device.clone(), settings).unwrap();
    (device, pool)
}

fn inputs(pool: &Pool) -> [Tensor; 2] {
    let values: Vec<f32> = (0..256u32)
        .map(|at| (at * 37 % 101) as f32 / 50.0 - 1.0)
        .collect();
    let x = Tensor::from_slice(pool, &values, &[4, 8, 8]).unwrap();
    let turned = x.transpose(1, 2).unwrap();
    [x, turned]
}

fn right(case: Case) -> Vec<u8> {
    let (_, pool) = pool_with(&[], Mitigations::All);
    let [x, turned] = inputs(&pool);
    case.1(&x, &turned).unwrap().to_bytes().unwrap()
}

#[test]
fn with_the_workarounds_all_results_are_right_and_no_defect_is_met() {
    let expected = ALL.map(right);
    // Each defect by itself, and all at once.
    let worlds = QUIRKS.iter().map(std::slice::from_ref).chain([&QUIRKS[..]]);
    for quirks in worlds {
        let (device, pool) = pool_with(quirks, Mitigations::All);
        let [x, turned] = inputs(&pool);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (x, turned, expected) = (&x, &turned, &expected);
                scope.spawn(move || {
                    for turn in 0..ROUNDS {
                        let (name, run) = ALL[(turn + thread) % ALL.len()];
                        let result = run(x, turned).and_then(|result| result.to_bytes());
                        let result = result.unwrap_or_else(|error| panic!("{name}: {error}"));
                        let right = result == expected[(turn + thread) % ALL.len()];
                        assert!(right, "{name} is wrong with {quirks:?}");
                    }
                });
            }
        });
        assert_eq!(device.violations(), 0, "{quirks:?}");
    }
}

#[test]
fn without_the_workaround_the_defect_is_met() {
    for (quirk, concerned) in [
        (Quirk::SharedMatMulState, &[LINEAR, BMM][..]),
        (Quirk::NormBoundToThread, &[LAYER_NORM]),
        (Quirk::StridedCopyRace, &[COPY, CAST]),
        (Quirk::EncoderFreedInUse, &[LU, ATTENTION]),
        (Quirk::BuffersInFlight(2), &[SOLVE]),
    ] {
        for &(name, run) in concerned {
            let (device, pool) = pool_with(&[quirk], Mitigations::None);
            let [x, turned] = inputs(&pool);
            let met = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        for _ in 0..PATIENCE / THREADS {
                            if met.load(Ordering::Relaxed) {
                                return;
                            }
                            let result = run(&x, &turned).and_then(|result| result.to_bytes());
                            if let Err(error) = result {
                                let error = error.to_string();
                                assert!(error.contains("quirk violated"), "{error}");
                                met.store(true, Ordering::Relaxed);
                                pool.current().unwrap().recover().unwrap();
                            }
                        }
                    });
                }
            });
            assert!(met.into_inner(), "{quirk} never hit {name}");
            assert!(device.violations() > 0);
        }
    }
}
