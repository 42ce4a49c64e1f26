//! The text of a stream: GBytes (2^30, as the published tool counts them) and Mbits/sec (10^6), for each direction.

use super::{Flow, StreamResult};

impl Flow {
    /// Bytes in units of 2^30.
    pub fn gbytes(&self) -> f64 {
        self.bytes as f64 / f64::from(1_u32 << 30)
    }

    /// Millions of bits per second; 0 for no time.
    pub fn mbits_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 * 8.0 / self.seconds / 1e6 } else { 0.0 }
    }

    fn line(&self, way: &str) -> String {
        let (gbytes, rate) = (self.gbytes(), self.mbits_per_second());
        format!("{way:>5} {:>8.1} s {gbytes:>10.3} GBytes {rate:>10.1} Mbits/sec\n", self.seconds)
    }
}

impl StreamResult {
    /// A line with the parameters, and one for each direction.
    pub fn report(&self) -> String {
        let spinning = if self.is_spinning { ", spinning" } else { "" };
        let what = format!(
            "stream {} <-> {}, writes of {} bytes{spinning}\n",
            self.here, self.there, self.write_bytes
        );
        what + &self.out_flow.line("out") + &self.in_flow.line("in")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_report_gives_gbytes_and_mbits_each_way() {
        // 540 Mbit/s for 60 s are 4,050,000,000 bytes, or 3.772 times 2^30; 518 are 3,885,000,000 or 3.618.
        let flow = |bytes| Flow { bytes, seconds: 60.0, calls: 1 };
        let result = StreamResult {
            here: "192.0.2.2:40000".parse().unwrap(),
            there: "192.0.2.1:5001".parse().unwrap(),
            write_bytes: 131_072,
            is_spinning: false,
            out_flow: flow(4_050_000_000),
            in_flow: flow(3_885_000_000),
            stopped: false,
        };
        let expected = "\
stream 192.0.2.2:40000 <-> 192.0.2.1:5001, writes of 131072 bytes
  out     60.0 s      3.772 GBytes      540.0 Mbits/sec
   in     60.0 s      3.618 GBytes      518.0 Mbits/sec
";
        assert_eq!(result.report(), expected);
        let spinning = StreamResult { is_spinning: true, ..result };
        assert!(
            spinning
                .report()
                .starts_with("stream 192.0.2.2:40000 <-> 192.0.2.1:5001, writes of 131072 bytes, spinning\n")
        );
    }

    #[test]
    fn no_time_gives_no_rate() {
        assert_eq!(Flow { bytes: 5, seconds: 0.0, calls: 1 }.mbits_per_second(), 0.0);
    }

    proptest! {
        #[test]
        fn rate_times_time_is_the_bytes(bytes in 0_u64..1 << 50, seconds in 0.001..1e6_f64) {
            let flow = Flow { bytes, seconds, calls: 0 };
            let back = flow.mbits_per_second() * 1e6 / 8.0 * seconds;
            prop_assert!((back - bytes as f64).abs() <= 1e-9 * bytes as f64);
            prop_assert_eq!(flow.gbytes() * 1_073_741_824.0, bytes as f64);
        }
    }
}
