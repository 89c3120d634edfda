//! Student's t and Fisher's F: how far chance alone reaches.

/// The value that a t distribution stays below with this probability (0.5 to 1).
pub(super) fn t_quantile(probability: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    while high - low > 1e-12 * high {
        let middle = (low + high) / 2.0;
        if t_distribution(middle, freedom) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Student's cumulative distribution for t at and above 0, by the incomplete beta function.
fn t_distribution(t: f64, freedom: f64) -> f64 {
    1.0 - 0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The probability that an F distribution is above this value, 0 or more, by chance.
pub(super) fn f_above(value: f64, upper_freedom: f64, lower_freedom: f64) -> f64 {
    let x = lower_freedom / (lower_freedom + upper_freedom * value);
    incomplete_beta(lower_freedom / 2.0, upper_freedom / 2.0, x)
}

/// Regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22, Lentz's method).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly on this side only; the other follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    const TINY: f64 = 1e-300;
    let not_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / not_zero(1.0 + term * d);
            c = not_zero(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front * fraction
}

/// Logarithm of the gamma function for arguments above 0, by Stirling's series after shifting the argument above 10.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5)) - 1.0 / (1680.0 * x.powi(7));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles of the tables in NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2 (97.5 %).
    #[test]
    fn t_quantiles_as_in_the_tables() {
        for (freedom, expected) in [
            (1.0, 12.706),
            (2.0, 4.303),
            (3.0, 3.182),
            (4.0, 2.776),
            (8.0, 2.306),
            (10.0, 2.228),
            (18.0, 2.101),
            (30.0, 2.042),
            (100.0, 1.984),
            (1e6, 1.960),
        ] {
            let got = t_quantile(0.975, freedom);
            assert!((got - expected).abs() < 6e-4, "{freedom}: {got}");
        }
        // 95 % and 99.5 % of the same tables.
        assert!((t_quantile(0.95, 5.0) - 2.015).abs() < 6e-4);
        assert!((t_quantile(0.995, 5.0) - 4.032).abs() < 6e-4);
    }

    /// Upper critical values of the same handbook, 1.3.6.7.3 (1 %).
    #[test]
    fn f_critical_values_as_in_the_tables() {
        for (upper, lower, value) in [
            (1.0, 10.0, 10.044),
            (2.0, 10.0, 7.559),
            (5.0, 20.0, 4.103),
            (10.0, 10.0, 4.849),
        ] {
            let got = f_above(value, upper, lower);
            assert!((got - 0.01).abs() < 2e-5, "{upper}, {lower}: {got}");
        }
    }

    #[test]
    fn gamma_at_known_places() {
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-12);
        assert!((ln_gamma(5.0) - 24f64.ln()).abs() < 1e-12);
        assert!((ln_gamma(2.0)).abs() < 1e-12);
    }
}
