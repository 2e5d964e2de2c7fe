//! Recurrent layers.

use streampool_tensor::{DType, Direction, RnnOptions, RnnOutput, RnnWeights, Tensor};

use crate::{FLOATS, assert_near, assert_refused, common::pool, real, values};

/// Weights of one direction.
fn weights(pool: &streampool_tensor::Pool, rows: usize, dtype: DType) -> [Tensor; 3] {
    let make = |shape: &[usize], seed| real(pool, shape, seed).to_dtype(dtype).unwrap();
    [
        make(&[1, rows, 3], 1),
        make(&[1, rows, 2], 2),
        make(&[1, 2 * rows], 3),
    ]
}

fn given<'a>([input, recurrent, bias]: &'a [Tensor; 3]) -> RnnWeights<'a> {
    RnnWeights {
        input,
        recurrent,
        bias: Some(bias),
        peephole: None,
    }
}

#[test]
fn layers_of_every_float_type_give_states_of_their_type() {
    let pool = pool();
    let options = RnnOptions::default();
    for dtype in FLOATS {
        let x = real(&pool, &[5, 1, 3], 4).to_dtype(dtype).unwrap();
        let [lstm, plain] = [8, 2].map(|rows| weights(&pool, rows, dtype));
        let result = x.lstm(&given(&lstm), &options).unwrap();
        assert_eq!(result.cell.unwrap().shape(), [1, 1, 2]);
        let plain = [false, true].map(|relu| x.rnn(relu, &given(&plain), &options).unwrap());
        assert!(plain.iter().all(|plain| plain.cell.is_none()));
        let states = plain.map(|plain| plain.states);
        for states in [&result.states, &states[0], &states[1]] {
            assert_eq!((states.shape(), states.dtype()), (&[5, 1, 1, 2][..], dtype));
        }
        let last = result.states.narrow(0, 4, 1).unwrap();
        assert_near(&result.hidden, &values(&last), 0.0);
    }
}

#[test]
fn the_reverse_direction_begins_at_the_end() {
    let pool = pool();
    let x = real(&pool, &[4, 2, 3], 5);
    let gru = weights(&pool, 6, DType::F32);
    let run = |x: &Tensor, direction| {
        let options = RnnOptions {
            direction,
            ..RnnOptions::default()
        };
        x.gru(true, &given(&gru), &options).unwrap()
    };
    let back = run(&x, Direction::Reverse);
    let forth = run(&x.flip(&[0]).unwrap(), Direction::Forward);
    assert_near(
        &back.states.flip(&[0]).unwrap(),
        &values(&forth.states),
        1e-6,
    );
    assert_near(&back.hidden, &values(&forth.hidden), 1e-6);
    // Both at once are one of each.
    let both: Vec<Tensor> = gru
        .iter()
        .map(|x| Tensor::cat(&[x, x], 0).unwrap())
        .collect();
    let both: [Tensor; 3] = both.try_into().unwrap();
    let options = RnnOptions {
        direction: Direction::Both,
        ..RnnOptions::default()
    };
    let result: RnnOutput = x.gru(true, &given(&both), &options).unwrap();
    assert_near(
        &result.states.select(1, 1).unwrap(),
        &values(&back.states),
        1e-6,
    );
    assert_near(
        &result.states.select(1, 0).unwrap(),
        &values(&run(&x, Direction::Forward).states),
        1e-6,
    );
}

#[test]
fn sequences_end_where_their_length_says() {
    let pool = pool();
    let x = real(&pool, &[4, 3, 3], 6);
    let lstm = weights(&pool, 8, DType::F32);
    let lengths = Tensor::from_slice(&pool, &[4, 2, 0], &[3]).unwrap();
    let options = RnnOptions {
        lengths: Some(&lengths),
        ..RnnOptions::default()
    };
    let result = x.lstm(&given(&lstm), &options).unwrap();
    let whole = x.lstm(&given(&lstm), &RnnOptions::default()).unwrap();
    let of = |states: &Tensor, step, sequence| {
        values(&states.select(0, step).unwrap().select(1, sequence).unwrap())
    };
    assert_eq!(of(&result.states, 3, 1), [0.0; 2]);
    assert_eq!(of(&result.states, 1, 1), of(&whole.states, 1, 1));
    assert_eq!(of(&result.states, 3, 0), of(&whole.states, 3, 0));
    let last = result.hidden.select(1, 1).unwrap();
    assert_near(&last, &of(&whole.states, 1, 1), 0.0);
    assert_near(&result.hidden.select(1, 2).unwrap(), &[0.0; 2], 0.0);
    let nothing = x
        .narrow(0, 0, 0)
        .unwrap()
        .lstm(&given(&lstm), &RnnOptions::default())
        .unwrap();
    assert_eq!(nothing.states.shape(), [0, 1, 3, 2]);
    assert_near(&nothing.hidden, &[0.0; 6], 0.0);
}

#[test]
fn what_does_not_fit_is_named() {
    let pool = pool();
    let x = real(&pool, &[4, 2, 3], 7);
    let all = weights(&pool, 8, DType::F32);
    let lstm = given(&all);
    let options = RnnOptions::default();
    let lengths = Tensor::from_slice(&pool, &[1i64, 2], &[2]).unwrap();
    let twice = RnnOptions {
        direction: Direction::Both,
        ..options
    };
    let peephole = RnnWeights {
        peephole: Some(&all[0]),
        ..lstm
    };
    assert_refused([
        (
            x.select(0, 0).unwrap().lstm(&lstm, &options),
            "lstm: self has shape [2, 3], expected [steps, batch, input]",
        ),
        (
            x.lstm(
                &RnnWeights {
                    recurrent: &x.select(0, 0).unwrap(),
                    ..lstm
                },
                &options,
            ),
            "lstm: recurrent has shape [2, 3], expected [directions",
        ),
        (
            x.gru(false, &lstm, &options),
            "gru: input has shape [1, 8, 3], expected [1, 6, 3]",
        ),
        (
            x.lstm(&lstm, &twice),
            "lstm: input has shape [1, 8, 3], expected [2, 8, 3]",
        ),
        (
            x.lstm(
                &lstm,
                &RnnOptions {
                    hidden: Some(&all[2]),
                    ..options
                },
            ),
            "lstm: hidden is of shape [1, 16], expected [1, 2, 2]",
        ),
        (
            x.lstm(
                &lstm,
                &RnnOptions {
                    lengths: Some(&lengths),
                    ..options
                },
            ),
            "lstm: lengths is of type i64, expected i32",
        ),
        (x.lstm(&peephole, &options), "lstm: peephole is of shape"),
        (
            x.to_dtype(DType::I32).unwrap().lstm(&lstm, &options),
            "lstm: self is of type i32, expected a float type",
        ),
    ]);
}
