//! What a profiler is told.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use streampool_device::{Interval, OpKind, Trace, lock};

use crate::build::{Load, add, copy, fill};
use crate::fixture::Fixture;
use crate::lane::Lane;
use crate::patience::{locked, poll_until};

#[derive(Default)]
struct Recorder(Mutex<Vec<Interval>>);

impl Trace for Recorder {
    fn op(&self, interval: Interval) {
        lock::assert_none_held();
        locked(&self.0).push(interval);
    }
}

impl Recorder {
    /// The intervals of one queue's ticks, once each of them has come.
    fn of(&self, lane: &Lane, ticks: &[u64]) -> Vec<Interval> {
        let mine = || -> Vec<Interval> {
            let all = locked(&self.0);
            all.iter()
                .filter(|interval| interval.queue == lane.index() && ticks.contains(&interval.tick))
                .copied()
                .collect()
        };
        poll_until("the interval of each op", || {
            let mine = mine();
            ticks
                .iter()
                .all(|&tick| mine.iter().any(|interval| interval.tick == tick))
        });
        mine()
    }
}

/// Every op gives one interval, with its queue, tick and name, in order, within the time it ran in.
pub fn intervals_are_ordered_and_named(fixture: &Fixture) {
    let recorder = Arc::new(Recorder::default());
    let mut lane = fixture.lane();
    let load = Load::new(fixture);
    let (view, twin) = (fixture.tensor::<f32>(&[64]), fixture.tensor::<f32>(&[64]));
    fixture.device().set_trace(Some(recorder.clone()));
    let began = Instant::now();
    let mut ops = Vec::new();
    for _ in 0..20 {
        ops.push((lane.run(&fill(view, 1.0)), OpKind::Fill));
        ops.push((lane.run(&copy(view, twin)), OpKind::Copy));
        load.append(&mut lane, 1);
        ops.push((lane.run(&add(view, 1.0)), OpKind::Map));
    }
    lane.sync();
    let ended = Instant::now();
    let ticks: Vec<u64> = ops.iter().map(|&(tick, _)| tick).collect();
    let mut intervals = recorder.of(&lane, &ticks);
    fixture.device().set_trace(None);
    intervals.sort_by_key(|interval| interval.tick);
    let named: Vec<_> = intervals
        .iter()
        .map(|interval| (interval.tick, interval.op))
        .collect();
    assert_eq!(named, ops, "one interval for each op");
    for interval in &intervals {
        assert!(began <= interval.begin && interval.begin <= interval.end && interval.end <= ended);
    }
    for pair in intervals.windows(2) {
        assert!(pair[0].end <= pair[1].begin, "one op at a time: {pair:?}");
    }
}

/// The ops inside one replay share its tick.
pub fn replayed_ops_share_a_tick(fixture: &Fixture) {
    let recorder = Arc::new(Recorder::default());
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[64]);
    let program = lane.capture(&[fill(view, 1.0), add(view, 1.0), add(view, 2.0)], &[]);
    fixture.device().set_trace(Some(recorder.clone()));
    let before = lane.run(&fill(view, 0.0));
    let replay = lane.replay(&program, &[]).expect("it can be replayed");
    let after = lane.run(&add(view, 1.0));
    lane.sync();
    recorder.of(&lane, &[before, replay, after]);
    // What is on its way comes before that returns.
    fixture.device().set_trace(None);
    let intervals = recorder.of(&lane, &[before, replay, after]);
    let inside: Vec<OpKind> = intervals
        .iter()
        .filter(|interval| interval.tick == replay)
        .map(|interval| interval.op)
        .collect();
    let ops: Vec<_> = inside
        .iter()
        .copied()
        .filter(|&op| op != OpKind::Replay)
        .collect();
    assert!(
        ops == [OpKind::Fill, OpKind::Map, OpKind::Map]
            || (ops.is_empty() && inside == [OpKind::Replay]),
        "each op of the replay, or the replay as one: {inside:?}"
    );
}

/// Nothing that completes after it was turned off, or before it was turned on, is sent.
pub fn nothing_is_sent_while_it_is_off(fixture: &Fixture) {
    let recorder = Arc::new(Recorder::default());
    let mut lane = fixture.lane();
    let view = fixture.tensor::<f32>(&[64]);
    let early = lane.run(&fill(view, 0.0));
    lane.sync();
    fixture.device().set_trace(Some(recorder.clone()));
    let traced = lane.run(&fill(view, 1.0));
    lane.sync();
    recorder.of(&lane, &[traced]);
    fixture.device().set_trace(None);
    for _ in 0..20 {
        lane.run(&fill(view, 2.0));
    }
    lane.sync();
    // A later trace that has its interval shows that earlier ones had their time.
    let second = Arc::new(Recorder::default());
    fixture.device().set_trace(Some(second.clone()));
    let last = lane.run(&fill(view, 3.0));
    lane.sync();
    second.of(&lane, &[last]);
    fixture.device().set_trace(None);
    let ticks = |recorder: &Recorder| -> Vec<u64> {
        let mut ticks: Vec<u64> = locked(&recorder.0)
            .iter()
            .map(|interval| interval.tick)
            .collect();
        ticks.retain(|&tick| tick != early);
        ticks
    };
    assert_eq!(ticks(&recorder), [traced]);
    assert_eq!(ticks(&second), [last]);
    assert_eq!(
        Arc::strong_count(&recorder),
        1,
        "the device lets go of a trace"
    );
}

/// Many queues are traced at once while the trace is exchanged, and each op goes to one of them.
pub fn traces_are_exchanged_under_load(fixture: &Fixture) {
    let recorders: Vec<Arc<Recorder>> = (0..20).map(|_| Arc::default()).collect();
    let lanes = fixture.lanes(6);
    fixture.device().set_trace(Some(recorders[0].clone()));
    let mut ends = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = lanes
            .into_iter()
            .map(|mut lane| {
                scope.spawn(move || {
                    let view = fixture.tensor::<f32>(&[64]);
                    let ticks: Vec<u64> = (0..200)
                        .map(|round| {
                            let tick = lane.run(&fill(view, f64::from(round)));
                            if round % 10 == 0 {
                                lane.sync();
                            }
                            tick
                        })
                        .collect();
                    lane.sync();
                    (lane, ticks)
                })
            })
            .collect();
        for recorder in &recorders {
            fixture.device().set_trace(Some(recorder.clone()));
            std::thread::yield_now();
        }
        ends.extend(
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no thread panics")),
        );
    });
    let seen = |lane: &Lane, tick: u64| -> usize {
        recorders
            .iter()
            .map(|recorder| {
                let all = locked(&recorder.0);
                all.iter()
                    .filter(|found| found.queue == lane.index() && found.tick == tick)
                    .count()
            })
            .sum()
    };
    for (lane, ticks) in &ends {
        for &tick in ticks {
            poll_until("the interval of each op", || seen(lane, tick) > 0);
            assert_eq!(seen(lane, tick), 1, "tick {tick}");
        }
    }
    fixture.device().set_trace(None);
}
