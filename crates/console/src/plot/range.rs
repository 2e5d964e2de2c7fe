//! What an axis reaches over: where values are on it, and where its ticks are.

/// How values are spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from 0.
    Linear,
    /// Each doubling takes the same room.
    Log2,
    /// Each power of ten takes the same room.
    Log10,
}

/// The ends of an axis.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    scale: Scale,
    /// The ends as the scale counts: logarithms, where it is one of them.
    low: f64,
    high: f64,
}

/// A place on an axis that has its number beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// In parts of the axis.
    pub place: f64,
    /// The number.
    pub label: String,
}

impl Scale {
    /// Whether it has a place for this value.
    pub fn shows(self, value: f64) -> bool {
        value.is_finite() && (self == Scale::Linear || value > 0.0)
    }

    fn count(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log2 => value.log2(),
            Scale::Log10 => value.log10(),
        }
    }
}

impl Range {
    /// Over all of `values`, ending at numbers that are round.
    pub fn over(scale: Scale, values: impl Iterator<Item = f64>) -> Range {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            low = low.min(scale.count(value));
            high = high.max(scale.count(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if scale == Scale::Linear {
            (low, high) = (low.min(0.0), high.max(0.0));
            let step = round_step((high - low) / 5.0);
            (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        } else {
            // Logarithms of round numbers come out with an error in their last digit.
            (low, high) = ((low + 1e-9).floor(), (high - 1e-9).ceil());
        }
        if low >= high {
            high = low + 1.0;
        }
        Range { scale, low, high }
    }

    /// Where a value is, in parts of the axis.
    pub fn place(&self, value: f64) -> f64 {
        (self.scale.count(value) - self.low) / (self.high - self.low)
    }

    /// At most so many ticks, from low to high.
    pub fn ticks(&self, most: usize) -> Vec<Tick> {
        let most = most.max(2);
        match self.scale {
            Scale::Linear => self.even(most),
            Scale::Log2 => self.powers(2.0, most),
            Scale::Log10 => self.powers(10.0, most),
        }
    }

    fn even(&self, most: usize) -> Vec<Tick> {
        let length = self.high - self.low;
        let mut step = round_step(length / (most - 1) as f64);
        // Ends are multiples of a smaller step, perhaps not of this one.
        while (self.high / step + 1e-9).floor() - (self.low / step - 1e-9).ceil() >= most as f64 {
            step = round_step(step * 1.01);
        }
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        let most = self.low.abs().max(self.high.abs());
        let tick = |number: i64| Tick {
            place: (number as f64 * step - self.low) / length,
            label: even_label(number as f64 * step, step, most),
        };
        (first..=last).map(tick).collect()
    }

    fn powers(&self, base: f64, most: usize) -> Vec<Tick> {
        let (low, high) = (self.low as i32, self.high as i32);
        let decades = (high - low) as usize;
        let stride = (decades + 1).div_ceil(most);
        let between: &[f64] = match base == 10.0 && 3 * decades < most {
            true => &[1.0, 2.0, 5.0],
            false => &[1.0],
        };
        let powers = (low..=high).step_by(stride);
        let values = powers.flat_map(|power| between.iter().map(move |x| x * base.powi(power)));
        let placed = values.map(|value| Tick {
            place: self.place(value),
            label: power_label(value),
        });
        placed.filter(|tick| tick.place < 1.0 + 1e-9).collect()
    }
}

/// The next larger of 1, 2, 5, 10 and so on.
fn round_step(least: f64) -> f64 {
    if least <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf((least.log10() + 1e-9).floor());
    let step = [1.0, 2.0, 5.0].map(|x| x * power);
    let fits = step.into_iter().find(|&step| step >= least * (1.0 - 1e-9));
    fits.unwrap_or(10.0 * power)
}

/// The number of a tick among others that are `step` apart and reach up to `most`: all in one unit.
fn even_label(value: f64, step: f64, most: f64) -> String {
    let (unit, name) = match most {
        vast if vast >= 1e9 => (1e9, " G"),
        large if large >= 1e6 => (1e6, " M"),
        some if some >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    // Nothing is said of 0, lest it be -0.
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (-(step / unit).log10() - 1e-9).ceil();
    if digits > 5.0 {
        return format!("{value:.0e}");
    }
    format!("{:.*}{name}", digits.max(0.0) as usize, value / unit)
}

/// The number of a tick among powers.
fn power_label(value: f64) -> String {
    match value {
        large if large >= 1e11 => format!("{large:.0e}"),
        large if large >= 1e9 => format!("{:.0} G", large / 1e9),
        large if large >= 1e6 => format!("{:.0} M", large / 1e6),
        large if large >= 1e5 => format!("{:.0} k", large / 1e3),
        small if small < 1e-3 => format!("{small:.0e}"),
        // All that is between needs at most ten places, as powers of 2 do.
        other => {
            let text = format!("{other:.10}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, values: &[f64], most: usize) -> String {
        let range = Range::over(scale, values.iter().copied());
        let ticks = range.ticks(most);
        assert!(ticks.len() <= most.max(2), "{ticks:?}");
        assert!(
            ticks
                .iter()
                .all(|tick| (-1e-9..1.0 + 1e-9).contains(&tick.place)),
            "{ticks:?}"
        );
        let labels: Vec<String> = ticks.into_iter().map(|tick| tick.label).collect();
        labels.join("|")
    }

    #[test]
    fn even_ticks_are_round_and_begin_at_zero() {
        use Scale::Linear;
        assert_eq!(labels(Linear, &[137.0, 963.0], 6), "0|200|400|600|800|1000");
        assert_eq!(labels(Linear, &[0.12, 0.97], 6), "0|0.2|0.4|0.6|0.8|1.0");
        assert_eq!(labels(Linear, &[41_000.0], 6), "0|10 k|20 k|30 k|40 k|50 k");
        assert_eq!(labels(Linear, &[2.4e7], 6), "0|5 M|10 M|15 M|20 M|25 M");
        assert_eq!(labels(Linear, &[1.95e6], 5), "0|0.5 M|1.0 M|1.5 M|2.0 M");
        assert_eq!(labels(Linear, &[-3.0, 4.0], 6), "-4|-2|0|2|4");
        assert_eq!(labels(Linear, &[3e-7], 4), "0|1e-7|2e-7|3e-7");
    }

    #[test]
    fn powers_have_ticks_of_their_own() {
        assert_eq!(labels(Scale::Log2, &[1.0, 31.0], 8), "1|2|4|8|16|32");
        assert_eq!(
            labels(Scale::Log2, &[1.0, 4096.0], 7),
            "1|4|16|64|256|1024|4096"
        );
        assert_eq!(labels(Scale::Log2, &[0.3, 1.0], 7), "0.25|0.5|1");
        assert_eq!(
            labels(Scale::Log10, &[0.02, 700.0], 9),
            "0.01|0.1|1|10|100|1000"
        );
        assert_eq!(labels(Scale::Log10, &[12.0, 80.0], 9), "10|20|50|100");
        assert_eq!(labels(Scale::Log10, &[3e-7, 2e6], 20), {
            "1e-7|1e-6|1e-5|1e-4|0.001|0.01|0.1|1|10|100|1000|10000|100 k|1 M|10 M"
        });
    }

    #[test]
    fn values_have_their_places() {
        let range = Range::over(Scale::Log2, [1.0, 16.0].into_iter());
        assert_eq!([1.0, 4.0, 16.0].map(|x| range.place(x)), [0.0, 0.5, 1.0]);
        let range = Range::over(Scale::Linear, [10.0].into_iter());
        assert_eq!([0.0, 5.0, 10.0].map(|x| range.place(x)), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn what_has_no_extent_still_has_an_axis() {
        for values in [&[][..], &[0.0], &[5.0]] {
            for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
                let shown = values.iter().copied().filter(|&value| scale.shows(value));
                let range = Range::over(scale, shown);
                assert!(range.low < range.high, "{range:?}");
                assert!(range.ticks(5).len() >= 2, "{range:?}");
            }
        }
        assert!(!Scale::Log2.shows(0.0) && !Scale::Linear.shows(f64::NAN));
    }
}
