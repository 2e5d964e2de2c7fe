//! What the bare driver does, to be known: calls that ours are made of, and the choice of a source of memory.

use super::THREADS;
use super::point::{Group, Point};
use super::stage::Stage;
use crate::Result;

/// Launches between two waits where only launching counts.
const MANY: usize = 64;

/// Graphs in flight.
const GRAPHS: usize = 32;

/// Launches, graphs in flight and events.
pub fn calls(stage: &mut Stage) -> Result<Group> {
    let mut points = Vec::new();
    for threads in THREADS {
        let launches = stage.raw(|driver, slice| driver.launches(threads, MANY, slice))?;
        points.push(Point::raw("raw_launches", threads, launches).depth(MANY));
    }
    for threads in THREADS {
        let graphs = stage.raw(|driver, slice| driver.replays(threads, GRAPHS, slice))?;
        points.push(Point::raw("raw_graph_pipelined", threads, graphs).depth(GRAPHS));
    }
    for threads in THREADS {
        let records = stage.raw(|driver, slice| driver.event_records(threads, slice))?;
        points.push(Point::raw("raw_event_records", threads, records));
    }
    Ok(Group {
        title: "The driver by itself: 64 launches or events, 32 graphs between two waits",
        points,
    })
}

/// The two sources of large blocks: plain allocations, as ours are, and memory mapped to reserved addresses.
pub fn chunks(stage: &mut Stage) -> Result<Group> {
    let mut points = Vec::new();
    for mebibytes in [2, 20] {
        let bytes = mebibytes << 20;
        for threads in [1, 8] {
            let plain = stage.raw(|driver, slice| driver.plain_blocks(threads, bytes, slice))?;
            let mapped = stage.raw(|driver, slice| driver.mapped_blocks(threads, bytes, slice))?;
            points.push(
                Point::raw(format!("plain_chunk_{mebibytes}MiB"), threads, plain).bytes(bytes),
            );
            points.push(
                Point::raw(format!("mapped_chunk_{mebibytes}MiB"), threads, mapped).bytes(bytes),
            );
        }
    }
    Ok(Group {
        title: "Take a large block from the driver and give it back",
        points,
    })
}
