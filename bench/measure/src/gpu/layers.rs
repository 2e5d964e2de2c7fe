//! Small models with a wait after each: one layer op by op, and three layers as a program.

use streampool::cuda::Precision;
use streampool::runtime::Reference;
use streampool::{Activation, Buffer, Capture, DType, Program, Stream};

use super::point::{Against, Group, Point};
use super::stage::{Stage, THREADS};
use crate::Result;
use crate::dense::{Dense, User, uploaded};
use crate::errors::difference;
use crate::noise::Noise;

/// Rows of the input of the one layer; of the three it is one.
const ROWS: usize = 4;

/// The threads at which scaling is judged.
const MANY: usize = 8;

/// An error, if what came out on `stream` is not right.
fn verify(stage: &Stage, what: &str, stream: &Stream, y: &Buffer, right: &[f32]) -> Result<()> {
    let most = match stage.precision {
        Precision::Exact => 1e-4,
        Precision::Tf32 | Precision::Bf16 | Precision::F16 => 5e-2,
    };
    let apart = difference(&stream.download::<f32>(y)?, right);
    match apart <= most {
        true => Ok(()),
        false => Err(format!(
            "{what} comes out wrong: off by {apart:.1e} of the largest value, at most {most:.0e} is right"
        )
        .into()),
    }
}

/// A layer of 256 to 128, four rows at a time.
pub fn linear(stage: &mut Stage) -> Result<Group> {
    let mut noise = Noise::new(1);
    let first = &stage.crew.streams[0];
    let layer = Dense::new(first, &mut noise, (256, 128), Activation::None)?;
    let streams = stage.crew.streams.iter();
    let users = streams.map(|stream| User::of(stream, &layer, ROWS, &mut noise));
    let mut users: Vec<User> = users.collect::<Result<_>>()?;
    let mut points: Vec<Point> = Vec::new();
    for threads in THREADS {
        points.push(stage.beside(
            "linear",
            &mut users[..threads],
            |stream, user| layer.run(stream, user).map(|()| 1),
            |driver, slice| driver.launches(threads, 1, slice),
        )?);
    }
    for (user, stream) in users.iter().zip(&stage.crew.streams) {
        let right = layer.by_the_host(&user.input);
        verify(stage, "the linear layer", stream, &user.y, &right)?;
    }
    let of = |threads| THREADS.iter().position(|&known| known == threads);
    let gain = of(MANY).zip(of(1)).and_then(|(many, one)| {
        points[many].gain("linear_scaling", Against::OneThread, &points[one])
    });
    points.extend(gain.map(|gain| gain.goal(4.0)));
    Ok(Group {
        title: "Linear 256 to 128, 4 rows, and wait (driver: an empty kernel)",
        points,
    })
}

/// 512 to 1024 to 1024 to 256, one row, captured once for each thread.
pub fn program(stage: &mut Stage) -> Result<Group> {
    let mut noise = Noise::new(2);
    let first = &stage.crew.streams[0];
    let layers = [
        Dense::new(first, &mut noise, (512, 1024), Activation::Relu)?,
        Dense::new(first, &mut noise, (1024, 1024), Activation::Relu)?,
        Dense::new(first, &mut noise, (1024, 256), Activation::None)?,
    ];
    let mut users = Vec::new();
    for stream in &stage.crew.streams {
        let input = noise.values(512);
        let x = uploaded(stream, &input)?;
        let y = stream.allocate(layers[2].output_bytes())?;
        users.push((captured(stream, &layers)?, input, x, y));
    }
    let mut points = Vec::new();
    for threads in THREADS {
        let point = stage.beside(
            "mlp",
            &mut users[..threads],
            |stream, (program, _, x, y)| {
                stream.replay(program, &[&*x], &mut [y])?;
                stream.synchronize()?;
                Ok(1)
            },
            |driver, slice| driver.replays(threads, 1, slice),
        )?;
        points.push(match threads {
            MANY => point.goal(0.75),
            _ => point,
        });
    }
    for ((_, input, _, y), stream) in users.iter().zip(&stage.crew.streams) {
        let right = through(&layers, input);
        verify(stage, "the program of three layers", stream, y, &right)?;
    }
    Ok(Group {
        title: "512-1024-1024-256, 1 row, replay and wait (driver: a graph of 10 empty kernels)",
        points,
    })
}

/// What the layers make of an input, by the host.
fn through(layers: &[Dense], input: &[f32]) -> Vec<f32> {
    let next = |x: Vec<f32>, layer: &Dense| layer.by_the_host(&x);
    layers.iter().fold(input.to_vec(), next)
}

/// The layers one after the other, as a program.
fn captured(stream: &Stream, layers: &[Dense]) -> Result<Program> {
    let mut capture = Capture::new(stream);
    let mut x: Option<Reference> = None;
    for (number, layer) in layers.iter().enumerate() {
        let shapes = layer.shapes(1)?;
        let input = match x {
            Some(before) => before,
            None => capture.input(shapes.x.elements() * DType::F32.size())?,
        };
        let y = match number + 1 == layers.len() {
            true => capture.output(layer.output_bytes())?,
            false => capture.scratch(layer.output_bytes())?,
        };
        let weights = capture.constant(&layer.weights)?;
        let bias = capture.constant(&layer.bias)?;
        capture.encode(layer.op(
            input.view_as(DType::F32, shapes.x)?,
            weights.view_as(DType::F32, shapes.weights)?,
            bias.view_as(DType::F32, shapes.bias)?,
            y.view_as(DType::F32, shapes.y)?,
        ))?;
        x = Some(y);
    }
    Ok(capture.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_program_agrees_with_the_host() {
        let pool = streampool::host_pool().unwrap();
        let stream = pool.lease_alone().unwrap();
        let mut noise = Noise::new(5);
        let layers = [
            Dense::new(&stream, &mut noise, (20, 30), Activation::Relu).unwrap(),
            Dense::new(&stream, &mut noise, (30, 7), Activation::None).unwrap(),
        ];
        let input = noise.values(20);
        let program = captured(&stream, &layers).unwrap();
        let x = uploaded(&stream, &input).unwrap();
        let mut y = stream.allocate(layers[1].output_bytes()).unwrap();
        stream.replay(&program, &[&x], &mut [&mut y]).unwrap();
        let got = stream.download::<f32>(&y).unwrap();
        assert!(difference(&got, &through(&layers, &input)) < 1e-5);
    }
}
