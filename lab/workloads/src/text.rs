//! Numbers as C's `printf` formats them, because these formats define the reports of the loads.

/// `value` as `%<width>.<precision>E`: one digit before the point, an exponent with a sign and at least two digits.
pub(crate) fn exponent_upper(value: f64, width: usize, precision: usize) -> String {
    if !value.is_finite() {
        return format!("{:>width$}", not_finite(value).to_uppercase());
    }
    let plain = format!("{value:.precision$E}");
    // Rust writes the exponent without padding and plus sign (`1.5E3`, `1.5E-3`).
    let (mantissa, exponent) = plain.split_once('E').unwrap_or((&plain, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{:>width$}", format!("{mantissa}E{sign}{digits:0>2}"))
}

/// `value` as `%<width>.<precision>f`.
pub(crate) fn fixed(value: f64, width: usize, precision: usize) -> String {
    if value.is_finite() {
        format!("{value:width$.precision$}")
    } else {
        format!("{:>width$}", not_finite(value))
    }
}

/// C's text of a value that is not a finite number.
fn not_finite(value: f64) -> &'static str {
    match (value.is_nan(), value.is_sign_negative()) {
        (true, false) => "nan",
        (true, true) => "-nan",
        (false, false) => "inf",
        (false, true) => "-inf",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exponents_have_a_sign_and_two_digits_or_three() {
        assert_eq!(exponent_upper(1.0, 0, 3), "1.000E+00");
        assert_eq!(exponent_upper(-1234.5, 0, 2), "-1.23E+03");
        assert_eq!(exponent_upper(2.5e-13, 20, 14), "2.50000000000000E-13");
        assert_eq!(exponent_upper(1e-300, 0, 1), "1.0E-300");
        assert_eq!(exponent_upper(0.0, 0, 14), "0.00000000000000E+00");
        assert_eq!(exponent_upper(9.9999, 0, 1), "1.0E+01");
    }

    #[test]
    fn short_numbers_are_padded_on_the_left() {
        assert_eq!(exponent_upper(1.0, 12, 3), "   1.000E+00");
        assert_eq!(fixed(8.5971775078648, 20, 13), "     8.5971775078648");
        assert_eq!(fixed(-0.5, 6, 1), "  -0.5");
    }

    #[test]
    fn what_is_no_number_is_written_as_c_writes_it() {
        assert_eq!(exponent_upper(f64::INFINITY, 5, 3), "  INF");
        assert_eq!(fixed(f64::NEG_INFINITY, 5, 3), " -inf");
        assert_eq!(fixed(f64::NAN, 5, 3), "  nan");
    }

    proptest! {
        #[test]
        fn seventeen_digits_read_back_as_the_same_number(value in prop::num::f64::NORMAL | prop::num::f64::ZERO) {
            prop_assert_eq!(exponent_upper(value, 0, 16).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }

        #[test]
        fn exponents_always_have_the_shape_of_c(value in prop::num::f64::NORMAL) {
            let text = exponent_upper(value, 0, 5);
            let (_, exponent) = text.split_once('E').unwrap();
            prop_assert!(exponent.starts_with(['+', '-']) && (3..=4).contains(&exponent.len()), "{}", text);
        }
    }
}
