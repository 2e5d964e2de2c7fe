//! Taking and giving back memory.

use std::hint::black_box;

use super::point::{Group, Point, Unit};
use super::stage::Stage;
use crate::Result;

const BYTES: usize = 64 << 10;

/// Pairs between two looks at the clock.
const BATCH: u64 = 64;

/// Allocate and free through a stream's arena, beside the driver's pool.
pub fn pairs(stage: &mut Stage) -> Result<Group> {
    let mut points = Vec::new();
    for threads in [1, 8, 31] {
        let rates = stage.beside(
            |crew, slice| {
                crew.rate(&mut vec![(); threads], slice, |stream, ()| {
                    crew.pool.with_stream(stream, || {
                        for _ in 0..BATCH {
                            drop(black_box(stream.allocate(BYTES)?));
                        }
                        Ok(BATCH)
                    })?
                })
            },
            |driver, slice| driver.pool_pairs(threads, BYTES, slice),
        )?;
        points.push(Point::beside("alloc_free", threads, Unit::PerSecond, rates).bytes(BYTES));
    }
    Ok(Group {
        title: "Allocate and free, beside the driver's own pool",
        points,
    })
}
