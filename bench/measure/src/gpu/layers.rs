//! Small models with a wait after each: one layer op by op, and three layers as a program.

use streampool::cuda::Precision;
use streampool::{Activation, Buffer, Capture, DType, Program, Reference, Stream};

use super::THREADS;
use super::dense::{Dense, Shapes, uploaded};
use super::point::{Against, Group, Point, Unit};
use super::stage::{Crew, Stage};
use crate::Result;
use crate::difference::difference;
use crate::noise::Noise;

/// Rows of the input of the one layer; of the three it is one.
const BATCH: usize = 4;

/// The threads at which scaling is judged.
const MANY: usize = 8;

/// One user of a model: an input, room for the output, and what it should be.
struct User<M> {
    model: M,
    x: Buffer,
    y: Buffer,
    right: Vec<f32>,
}

impl<M> User<M> {
    fn new(stream: &Stream, model: M, input: &[f32], right: Vec<f32>) -> Result<User<M>> {
        Ok(User {
            model,
            x: uploaded(stream, input)?,
            y: stream.allocate(right.len() * DType::F32.size())?,
            right,
        })
    }
}

/// Has each user run its model once, and compares.
fn verify<M>(
    stage: &Stage,
    what: &str,
    users: &mut [User<M>],
    run: impl Fn(&Stream, &mut User<M>) -> streampool::Result<()>,
) -> Result<()> {
    let most = match stage.precision {
        Precision::Exact => 1e-4,
        Precision::Tf32 | Precision::Bf16 | Precision::F16 => 5e-2,
    };
    for (user, stream) in users.iter_mut().zip(&stage.crew.streams) {
        run(stream, user)?;
        let apart = difference(&stream.download::<f32>(&user.y)?, &user.right);
        if apart > most {
            return Err(format!(
                "{what} comes out wrong: off by {apart:.1e} of the largest value, at most {most:.0e} is right"
            )
            .into());
        }
    }
    Ok(())
}

/// A layer of 256 to 128, four rows at a time.
pub fn linear(stage: &mut Stage) -> Result<Group> {
    let mut noise = Noise::new(1);
    let first = &stage.crew.streams[0];
    let layer = Dense::new(first, &mut noise, (256, 128), Activation::None)?;
    let shapes = layer.shapes(BATCH)?;
    let mut users = Vec::new();
    for stream in &stage.crew.streams {
        let input = noise.values(BATCH * 256);
        let right = layer.by_the_host(&input);
        users.push(User::new(stream, (&layer, shapes), &input, right)?);
    }
    let run = |stream: &Stream, user: &mut User<(&Dense, Shapes)>| {
        let (layer, shapes) = user.model;
        stream.encode(layer.op(
            user.x.read_as(DType::F32, shapes.x)?,
            layer.weights.read_as(DType::F32, shapes.weights)?,
            layer.bias.read_as(DType::F32, shapes.bias)?,
            user.y.write_as(DType::F32, shapes.y)?,
        ))?;
        stream.synchronize()
    };
    verify(stage, "the linear layer", &mut users, run)?;
    let mut points = Vec::new();
    for threads in THREADS {
        let rates = stage.beside(
            |crew: &Crew, slice| {
                crew.rate(&mut users[..threads], slice, |stream, user| {
                    run(stream, user).map(|()| 1)
                })
            },
            |driver, slice| driver.launches(threads, 1, slice),
        )?;
        points.push(Point::beside("linear", threads, Unit::PerSecond, rates));
    }
    verify(stage, "the linear layer", &mut users, run)?;
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
        let right = layers
            .iter()
            .fold(input.clone(), |x, layer| layer.by_the_host(&x));
        users.push(User::new(
            stream,
            captured(stream, &layers)?,
            &input,
            right,
        )?);
    }
    let run = |stream: &Stream, user: &mut User<Program>| {
        stream.replay(&user.model, &[&user.x], &mut [&mut user.y])?;
        stream.synchronize()
    };
    verify(stage, "the program of three layers", &mut users, run)?;
    let mut points = Vec::new();
    for threads in THREADS {
        let rates = stage.beside(
            |crew: &Crew, slice| {
                crew.rate(&mut users[..threads], slice, |stream, user| {
                    run(stream, user).map(|()| 1)
                })
            },
            |driver, slice| driver.replays(threads, 1, slice),
        )?;
        let point = Point::beside("mlp", threads, Unit::PerSecond, rates);
        points.push(match threads {
            MANY => point.goal(0.75),
            _ => point,
        });
    }
    verify(stage, "the program of three layers", &mut users, run)?;
    Ok(Group {
        title: "512-1024-1024-256, 1 row, replay and wait (driver: a graph of 10 empty kernels)",
        points,
    })
}

/// The layers one after the other, as a program.
fn captured(stream: &Stream, layers: &[Dense]) -> Result<Program> {
    let bytes = |layer: &Dense| layer.outputs() * DType::F32.size();
    let mut capture = Capture::new(stream);
    let shapes = layers
        .iter()
        .map(|layer| layer.shapes(1))
        .collect::<Result<Vec<_>, _>>()?;
    let first = shapes.first().ok_or("there is no layer")?;
    let mut x: Reference = capture.input(first.x.elements() * DType::F32.size())?;
    for (number, (layer, shapes)) in layers.iter().zip(&shapes).enumerate() {
        let y = match number + 1 == layers.len() {
            true => capture.output(bytes(layer))?,
            false => capture.scratch(bytes(layer))?,
        };
        let weights = capture.constant(&layer.weights)?;
        let bias = capture.constant(&layer.bias)?;
        capture.encode(layer.op(
            x.view_as(DType::F32, shapes.x)?,
            weights.view_as(DType::F32, shapes.weights)?,
            bias.view_as(DType::F32, shapes.bias)?,
            y.view_as(DType::F32, shapes.y)?,
        ))?;
        x = y;
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
        let right = layers[1].by_the_host(&layers[0].by_the_host(&input));
        let program = captured(&stream, &layers).unwrap();
        let mut user = User::new(&stream, program, &input, right).unwrap();
        stream
            .replay(&user.model, &[&user.x], &mut [&mut user.y])
            .unwrap();
        let got = stream.download::<f32>(&user.y).unwrap();
        assert!(difference(&got, &user.right) < 1e-5);
    }
}
