use std::time::Instant;
use streampool_host::{HostDevice, HostOptions};
use streampool_model::{Array, Input, Session};
use streampool_tensor::{NpzFile, Pool};
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let pool = Pool::new(HostDevice::new(HostOptions::default())?)?;
    let begin = Instant::now();
    let session = Session::load(&pool, &args[0])?;
    println!("load {:?}", begin.elapsed());
    let read = |path: &str| -> Result<Vec<(String, Array)>, Box<dyn std::error::Error>> {
        let mut file = NpzFile::open(path)?;
        let names: Vec<String> = file.names().map(str::to_owned).collect();
        names
            .into_iter()
            .map(|name| {
                let t = file.read(&pool, &name)?;
                Ok((name, Array::of(&t)?))
            })
            .collect()
    };
    let inputs = read(&format!("{}_in.npz", args[1]))?;
    let expected = read(&format!("{}_out.npz", args[1]))?;
    let go = || session.run(inputs.iter().map(|(n, a)| (n.as_str(), Input::from(a))));
    let begin = Instant::now();
    let out = go()?;
    println!("first {:?}", begin.elapsed());
    for (name, e) in &expected {
        let got = out.get(name).unwrap();
        if got.dtype() != e.dtype() {
            println!("{name} {got:?} {e:?}");
            continue;
        }
        if e.values::<f32>().is_err() {
            println!("{name} equal {}", got == e);
            continue;
        }
        let (g, w) = (got.values::<f32>()?, e.values::<f32>()?);
        let worst = g
            .iter()
            .zip(w)
            .map(|(a, b)| (a - b).abs())
            .fold(0f32, f32::max);
        let big = w.iter().fold(0f32, |a, b| a.max(b.abs()));
        println!(
            "{name} {:?} {:?} worst {worst} of {big}",
            got.shape(),
            e.shape()
        );
    }
    let n = args.get(2).map_or(1, |n| n.parse().unwrap());
    let secs = 2.0;
    let begin = Instant::now();
    let total: usize = std::thread::scope(|s| {
        let hs: Vec<_> = (0..n)
            .map(|_| {
                s.spawn(|| {
                    let mut c = 0;
                    while begin.elapsed().as_secs_f64() < secs {
                        go().unwrap();
                        c += 1;
                    }
                    c
                })
            })
            .collect();
        hs.into_iter().map(|h| h.join().unwrap()).sum()
    });
    println!(
        "{n} threads: {:.1}/s  {:?}",
        total as f64 / begin.elapsed().as_secs_f64(),
        session.statistics()
    );
    Ok(())
}
