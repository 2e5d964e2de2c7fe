//! Launches of an empty kernel, memory, and calls of the bare driver.

use std::hint::black_box;

use streampool::Op;

use super::point::{Against, Group, Point};
use super::stage::{Stage, THREADS};
use crate::Result;

const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Launch and wait, from more and more threads.
pub fn waiting(stage: &mut Stage) -> Result<Group> {
    let points = THREADS.map(|threads| Ok(launches(stage, "launch_sync", threads, 1)?.goal(0.9)));
    Ok(Group {
        title: "Launch an empty kernel and wait for it",
        points: points.into_iter().collect::<Result<_>>()?,
    })
}

/// More and more launches between two waits.
pub fn pipelining(stage: &mut Stage) -> Result<Group> {
    let (mut points, mut gains) = (Vec::new(), Vec::new());
    for threads in [1, 8] {
        let curve =
            DEPTHS.map(|depth| launches(stage, &format!("pipelined_{depth}"), threads, depth));
        let curve = curve.into_iter().collect::<Result<Vec<_>>>()?;
        if let (Some(each), Some(deepest)) = (curve.first(), curve.last()) {
            gains.extend(deepest.gain("pipelining_gain", Against::DepthOne, each));
        }
        points.extend(curve);
    }
    points.extend(gains);
    Ok(Group {
        title: "Launch empty kernels, and wait after each few",
        points,
    })
}

fn launches(stage: &mut Stage, name: &str, threads: usize, depth: usize) -> Result<Point> {
    let point = stage.beside(
        name,
        &mut vec![(); threads],
        |stream, ()| {
            (0..depth).try_for_each(|_| stream.encode(Op::Nop).map(drop))?;
            stream.synchronize()?;
            Ok(depth as u64)
        },
        |driver, slice| driver.launches(threads, depth, slice),
    )?;
    Ok(Point {
        depth: Some(depth),
        ..point
    })
}

/// Allocate and free through a stream's arena, beside the driver's pool.
pub fn memory(stage: &mut Stage) -> Result<Group> {
    const BYTES: usize = 64 << 10;
    const BATCH: u64 = 64;
    let mut points = Vec::new();
    for threads in [1, 8, 31] {
        let point = stage.beside(
            "alloc_free",
            &mut vec![(); threads],
            |stream, ()| {
                for _ in 0..BATCH {
                    drop(black_box(stream.allocate(BYTES)?));
                }
                Ok(BATCH)
            },
            |driver, slice| driver.pool_pairs(threads, BYTES, slice),
        )?;
        points.push(Point {
            bytes: Some(BYTES),
            ..point
        });
    }
    Ok(Group {
        title: "Allocate and free, beside the driver's own pool",
        points,
    })
}

/// What the bare driver does, to be known: calls that ours are made of.
pub fn driver(stage: &mut Stage) -> Result<Group> {
    const MANY: usize = 64;
    const GRAPHS: usize = 32;
    let mut points = Vec::new();
    for threads in THREADS {
        let launches = stage.raw("raw_launches", threads, |driver, threads, slice| {
            driver.launches(threads, MANY, slice)
        })?;
        let graphs = stage.raw("raw_graph_pipelined", threads, |driver, threads, slice| {
            driver.replays(threads, GRAPHS, slice)
        })?;
        let records = stage.raw("raw_event_records", threads, |driver, threads, slice| {
            driver.event_records(threads, slice)
        })?;
        points.push(Point {
            depth: Some(MANY),
            ..launches
        });
        points.push(Point {
            depth: Some(GRAPHS),
            ..graphs
        });
        points.push(records);
    }
    points.sort_by_key(|point| point.name.clone());
    Ok(Group {
        title: "The driver by itself: 64 launches or events, 32 graphs between two waits",
        points,
    })
}
