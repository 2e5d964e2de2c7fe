//! The best of boxes that overlap, beside a plain search.

use crate::common::{Rng, pool};
use streampool_tensor::{BestBoxes, BoxFormat, DType, Tensor};

fn overlap(a: &[f32], b: &[f32]) -> f32 {
    let side = |axis: usize| (a[axis + 2].min(b[axis + 2]) - a[axis].max(b[axis])).max(0.0);
    let area = |one: &[f32]| (one[2] - one[0]) * (one[3] - one[1]);
    let shared = side(0) * side(1);
    shared / (area(a) + area(b) - shared)
}

#[test]
fn many_boxes_of_many_classes() {
    let pool = pool();
    let mut choices = Rng::new(5);
    let (batches, classes, count) = (2, 3, 400);
    let mut boxes = Vec::new();
    for _ in 0..batches * count {
        let [x, y] = [0, 1].map(|_| choices.between(0, 200) as f32 / 2.0);
        let [w, h] = [0, 1].map(|_| choices.between(1, 80) as f32 / 2.0);
        boxes.extend([x, y, x + w, y + h]);
    }
    let ratings: Vec<f32> = (0..batches * classes * count)
        .map(|_| choices.between(0, 99) as f32 / 100.0)
        .collect();
    let (least, most) = (0.305f32, 40);
    let mut want = Vec::new();
    for batch in 0..batches {
        for class in 0..classes {
            let rated = &ratings[(batch * classes + class) * count..][..count];
            let own = |place: usize| &boxes[(batch * count + place) * 4..][..4];
            let mut order: Vec<usize> = (0..count).filter(|&at| rated[at] > least).collect();
            order.sort_by(|&a, &b| rated[b].total_cmp(&rated[a]));
            let mut kept: Vec<usize> = Vec::new();
            for place in order {
                let is_free = kept.iter().all(|&at| overlap(own(at), own(place)) <= 0.4);
                if is_free && kept.len() < most {
                    kept.push(place);
                }
            }
            want.extend(
                kept.iter()
                    .flat_map(|&at| [batch as i64, class as i64, at as i64]),
            );
        }
    }
    let options = BestBoxes {
        format: BoxFormat::Corners,
        overlap: f64::from(0.4f32),
        least: Some(f64::from(least)),
        most,
    };
    let on_device = Tensor::from_slice(&pool, &boxes, &[batches, count, 4]).unwrap();
    let rated = Tensor::from_slice(&pool, &ratings, &[batches, classes, count]).unwrap();
    let got: Vec<i64> = on_device
        .best_boxes(&rated, &options)
        .unwrap()
        .to_vec()
        .unwrap();
    assert!(want.len() > 3 * 60, "{}", want.len());
    assert_eq!(got, want);
    // By their middles, in another type, it is the same.
    let middles: Vec<f32> = boxes
        .chunks(4)
        .flat_map(|one| {
            let [w, h] = [one[2] - one[0], one[3] - one[1]];
            [one[0] + w / 2.0, one[1] + h / 2.0, w, h]
        })
        .collect();
    let middles = Tensor::from_slice(&pool, &middles, &[batches, count, 4]).unwrap();
    let format = BoxFormat::Center;
    let again = middles
        .to_dtype(DType::F64)
        .unwrap()
        .best_boxes(&rated, &BestBoxes { format, ..options })
        .unwrap();
    assert_eq!(again.to_vec::<i64>().unwrap(), want);
    let none = on_device.best_boxes(&rated, &BestBoxes { most: 0, ..options });
    assert_eq!(none.unwrap().shape(), [0, 3]);
}

/// As many boxes as would need 40 GB if each were compared with each at once.
#[test]
fn memory_is_for_boxes_not_for_pairs() {
    let pool = pool();
    let count = 100_000;
    let boxes: Vec<f32> = (0..count)
        .flat_map(|place| {
            let at = (place % 50) as f32 * 2.0;
            [at, 0.0, at + 1.0, 1.0]
        })
        .collect();
    let ratings: Vec<f32> = (0..count).map(|place| place as f32).collect();
    let boxes = Tensor::from_slice(&pool, &boxes, &[1, count, 4]).unwrap();
    let ratings = Tensor::from_slice(&pool, &ratings, &[1, 1, count]).unwrap();
    let options = BestBoxes {
        format: BoxFormat::Corners,
        overlap: 0.5,
        least: None,
        most: usize::MAX,
    };
    let kept = boxes.best_boxes(&ratings, &options).unwrap();
    assert_eq!(kept.shape(), [50, 3]);
}
