//! Layers with weights, and attention, in pieces.

use streampool_tensor::Array;

use super::{Drawing, Sheet, joined};
use crate::onnx::writer::{float, int, ints};

impl Sheet {
    /// Two sizes that broadcast, now and then in vain.
    fn like(&mut self, size: usize) -> usize {
        match self.dice.below(12) {
            0..=2 => 1,
            3 => 2,
            _ => size,
        }
    }

    pub(super) fn attention(&mut self, x: &Drawing) -> Drawing {
        let rank = 3 + self.dice.below(2);
        let outer: Vec<usize> = (0..rank - 2).map(|_| self.dice.pick(&[1, 2, 3])).collect();
        let [queries, keys, width, values] = [(); 4].map(|()| self.dice.pick(&[1, 2, 3, 4]));
        let part = |sheet: &mut Sheet, rows: usize, columns: usize| {
            let mut shape: Vec<usize> = outer.iter().map(|&size| sheet.like(size)).collect();
            shape.extend([rows, columns]);
            if sheet.dice.one_of(5) {
                return sheet.weights(&shape);
            }
            let (name, array) = (sheet.name(), sheet.numbers(&shape, false));
            sheet.given(name, array)
        };
        let turns = self.dice.one_of(2);
        let masking = self.dice.below(5);
        // Beside scores of minus infinity a finite number counts in the pieces, but not in attention.
        let is_filled = matches!(masking, 2 | 3);
        let query = match x.shape[..] {
            [.., last]
                if x.shape.len() == rank && last == width && !(self.special && is_filled) =>
            {
                x.clone()
            }
            _ => part(self, queries, width),
        };
        let mut key = match turns {
            true => part(self, keys, width),
            false => part(self, width, keys),
        };
        let value = part(self, keys, values);
        if turns {
            let mut perm: Vec<i64> = (0..rank as i64).collect();
            perm.swap(rank - 1, rank - 2);
            let mut shape = key.shape.clone();
            shape.swap(rank - 1, rank - 2);
            key = self.node("Transpose", &[&key], &[ints("perm", &perm)], shape);
        }
        let scale = self.dice.pick(&[0.5, 2.0, 1.0, -0.25]);
        let mut scores = match self.dice.below(3) {
            0 => {
                let scale = self.scalar(scale);
                let query = self.either("Mul", &query, &scale);
                self.product(&query, &key)
            }
            1 => {
                let scores = self.product(&query, &key);
                let scale = self.scalar(scale);
                self.binary("Div", &scores, &scale)
            }
            _ => self.product(&query, &key),
        };
        scores = self.masked(scores, masking);
        let weights = self.node(
            "Softmax",
            &[&scores],
            &[int("axis", -1)],
            scores.shape.clone(),
        );
        let y = self.product(&weights, &value);
        if self.dice.one_of(10) {
            self.values.push(weights);
        }
        y
    }

    fn masked(&mut self, scores: Drawing, masking: usize) -> Drawing {
        match masking {
            0 | 1 => {
                let own = self.beside(&scores.shape);
                let count: usize = own.iter().product();
                let values: Vec<f32> = (0..count)
                    .map(|_| {
                        self.dice
                            .pick(&[0.0, 0.0, 1.0, f32::NEG_INFINITY, f32::MIN, -1e9])
                    })
                    .collect();
                let array = self.array(&values, &own);
                let mask = match self.dice.one_of(3) {
                    true => self.constant(&array),
                    false => {
                        let name = self.name();
                        self.given(name, array)
                    }
                };
                self.either("Add", &scores, &mask)
            }
            2 | 3 => {
                let own = self.beside(&scores.shape);
                let count: usize = own.iter().product();
                let values: Vec<bool> = (0..count).map(|_| self.dice.one_of(2)).collect();
                let name = self.name();
                let mask = self.given(name, Array::new(&values, &own).unwrap());
                let fill = self
                    .dice
                    .pick(&[-1e9, -1e10, f32::MIN, f32::NEG_INFINITY, -5.0]);
                let fill = self.scalar(fill);
                let shape = joined(&scores.shape, &mask.shape);
                self.valid &= shape.is_some();
                let shape = shape.unwrap_or_default();
                let shape = joined(&shape, &fill.shape).unwrap_or_default();
                match self.dice.one_of(2) {
                    true => self.node("Where", &[&mask, &fill, &scores], &[], shape),
                    false => self.node("Where", &[&mask, &scores, &fill], &[], shape),
                }
            }
            _ => scores,
        }
    }

    fn product(&mut self, a: &Drawing, b: &Drawing) -> Drawing {
        let (outer, inner) = match (&a.shape[..], &b.shape[..]) {
            ([outer @ .., rows, _], [others @ .., _, columns]) => {
                (joined(outer, others), [*rows, *columns])
            }
            _ => (None, [1, 1]),
        };
        self.valid &= outer.is_some() && a.shape.last() == b.shape.iter().rev().nth(1);
        let shape = [&outer.unwrap_or_default()[..], &inner].concat();
        self.node("MatMul", &[a, b], &[], shape)
    }

    /// Products with weights, some of one value side by side.
    pub(super) fn linear(&mut self, x: &Drawing) -> Drawing {
        let Some((&rows, outer)) = x.shape.split_last() else {
            return self.unary("Neg", x);
        };
        let outer = outer.to_vec();
        let columns = self.dice.pick(&[1, 2, 4]);
        let mut made = Vec::new();
        for _ in 0..1 + self.dice.below(3) {
            let mut y = if outer.len() == 1 && self.dice.one_of(2) {
                let turned = self.dice.below(2);
                let shape = [[rows, columns], [columns, rows]][turned];
                let weight = self.weights(&shape);
                let shapes = [vec![1], vec![columns], vec![1, columns], vec![]];
                let own = self.dice.below(4);
                let bias = self.numbers(&shapes[own], false);
                let bias = self.constant(&bias);
                let factors = [
                    float("alpha", self.dice.pick(&[1.0, 0.5])),
                    float("beta", self.dice.pick(&[1.0, 2.0, 0.0])),
                    int("transB", turned as i64),
                ];
                self.node(
                    "Gemm",
                    &[x, &weight, &bias],
                    &factors,
                    vec![outer[0], columns],
                )
            } else {
                let weight = self.weights(&[rows, columns]);
                let shape = [&outer[..], &[columns]].concat();
                self.node("MatMul", &[x, &weight], &[], shape)
            };
            if self.dice.one_of(2) {
                let own = self.beside(&[columns]);
                let bias = self.weights(&own);
                y = self.either("Add", &y, &bias);
            }
            if self.dice.one_of(3) {
                let op = self.dice.pick(&["Relu", "Sigmoid", "Tanh"]);
                y = self.unary(op, &y);
            }
            made.push(y);
        }
        let last = made.pop();
        self.values.extend(made);
        last.unwrap_or_else(|| x.clone())
    }

    pub(super) fn convolution(&mut self) -> Drawing {
        let (channels, out) = (self.dice.pick(&[1, 2, 4]), self.dice.pick(&[2, 4]));
        let sizes = [5, 4];
        let spatial = 1 + self.dice.below(2);
        let x = self.input(&[&[2, channels], &sizes[..spatial]].concat());
        let groups = match channels {
            2 if self.dice.one_of(2) => 2,
            _ => 1,
        };
        let weight = self.weights(&[&[out, channels / groups], &[2, 2][..spatial]].concat());
        let shape = [&[2, out], &[4, 3][..spatial]].concat();
        let group = [int("group", groups as i64)];
        let mut y = match self.dice.one_of(2) {
            true => self.node("Conv", &[&x, &weight], &group, shape),
            false => {
                let bias = self.weights(&[out]);
                self.node("Conv", &[&x, &weight, &bias], &group, shape)
            }
        };
        for _ in 0..self.dice.below(3) {
            let mut own = vec![1; spatial + 1];
            own[0] = self.dice.pick(&[1, out, out]);
            let op = self.dice.pick(&["Mul", "Div", "Add", "Sub"]);
            let mut each = self.numbers(&own, false);
            if self.dice.one_of(8) {
                each = Array::zeros(self.dtype, &own).unwrap();
            }
            let each = self.constant(&each);
            y = self.binary(op, &y, &each);
        }
        if self.dice.one_of(2) {
            let [scale, bias, mean] = [(); 3].map(|()| self.weights(&[out]));
            let variance = self.array(&vec![0.5; out], &[out]);
            let variance = self.constant(&variance);
            let shape = y.shape.clone();
            let inputs = [&y, &scale, &bias, &mean, &variance];
            y = self.node("BatchNormalization", &inputs, &[], shape);
        }
        match self.dice.one_of(2) {
            true => self.unary("Relu", &y),
            false => y,
        }
    }
}
