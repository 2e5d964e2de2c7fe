//! Models and requests of hostile numbers: each is refused when it is loaded or run, or ends soon with its outputs or an error.
//!
//! They are tried in another process, so that one that ends it, or hangs, is only a failure. `HOSTILE_MODELS` says how many are
//! tried, `HOSTILE_SECONDS` for how long, and `HOSTILE_FIRST` which is the first: a model that fails says its number.

mod draw;
mod small;

use std::io::{BufRead, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use streampool_conformance::hostile::Cases;
use streampool_host::{HostDevice, HostOptions};
use streampool_model::{RunOptions, Session, SessionOptions};
use streampool_runtime::Settings;
use streampool_tensor::Pool;

const NAME: &str = "models_of_hostile_numbers_end";
/// Tells the other process where to begin, and how many to try.
const PART: &str = "HOSTILE_PART";

/// When a run is given up, and when it counts as one that does not end.
const DEADLINE: Duration = Duration::from_secs(1);
const FOREVER: Duration = Duration::from_secs(60);
/// KiB of address space.
const MOST_MEMORY: u64 = 8 << 20;
const MOST_WRONG: u64 = 10;

/// What became of a model.
fn tried(number: u64) -> &'static str {
    let drawn = draw::model(number);
    // A device of its own: what is counted and kept is this model's.
    let device = HostDevice::new(HostOptions::default().threads(1)).expect("a host");
    let settings = Settings::builder()
        .without_environment()
        .memory_limit(Some(256 << 20))
        .build();
    let pool = Pool::with_settings(device, settings.expect("good settings")).expect("a pool");
    let session = match Session::from_bytes(&pool, drawn.model, &SessionOptions::default()) {
        Ok(session) => session,
        Err(error) => return told(&error.to_string(), "refused"),
    };
    let options = RunOptions {
        steps: Some(10_000),
        work: Some(1 << 26),
        ..RunOptions::within(DEADLINE)
    };
    let mut ended = "failed";
    for inputs in &drawn.requests {
        let inputs = inputs.iter().map(|(name, array)| (&name[..], array));
        match session.run_with(inputs, &options) {
            Ok(_) => ended = "done",
            Err(error) if told(&error.to_string(), "") == "wrong" => return "wrong",
            Err(_) => {}
        }
    }
    ended
}

/// What an error says: a panic that was caught on the way is a fault of ours.
fn told(error: &str, otherwise: &'static str) -> &'static str {
    if error.contains("panic") {
        println!("\n{error}");
        return "wrong";
    }
    otherwise
}

/// Tries models one after the other, and says before and after each which it is.
fn try_all(part: &str) {
    let (first, count) = part.split_once(' ').expect("two numbers");
    let [first, count] = [first, count].map(|word| word.parse::<u64>().expect("a number"));
    for case in first..first + count {
        println!("\ncase {case}");
        let ended = catch_unwind(AssertUnwindSafe(|| tried(case)));
        println!("\nended {}", ended.unwrap_or("wrong"));
    }
}

/// How one process ended: all were tried, or one is wrong.
struct Tried {
    /// The next to be tried.
    next: u64,
    wrong: Option<String>,
}

/// Has another process try some of the models, and counts what came of them.
fn watch(cases: &Cases, counts: &mut [u64; 3]) -> Tried {
    let (first, end) = (cases.left().start, cases.left().end);
    let this = std::env::current_exe().expect("this test has a file");
    // A process without bounds would take the machine's memory.
    let bounded = format!("ulimit -v {MOST_MEMORY}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &bounded])
        .arg(this)
        .args([NAME, "--exact", "--nocapture"])
        .env(PART, format!("{first} {}", end - first))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let (sender, lines) = channel();
    let output = child.stdout.take().expect("it is piped");
    std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.for_each(|line| _ = sender.send(line));
    });
    let mut errors = child.stderr.take().expect("it is piped");
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        _ = errors.read_to_string(&mut text);
        text
    });
    let (mut at, mut wrong, mut is_late) = (first, None, false);
    let is_over = loop {
        match lines.recv_timeout(FOREVER) {
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                wrong = Some("it does not end".to_owned());
                break false;
            }
            Err(_) => break true,
            Ok(line) => match line.split_once(' ') {
                Some(("case", number)) => at = number.parse().expect("a number"),
                Some(("ended", ended)) => {
                    match ended {
                        "refused" => counts[0] += 1,
                        "failed" => counts[1] += 1,
                        "done" => counts[2] += 1,
                        _ => {
                            wrong = Some("it panicked".to_owned());
                            break false;
                        }
                    }
                    if cases.left().is_empty() {
                        is_late = true;
                        break false;
                    }
                }
                _ => {}
            },
        }
    };
    if !is_over {
        _ = child.kill();
    }
    let status = child.wait().expect("it was started");
    if is_over && !status.success() {
        wrong = Some(format!("it ended the process: {status}"));
    }
    let wrong = wrong.map(|why| {
        let errors = errors.join().unwrap_or_default();
        let from = errors.len().saturating_sub(600);
        let errors = errors.get(from..).unwrap_or_default();
        format!("{why}\n{errors}\n{}", draw::model(at).text)
    });
    Tried {
        next: if wrong.is_some() || is_late {
            at + 1
        } else {
            end
        },
        wrong,
    }
}

#[test]
#[cfg_attr(
    any(not(target_os = "linux"), sanitize_address, sanitize_thread),
    ignore = "bounds the address space of a process"
)]
fn models_of_hostile_numbers_end() {
    if let Ok(part) = std::env::var(PART) {
        return try_all(&part);
    }
    let mut cases = Cases::from_environment("HOSTILE_MODELS", 2_000);
    let (first, begun) = (cases.left().start, Instant::now());
    let (mut counts, mut wrongs) = ([0; 3], 0);
    while !cases.left().is_empty() && wrongs < MOST_WRONG {
        let tried = watch(&cases, &mut counts);
        if let Some(why) = tried.wrong {
            wrongs += 1;
            eprintln!("model {}: {why}", tried.next - 1);
        }
        cases.go_to(tried.next);
    }
    let [refused, failed, done] = counts;
    let tried = refused + failed + done + wrongs;
    println!(
        "models: {tried} tried from {first} in {:?}: {refused} refused, {failed} failed, {done} done, {wrongs} wrong",
        begun.elapsed()
    );
    assert_eq!(wrongs, 0, "{wrongs} are wrong");
    // Neither everything fits nor nothing.
    assert!(tried < 1000 || (done > tried / 20 && refused > 0 && failed > tried / 20));
}
