//! The normal distribution.

/// 1 / sqrt(2 pi)
const DENSITY_AT_0: f64 = 0.398_942_280_401_432_7;

/// Mean of a normal distribution whose values below 0 count as 0.
pub(crate) fn mean_above(mean: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return mean.max(0.0);
    }
    let z = mean / deviation;
    deviation * (z * share_below(z) + DENSITY_AT_0 * (-z * z / 2.0).exp())
}

/// The distribution function, by Abramowitz and Stegun 26.2.17 (error below 1e-7).
fn share_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let factors = [
        1.330_274_429,
        -1.821_255_978,
        1.781_477_937,
        -0.356_563_782,
        0.319_381_53,
    ];
    let sum = factors.iter().fold(0.0, |sum, factor| sum * t + factor) * t;
    let tail = DENSITY_AT_0 * (-z * z / 2.0).exp() * sum;
    if z >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_table() {
        for (z, share) in [(0.0, 0.5), (1.0, 0.841_344_7), (-2.0, 0.022_750_1), (3.0, 0.998_650_1)] {
            assert!((share_below(z) - share).abs() < 1e-6, "{z}: {}", share_below(z));
        }
    }

    #[test]
    fn mean_above_is_between_its_bounds() {
        assert!((mean_above(0.0, 1.0) - DENSITY_AT_0).abs() < 1e-6);
        assert!((mean_above(5.0, 0.1) - 5.0).abs() < 1e-6);
        assert!(mean_above(-5.0, 0.1) < 1e-6);
        assert_eq!(mean_above(-1.0, 0.0), 0.0);
    }
}
