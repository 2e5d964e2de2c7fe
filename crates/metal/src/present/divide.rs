//! Ops that would take the GPU too long at a time, as several that write parts of the same result.

use streampool_device::{Attention, Conv, MatMul, Op, View};

/// Rows and columns of a product are cut between the tiles of its kernels.
const TILE: usize = 64;
/// The most parts: an op with so much work that these are long takes minutes.
const MOST_PARTS: u64 = 4096;

/// `op` as several with about `most` work each, in order: products, attention and convolutions. Others, and what cannot be cut
/// any further, stay as they are.
pub(crate) fn divided(op: &Op, most: u64) -> Vec<Op> {
    let most = most.max(op.work() / MOST_PARTS);
    let (mut whole, mut parts) = (vec![op.clone()], Vec::new());
    while let Some(op) = whole.pop() {
        let halves = match op.work() > most {
            true => halves(&op),
            false => None,
        };
        match halves {
            Some([first, second]) => whole.extend([second, first]),
            None => parts.push(op),
        }
    }
    parts
}

fn halves(op: &Op) -> Option<[Op; 2]> {
    match op {
        Op::MatMul(op) => {
            let [first, second] = product(op)?;
            Some([Op::MatMul(first), Op::MatMul(second)])
        }
        Op::Attention(op) => {
            let [first, second] = attention(op)?;
            Some([first, second].map(|half| Op::Attention(Box::new(half))))
        }
        Op::Conv(op) => {
            let [first, second] = convolution(op)?;
            Some([first, second].map(|half| Op::Conv(Box::new(half))))
        }
        _ => None,
    }
}

/// A half of an axis, which is counted from the last one.
#[derive(Clone, Copy)]
struct Half {
    axis: usize,
    start: usize,
    end: usize,
}

impl Half {
    /// Both halves of an axis of so many elements, cut at a multiple of `unit`.
    fn both(axis: usize, size: usize, unit: usize) -> Option<[Half; 2]> {
        let at = ((size / 2 + unit / 2) / unit * unit).max(unit);
        let half = |start, end| Half { axis, start, end };
        (0 < at && at < size).then(|| [half(0, at), half(at, size)])
    }

    /// This half of `view`, or all of it where it is broadcast along the axis.
    fn of(self, view: &View) -> Option<View> {
        let shape = view.shape();
        let axis = match shape.len().checked_sub(self.axis + 1) {
            Some(axis) if shape[axis] > 1 => axis,
            _ => return Some(*view),
        };
        let layout = view.layout().slice(axis, self.start, self.end, 1).ok()?;
        View::new(view.span(), view.dtype(), layout).ok()
    }

    fn of_optional(self, view: &Option<View>) -> Option<Option<View>> {
        match view {
            Some(view) => self.of(view).map(Some),
            None => Some(None),
        }
    }
}

/// A product by its matrices, or by rows or columns of the result.
fn product(op: &MatMul) -> Option<[MatMul; 2]> {
    let shape = op.out.shape();
    let size = |axis: usize| shape[shape.len() - 1 - axis];
    let matrices = (2..shape.len()).max_by_key(|&axis| size(axis));
    let (axis, unit) = match matrices {
        Some(axis) if size(axis) > 1 => (axis, 1),
        _ => (usize::from(size(1) >= size(0)), TILE),
    };
    let [first, second] = Half::both(axis, size(axis), unit)?.map(|half| {
        Some(MatMul {
            // Columns are of the second factor, rows of the first, matrices of both.
            a: if axis == 0 { op.a } else { half.of(&op.a)? },
            b: if axis == 1 { op.b } else { half.of(&op.b)? },
            out: half.of(&op.out)?,
            bias: half.of_optional(&op.bias)?,
            ..*op
        })
    });
    Some([first?, second?])
}

/// Attention by batches, heads, or queries.
fn attention(op: &Attention) -> Option<[Attention; 2]> {
    let [batch, heads, queries] = [0, 1, 2].map(|axis| op.query.shape()[axis]);
    let key_heads = op.key.shape()[1].max(1);
    let (axis, halves) = if batch > 1 {
        (3, Half::both(3, batch, 1)?)
    } else if heads > 1 {
        // Heads that share keys stay together, where others do not.
        let unit = if key_heads > 1 { heads / key_heads } else { 1 };
        (2, Half::both(2, heads, unit)?)
    } else {
        (1, Half::both(1, queries, TILE)?)
    };
    let [first, second] = halves.map(|half| {
        let keys = |view: &View| match axis {
            1 => Some(*view),
            2 => {
                let shared = heads / key_heads;
                let half = Half {
                    start: half.start / shared,
                    end: half.end / shared,
                    ..half
                };
                half.of(view)
            }
            _ => half.of(view),
        };
        let before = if axis == 1 { half.start as i64 } else { 0 };
        Some(Attention {
            query: half.of(&op.query)?,
            key: keys(&op.key)?,
            value: keys(&op.value)?,
            mask: half.of_optional(&op.mask)?,
            out: half.of(&op.out)?,
            causal: op.causal.map(|distance| distance.saturating_add(before)),
            ..*op
        })
    });
    Some([first?, second?])
}

/// A convolution by batches, or by channels of the result where all see the same of the source.
fn convolution(op: &Conv) -> Option<[Conv; 2]> {
    let shape = op.dst.shape();
    let (batch, channels) = (shape.len() - 1, shape.len() - 2);
    if shape[0] > 1 {
        let [first, second] = Half::both(batch, shape[0], 1)?.map(|half| {
            Some(Conv {
                src: half.of(&op.src)?,
                dst: half.of(&op.dst)?,
                ..*op
            })
        });
        return Some([first?, second?]);
    }
    if op.groups > 1 {
        return None;
    }
    let [first, second] = Half::both(channels, shape[1], 1)?.map(|half| {
        // As many dimensions as the result has.
        let of_weight = if op.transposed { channels } else { batch };
        Some(Conv {
            weight: Half {
                axis: of_weight,
                ..half
            }
            .of(&op.weight)?,
            bias: Half { axis: 0, ..half }.of_optional(&op.bias)?,
            dst: half.of(&op.dst)?,
            ..*op
        })
    });
    Some([first?, second?])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use streampool_device::{
        Activation, DType, Device, Layout, Memory, Queue, QueueOptions, Slide, Space, Window,
    };
    use streampool_host::{HostDevice, HostOptions};

    use super::*;

    /// Operands of the host's, which executes any op.
    struct Host {
        device: Arc<HostDevice>,
        queue: Box<dyn Queue>,
        memory: Vec<Memory>,
        /// Of the operand that was made last.
        elements: usize,
    }

    impl Host {
        fn new() -> Host {
            let device = HostDevice::new(HostOptions::default().threads(1)).unwrap();
            Host {
                queue: device.create_queue(QueueOptions::default()).unwrap(),
                device,
                memory: Vec::new(),
                elements: 0,
            }
        }

        /// Small integers of this shape.
        fn operand(&mut self, shape: &[usize]) -> View {
            let layout = Layout::contiguous(shape).unwrap();
            let elements = layout.elements();
            let memory = self.device.allocate(4 * elements, Space::Staging).unwrap();
            let first = self.device.host_address(&memory).unwrap().cast::<f32>();
            for at in 0..elements {
                let value = ((at * 7 + self.memory.len()) % 11) as f32 - 5.0;
                // SAFETY: so many elements were allocated, and nobody else knows them.
                unsafe { first.add(at).write(value) };
            }
            let view = View::new(memory.span(), DType::F32, layout).unwrap();
            self.memory.push(memory);
            self.elements = elements;
            view
        }

        /// What is in the operand that was made last, after these ops.
        fn result(&mut self, ops: &[Op]) -> Vec<f32> {
            let result = self.memory.last().unwrap();
            let first = self.device.host_address(result).unwrap().cast::<f32>();
            let mut last = 0;
            // SAFETY: all operands live until the end, and nothing is under way when they are touched here.
            unsafe {
                first.cast::<u8>().write_bytes(0xff, result.bytes);
                for op in ops {
                    last = self.queue.encode(op).unwrap();
                }
                self.queue.progress().wait(last, None).unwrap();
                std::slice::from_raw_parts(first.as_ptr(), self.elements).to_vec()
            }
        }

        /// Its parts of so much work, which are at least so many, give what all of it does. The result is the operand that
        /// was made last.
        fn check(mut self, op: Op, most: u64, least: usize) {
            let whole = self.result(std::slice::from_ref(&op));
            let parts = divided(&op, most);
            assert!(parts.len() >= least, "{} parts", parts.len());
            assert!(parts.iter().all(|part| part.work() <= most));
            let divided = self.result(&parts);
            for (at, (one, other)) in whole.iter().zip(&divided).enumerate() {
                assert!((one - other).abs() < 1e-5, "{at}: {one}, {other}");
            }
            drop(self.queue);
            for memory in self.memory {
                // SAFETY: nothing is under way.
                unsafe { self.device.free(memory) };
            }
        }
    }

    fn product(shapes: [&[usize]; 4], most: u64, least: usize) {
        let mut host = Host::new();
        let [a, b, bias, out] = shapes.map(|shape| host.operand(shape));
        let op = MatMul {
            a,
            b,
            out,
            bias: Some(bias),
            activation: Activation::None,
            alpha: 0.5,
        };
        host.check(Op::MatMul(op), most, least);
    }

    #[test]
    fn products_are_divided_by_matrices_rows_and_columns() {
        let many = [&[3, 70, 5][..], &[5, 130], &[130], &[3, 70, 130]];
        product(many, 70 * 130 * 5, 3);
        product(many, 64 * 64 * 5, 12);
        let rows = [&[200, 4][..], &[4, 70], &[200, 1], &[200, 70]];
        product(rows, 64 * 70 * 4, 4);
        let columns = [&[1, 4][..], &[2, 4, 300], &[], &[2, 1, 300]];
        product(columns, 64 * 4, 10);
    }

    #[test]
    fn attention_is_divided_by_batches_heads_and_queries() {
        for (batch, heads, key_heads, causal) in [
            (2, 4, 2, Some(-3)),
            (1, 3, 1, None),
            (1, 6, 3, Some(20)),
            (1, 1, 1, Some(10)),
        ] {
            let mut host = Host::new();
            let op = Attention {
                query: host.operand(&[batch, heads, 150, 3]),
                key: host.operand(&[batch, key_heads, 160, 3]),
                value: host.operand(&[batch, key_heads, 160, 2]),
                mask: Some(host.operand(&[150, 160])),
                out: host.operand(&[batch, heads, 150, 2]),
                scale: 0.1,
                causal,
                softcap: 0.0,
            };
            let most = 64 * 160 * 5;
            host.check(Op::Attention(Box::new(op)), most, 3 * batch * heads);
        }
    }

    #[test]
    fn convolutions_are_divided_by_batches_and_channels() {
        for (transposed, groups, weight, side) in [
            (false, 1, [6, 4, 3, 3], 6),
            (true, 1, [4, 6, 3, 3], 10),
            (false, 2, [6, 2, 3, 3], 6),
        ] {
            for batch in [1, 3] {
                let mut host = Host::new();
                let op = Conv {
                    src: host.operand(&[batch, 4, 8, 8]),
                    weight: host.operand(&weight),
                    bias: Some(host.operand(&[6])),
                    dst: host.operand(&[batch, 6, side, side]),
                    window: Window::new(&[Slide::new(3); 2]).unwrap(),
                    groups,
                    transposed,
                    activation: Activation::None,
                    to_bytes: None,
                    zero_point: 0,
                };
                let op = Op::Conv(Box::new(op));
                // With groups, a batch is not cut.
                let (parts, least) = if groups == 1 { (3, 2) } else { (1, 1) };
                let most = op.work() / batch as u64 / parts + 1;
                host.check(op, most, least * batch);
            }
        }
    }

    #[test]
    fn what_cannot_be_cut_stays_as_it_is() {
        let mut host = Host::new();
        let [src, dst] = [0, 1].map(|_| host.operand(&[1000]));
        let op = Op::Copy { src, dst };
        let whole = vec![op.clone()];
        assert_eq!(divided(&op, 10), whole);
        host.check(op, 1000, 1);
    }
}
