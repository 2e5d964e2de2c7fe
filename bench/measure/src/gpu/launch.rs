//! Launches of an empty kernel, waiting after each or only now and then.

use streampool::Op;

use super::THREADS;
use super::point::{Against, Group, Point, Unit};
use super::stage::{Crew, Stage};
use crate::Result;

const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Launch and wait, from more and more threads.
pub fn waiting(stage: &mut Stage) -> Result<Group> {
    let points = THREADS
        .into_iter()
        .map(|threads| Ok(launches(stage, "launch_sync", threads, 1)?.goal(0.9)));
    Ok(Group {
        title: "Launch an empty kernel and wait for it",
        points: points.collect::<Result<_>>()?,
    })
}

/// More and more launches between two waits.
pub fn pipelining(stage: &mut Stage) -> Result<Group> {
    let mut points = Vec::new();
    let mut gains = Vec::new();
    for threads in [1, 8] {
        let curve = DEPTHS
            .into_iter()
            .map(|depth| launches(stage, &format!("pipelined_{depth}"), threads, depth))
            .collect::<Result<Vec<_>>>()?;
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
    let rates = stage.beside(
        |crew: &Crew, slice| {
            crew.rate(&mut vec![(); threads], slice, |stream, ()| {
                for _ in 0..depth {
                    stream.encode(Op::Nop)?;
                }
                stream.synchronize()?;
                Ok(depth as u64)
            })
        },
        |driver, slice| driver.launches(threads, depth, slice),
    )?;
    Ok(Point::beside(name, threads, Unit::PerSecond, rates).depth(depth))
}
