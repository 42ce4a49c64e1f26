//! Texts of CG: the traditional line per iteration, with our own heading and summary.

use super::{BarrierKind, CgResult, Class, Iteration, Verification};
use crate::text::{exponent_upper, fixed};

impl Iteration {
    /// The line of the trace: number, residual, zeta, as `%5d %20.14E %20.13f`.
    pub fn line(&self) -> String {
        format!("{:5} {} {}", self.iteration, exponent_upper(self.residual, 20, 14), fixed(self.zeta, 20, 13))
    }
}

/// The parameters of the run, and the heading of the trace: two lines.
pub fn header(class: Class, threads: u32, barrier: BarrierKind) -> String {
    let problem = class.problem();
    let (rows, iterations, plural) = (problem.rows, problem.iterations, if threads == 1 { "" } else { "s" });
    format!(
        "CG class {class}: {rows} rows, {iterations} iterations, {threads} thread{plural}, {barrier} barrier\n\
         {:>5} {:>20} {:>20}\n",
        "iter", "residual", "zeta"
    )
}

/// The results: two lines.
pub fn summary(result: &CgResult) -> String {
    let verdict = match result.verification {
        Verification::Passed => "verified",
        Verification::Failed => "WRONG",
        Verification::NotReached => "not reached",
    };
    format!(
        "zeta {} (reference {}): {verdict}\n{} iterations in {} s: {} Mop/s total\n",
        fixed(result.zeta, 0, 13),
        fixed(result.class.zeta_reference(), 0, 13),
        result.iterations,
        fixed(result.seconds, 0, 3),
        fixed(result.mops_total, 0, 2),
    )
}

/// Heading, trace and summary.
pub fn report(result: &CgResult, trace: &[Iteration]) -> String {
    let lines = trace.iter().map(|iteration| iteration.line() + "\n");
    let head = header(result.class, result.threads, result.barrier);
    std::iter::once(head).chain(lines).chain([summary(result)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn iteration(iteration: u32, residual: f64, zeta: f64) -> Iteration {
        Iteration { repetition: 1, iteration, threads: 2, residual, zeta, seconds: 0.0 }
    }

    #[test]
    fn a_report_is_a_head_the_traditional_lines_and_a_summary() {
        let result = CgResult {
            class: Class::S,
            threads: 2,
            barrier: BarrierKind::Spinning,
            resizes: 0,
            repetitions: 1,
            iterations: 15,
            seconds: 0.0625,
            mops_total: 1066.464,
            residual: 1.25e-13,
            zeta: 8.5971775078648,
            verification: Verification::Passed,
            stopped: false,
        };
        let trace = [iteration(1, 2.5e-13, 9.75), iteration(15, 1.25e-13, 8.5971775078648)];
        let expected = "\
CG class S: 1400 rows, 15 iterations, 2 threads, spinning barrier
 iter             residual                 zeta
    1 2.50000000000000E-13      9.7500000000000
   15 1.25000000000000E-13      8.5971775078648
zeta 8.5971775078648 (reference 8.5971775078648): verified
15 iterations in 0.062 s: 1066.46 Mop/s total
";
        assert_eq!(report(&result, &trace), expected);
    }

    #[test]
    fn one_thread_is_written_in_the_singular() {
        assert!(
            header(Class::W, 1, BarrierKind::Blocking)
                .starts_with("CG class W: 7000 rows, 15 iterations, 1 thread, blocking barrier\n")
        );
    }

    proptest! {
        #[test]
        fn a_line_has_three_columns_that_read_back(number in 1_u32..=75, residual in 1e-20..1.0_f64, zeta in -100.0..100.0_f64) {
            let line = iteration(number, residual, zeta).line();
            prop_assert_eq!(line.len(), 47);
            let columns: Vec<_> = line.split_whitespace().collect();
            prop_assert_eq!(columns.len(), 3);
            prop_assert_eq!(columns[0].parse::<u32>().unwrap(), number);
            prop_assert!((columns[1].parse::<f64>().unwrap() - residual).abs() <= 1e-14 * residual);
            prop_assert!((columns[2].parse::<f64>().unwrap() - zeta).abs() <= 1e-13);
        }
    }
}
