//! Figures for Prometheus: what a pool, a session and a queue count, as a page of metrics.
//!
//! `cargo run -p streampool --example metrics`. A server gives `page` to whoever asks for `/metrics`.

use std::fmt::Write;

use serde_json::{Map, Value};
use streampool::batch::Batch;
use streampool::prelude::*;

/// The numbers of a snapshot, each a line: names of fields joined by underscores. Lists of objects become labels.
fn lines(name: &str, labels: &str, value: &Value, page: &mut String) {
    match value {
        Value::Number(number) => {
            let _ = writeln!(page, "{name}{{{labels}}} {number}");
        }
        Value::Bool(value) => {
            let _ = writeln!(page, "{name}{{{labels}}} {}", u8::from(*value));
        }
        Value::Object(fields) => each_field(name, labels, fields, page),
        Value::Array(list) => {
            for (place, value) in list
                .iter()
                .enumerate()
                .filter(|(_, value)| value.is_object())
            {
                let part = name.rsplit('_').next().unwrap_or(name);
                let comma = if labels.is_empty() { "" } else { "," };
                lines(
                    name,
                    &format!("{labels}{comma}{part}=\"{place}\""),
                    value,
                    page,
                );
            }
        }
        Value::String(_) | Value::Null => {}
    }
}

fn each_field(name: &str, labels: &str, fields: &Map<String, Value>, page: &mut String) {
    for (field, value) in fields {
        lines(&format!("{name}_{field}"), labels, value, page);
    }
}

fn figures(snapshot: impl serde::Serialize) -> Value {
    serde_json::to_value(snapshot).expect("figures are plain data")
}

fn page(pool: &Pool, queue: &BatchQueue) -> streampool::Result<String> {
    let mut page = String::new();
    lines("streampool_pool", "", &figures(pool.snapshot()?), &mut page);
    lines(
        "streampool_queue",
        "",
        &figures(queue.statistics()),
        &mut page,
    );
    Ok(page)
}

/// Runs the example.
pub fn main() -> streampool::Result<()> {
    let pool = streampool::host_pool()?;
    let inside = pool.clone();
    let double = move |batch: Batch| -> streampool::Result<Batch> {
        let x = batch.array(0)?.tensor(&inside)?;
        Ok(Batch::new(vec![Array::of(&(&x + &x)?)?])?)
    };
    let queue = BatchQueue::builder().build(double)?;
    for _ in 0..10 {
        queue.infer(Array::new(&[1.0f32, 2.0], &[1, 2])?)?;
    }
    print!("{}", page(&pool, &queue)?);
    Ok(())
}
