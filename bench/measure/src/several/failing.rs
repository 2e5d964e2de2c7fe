//! One GPU of several is lost while all work: its calls fail, the others' go on.

#![expect(unsafe_code, reason = "gives a kernel memory that does not exist")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use streampool::device::Span;
use streampool::{Array, DType, DeviceSet, DeviceUse, Expr, Op, Pool, Session, Unary};

use super::workload::Workload;
use crate::fairness::mlp;
use crate::noise::Noise;
use crate::text::time as told;
use crate::{Failure, Result};

/// How many floats the kernel writes.
const COUNT: usize = 1024;

/// Memory that nobody ever allocated.
const NOWHERE: Span = Span {
    handle: 0xdead_0000,
    offset: 0,
    bytes: COUNT * 4,
};

/// What became of it. The device that is struck is the last of the set.
#[derive(Debug, Serialize)]
pub struct Failing {
    devices: usize,
    threads: usize,
    /// Calls that failed on the device that was struck, by the kind of their error.
    failed_there: BTreeMap<String, usize>,
    /// Calls that failed on any other device.
    failed_elsewhere: usize,
    /// Calls that ended well on the others, in the second before and in each second after.
    per_second_elsewhere: Vec<usize>,
    /// The longest call on the others in the second before, and in the seconds after. In seconds.
    longest_before: f64,
    longest_after: f64,
    /// Why the set leaves the device out.
    lost: Option<String>,
    /// Whether a model can be loaded and run on what is left.
    serves_what_is_left: bool,
    /// Whether all is as it should be.
    pub ok: bool,
}

/// A call: when it began and ended, on which device, and the kind of its error.
struct Call {
    begun: Instant,
    ended: Instant,
    device: usize,
    failed: Option<String>,
}

/// Strikes the last device of the set. It is of no use to this process after that.
pub fn measure(set: &DeviceSet, per_device: usize) -> Result<Failing> {
    let last = set.len() - 1;
    if last == 0 {
        return Err("two devices are needed: one to lose, and one to go on".into());
    }
    let workload = Workload::mlp(per_device)?;
    let sessions = workload.load(set)?;
    let input = Array::new(&Noise::new(1).normal(mlp::INPUTS), &[1, mlp::INPUTS])?;
    let threads = per_device * set.len();
    let stop = &AtomicBool::new(false);
    let (sessions_, input_) = (&sessions, &input);
    let (calls, struck) = std::thread::scope(|scope| {
        let run = move || {
            let mut calls = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let place = sessions_.take()?;
                let begun = Instant::now();
                let result = place.checked(place.run([("x", input_)]));
                calls.push(Call {
                    begun,
                    ended: Instant::now(),
                    device: place.device(),
                    failed: result.err().map(|error| format!("{:?}", error.kind())),
                });
            }
            Ok::<_, Failure>(calls)
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        std::thread::sleep(Duration::from_secs(3));
        let victim = set.pools().last().cloned();
        let struck = victim.map(|pool| scope.spawn(move || strike(&pool)).join());
        std::thread::sleep(Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
        let ended = running.into_iter().map(|thread| {
            let ended = thread.join();
            ended.map_err(|_| Failure::from("a thread panicked"))?
        });
        let calls = ended.collect::<Result<Vec<Vec<Call>>>>();
        (calls, struck)
    });
    let calls: Vec<Call> = calls?.into_iter().flatten().collect();
    let struck = struck.ok_or("there is no device")?;
    let struck = struck.map_err(|_| "the thread that strikes panicked")??;
    let status = set.status();
    let serves = serves(set, &workload, &input, last);
    Ok(Failing::of(&calls, struck, threads, &status, serves))
}

/// Has a kernel write to nowhere. Returns when it was started.
fn strike(pool: &Pool) -> Result<Instant> {
    let stream = pool.lease()?;
    let mut good = stream.allocate(COUNT * 4)?;
    stream.upload(&mut good, &[1f32; COUNT])?;
    stream.synchronize()?;
    // SAFETY: that this memory does not exist is the point: whoever uses it loses the device.
    let mut nowhere = unsafe { pool.adopt(NOWHERE, || ()) }?;
    let expr = Expr::unary(Unary::Neg, DType::F32).map_err(streampool::Error::from)?;
    let inputs = vec![good.read(DType::F32, &[COUNT])?];
    let outputs = vec![nowhere.write(DType::F32, &[COUNT])?];
    let now = Instant::now();
    let expr = expr.into();
    stream.encode(Op::Map {
        expr,
        inputs,
        outputs,
    })?;
    match stream.synchronize() {
        Ok(()) => Err("a kernel wrote to nowhere, and nothing failed".into()),
        Err(_) => Ok(now),
    }
}

/// Whether a model can still be loaded and run, on every device but the lost one.
fn serves(set: &DeviceSet, workload: &Workload, input: &Array, lost: usize) -> bool {
    let Ok(again) = workload.load(set) else {
        return false;
    };
    let runs = |session: &Session| session.run([("x", input)]).is_ok();
    again.iter().count() == lost && again.iter().all(runs) && again.run([("x", input)]).is_ok()
}

impl Failing {
    fn of(
        calls: &[Call],
        struck: Instant,
        threads: usize,
        status: &[DeviceUse],
        serves: bool,
    ) -> Failing {
        const SECOND: Duration = Duration::from_secs(1);
        let last = status.len() - 1;
        let mut failed_there = BTreeMap::new();
        let mut failed_elsewhere = 0;
        for call in calls {
            match &call.failed {
                Some(kind) if call.device == last => {
                    *failed_there.entry(kind.clone()).or_insert(0) += 1;
                }
                Some(_) => failed_elsewhere += 1,
                None => {}
            }
        }
        let elsewhere = || calls.iter().filter(|call| call.device != last);
        let within = |from: Instant, to: Instant| {
            elsewhere().filter(move |call| call.ended >= from && call.ended < to)
        };
        let longest = |from, to| {
            let took = within(from, to).map(|call| call.ended - call.begun);
            took.max().unwrap_or_default().as_secs_f64()
        };
        let before = struck.checked_sub(SECOND).unwrap_or(struck);
        let after = struck + 2 * SECOND;
        let good = |from, to| {
            within(from, to)
                .filter(|call| call.failed.is_none())
                .count()
        };
        let per_second = vec![
            good(before, struck),
            good(struck, struck + SECOND),
            good(struck + SECOND, after),
        ];
        let lost = status[last].lost.clone();
        let typed = failed_there
            .keys()
            .all(|kind: &String| ["DeviceLost", "DeviceFault"].contains(&&kind[..]));
        let others_live = status[..last].iter().all(|device| device.lost.is_none());
        let ok = failed_elsewhere == 0
            && typed
            && others_live
            && lost.is_some()
            && serves
            && per_second.iter().all(|&count| count > 0);
        Failing {
            devices: status.len(),
            threads,
            failed_there,
            failed_elsewhere,
            per_second_elsewhere: per_second,
            longest_before: longest(before, struck),
            longest_after: longest(struck, after),
            lost,
            serves_what_is_left: serves,
            ok,
        }
    }

    /// It for people.
    pub fn page(&self) -> String {
        let failed: Vec<String> = self
            .failed_there
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        let counts = &self.per_second_elsewhere;
        let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
        format!(
            "One of {} devices is lost while {} threads run:\n  \
             failed there: {}\n  failed elsewhere: {}\n  \
             runs elsewhere in the second before, and in two after: {}\n  \
             longest run elsewhere: {} before, {} after\n  \
             left out: {}\n  {}\n",
            self.devices,
            self.threads,
            failed.join(", "),
            self.failed_elsewhere,
            counts.join(", "),
            told(self.longest_before),
            told(self.longest_after),
            self.lost.as_deref().unwrap_or("no"),
            if self.ok { "ok" } else { "FAILED" },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_elsewhere_is_told() {
        let struck = Instant::now() + Duration::from_secs(5);
        let at = |milliseconds: i64| match milliseconds < 0 {
            true => struck - Duration::from_millis(milliseconds.unsigned_abs()),
            false => struck + Duration::from_millis(milliseconds.unsigned_abs()),
        };
        let call = |ended: i64, device, failed: Option<&str>| Call {
            begun: at(ended - 10),
            ended: at(ended),
            device,
            failed: failed.map(str::to_owned),
        };
        let device = |name: &str, lost: Option<&str>| DeviceUse {
            name: name.to_owned(),
            under_way: 0,
            begun: 5,
            lost: lost.map(str::to_owned),
        };
        let status = [device("cuda", None), device("cuda:1", Some("struck"))];
        let mut calls = vec![
            call(-500, 0, None),
            call(500, 0, None),
            call(1500, 0, None),
            call(100, 1, Some("DeviceLost")),
        ];
        let good = Failing::of(&calls, struck, 4, &status, true);
        assert!(good.ok, "{good:?}");
        assert_eq!(good.per_second_elsewhere, [1, 1, 1]);
        assert!(good.page().contains("1 DeviceLost"));
        assert!(!Failing::of(&calls, struck, 4, &status, false).ok);
        calls.push(call(600, 0, Some("DeviceFault")));
        assert!(!Failing::of(&calls, struck, 4, &status, true).ok);
    }
}
