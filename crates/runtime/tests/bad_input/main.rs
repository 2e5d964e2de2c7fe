//! Nonsense is refused with an error that names it and what would be right, and the pool stays usable.
#![cfg(not(loom))]

mod events;
mod layouts;
mod leases;
mod ops;
mod programs;
mod settings;
mod sizes;
mod strangers;

use streampool_host::{HostDevice, HostOptions};
use streampool_runtime::{Buffer, DType, Op, Pool, Settings, Stream};

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
}

/// What was made instead of an error is of no interest.
fn done<T>(_: T) -> Outcome {
    Ok(())
}

/// A name, what is done, and what the error has to say.
type Case = (&'static str, fn(&World) -> Outcome, &'static [&'static str]);

#[test]
fn nonsense_is_named_and_changes_nothing() {
    let world = World::new();
    let cases = [
        events::CASES,
        layouts::CASES,
        ops::CASES,
        programs::CASES,
        settings::CASES,
        sizes::CASES,
        strangers::CASES,
    ];
    for (name, attempt, says) in cases.concat() {
        let error = match attempt(&world) {
            Ok(()) => panic!("{name} was accepted"),
            Err(error) => error.to_string(),
        };
        for part in says {
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
