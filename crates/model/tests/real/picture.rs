//! Pictures of text, for a model that reads.

use streampool_model::Array;

/// Letters of five by seven dots, row by row.
const FONT: &[(char, [&str; 7])] = &[
    (
        '0',
        [
            "01110", "10001", "10011", "10101", "11001", "10001", "01110",
        ],
    ),
    (
        '1',
        [
            "00100", "01100", "00100", "00100", "00100", "00100", "01110",
        ],
    ),
    (
        '2',
        [
            "01110", "10001", "00001", "00010", "00100", "01000", "11111",
        ],
    ),
    (
        '3',
        [
            "11111", "00010", "00100", "00010", "00001", "10001", "01110",
        ],
    ),
    (
        '4',
        [
            "00010", "00110", "01010", "10010", "11111", "00010", "00010",
        ],
    ),
    (
        '5',
        [
            "11111", "10000", "11110", "00001", "00001", "10001", "01110",
        ],
    ),
    (
        '6',
        [
            "00110", "01000", "10000", "11110", "10001", "10001", "01110",
        ],
    ),
    (
        '7',
        [
            "11111", "00001", "00010", "00100", "01000", "01000", "01000",
        ],
    ),
    (
        '8',
        [
            "01110", "10001", "10001", "01110", "10001", "10001", "01110",
        ],
    ),
    (
        '9',
        [
            "01110", "10001", "10001", "01111", "00001", "00010", "01100",
        ],
    ),
    (
        'A',
        [
            "01110", "10001", "10001", "11111", "10001", "10001", "10001",
        ],
    ),
    (
        'D',
        [
            "11100", "10010", "10001", "10001", "10001", "10010", "11100",
        ],
    ),
    (
        'E',
        [
            "11111", "10000", "10000", "11110", "10000", "10000", "11111",
        ],
    ),
    (
        'H',
        [
            "10001", "10001", "10001", "11111", "10001", "10001", "10001",
        ],
    ),
    (
        'L',
        [
            "10000", "10000", "10000", "10000", "10000", "10000", "11111",
        ],
    ),
    (
        'M',
        [
            "10001", "11011", "10101", "10101", "10001", "10001", "10001",
        ],
    ),
    (
        'O',
        [
            "01110", "10001", "10001", "10001", "10001", "10001", "01110",
        ],
    ),
    (
        'P',
        [
            "11110", "10001", "10001", "11110", "10000", "10000", "10000",
        ],
    ),
    (
        'R',
        [
            "11110", "10001", "10001", "11110", "10100", "10010", "10001",
        ],
    ),
    (
        'S',
        [
            "01111", "10000", "10000", "01110", "00001", "00001", "11110",
        ],
    ),
    (
        'T',
        [
            "11111", "00100", "00100", "00100", "00100", "00100", "00100",
        ],
    ),
];

/// The side of a dot, and how far two means reach.
const DOT: usize = 4;
const REACH: isize = 2;
/// The height of a line, and what is left free beside it.
pub const HEIGHT: usize = 48;
const MARGIN: usize = 10;

/// Black on white, blurred: one picture of three equal colours, from -1 to 1.
pub fn text(text: &str) -> Array {
    let width = text.len() * 6 * DOT + 2 * MARGIN;
    let mut picture = vec![1f32; HEIGHT * width];
    let top = (HEIGHT - 7 * DOT) / 2;
    for (place, letter) in text.chars().enumerate() {
        let found = FONT.iter().find(|(other, _)| *other == letter);
        let (_, rows) = found.expect("a letter of the font");
        for (row, dots) in rows.iter().enumerate() {
            for (column, _) in dots.bytes().enumerate().filter(|(_, dot)| *dot == b'1') {
                for line in 0..DOT {
                    let y = top + row * DOT + line;
                    let x = MARGIN + (place * 6 + column) * DOT;
                    picture[y * width + x..][..DOT].fill(0.0);
                }
            }
        }
    }
    for _ in 0..2 {
        picture = blurred(&picture, width);
    }
    let colour = picture.iter().map(|light| light * 2.0 - 1.0);
    let colours: Vec<f32> = colour.cycle().take(3 * picture.len()).collect();
    Array::new(&colours, &[1, 3, HEIGHT, width]).expect("three colours")
}

/// The means of what is around each place.
fn blurred(picture: &[f32], width: usize) -> Vec<f32> {
    let height = picture.len() / width;
    let near = |place: usize, off: isize, end: usize| place.saturating_add_signed(off).min(end - 1);
    let mean = |place: usize| {
        let (y, x) = (place / width, place % width);
        let around = (-REACH..=REACH).flat_map(|down| {
            (-REACH..=REACH).map(move |right| near(y, down, height) * width + near(x, right, width))
        });
        around.map(|place| picture[place]).sum::<f32>() / ((2 * REACH + 1) as f32).powi(2)
    };
    (0..picture.len()).map(mean).collect()
}
