//! The published figures, as data.

use serde::{Deserialize, Serialize};

/// The published figures.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Published {
    /// The machine.
    pub machine: String,
    /// The three phases.
    pub phases: Vec<Figures>,
}

/// The figures of a phase, published or measured. Unknown ones are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Figures {
    /// Stream throughput out, in 10^6 bits per second.
    pub out_mbits: Option<f64>,
    /// Stream throughput in, in 10^6 bits per second.
    pub in_mbits: Option<f64>,
    /// The CPU that handles the network's interrupts.
    pub network: Row,
    /// The CPU that runs the stream's spinning thread.
    pub stream: Row,
    /// The CPUs of the set.
    pub set: Range,
    /// All CPUs without another role.
    pub others: Range,
}

/// Columns of one CPU's row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Row {
    /// Its number, on this machine.
    pub cpu: Option<u32>,
    /// Interrupts per second.
    pub intr: Option<f64>,
    /// Interrupts per second handled in threads: device work.
    pub ithr: Option<f64>,
    /// Cross calls per second.
    pub xcal: Option<f64>,
    /// Context switches per second.
    pub csw: Option<f64>,
    /// System calls per second.
    pub syscl: Option<f64>,
    /// Percent of time in user programs.
    pub usr: Option<f64>,
    /// Percent of time in the kernel.
    pub sys: Option<f64>,
    /// Percent of time idle.
    pub idl: Option<f64>,
}

/// Extremes over several CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Range {
    /// The minimum of interrupts per second.
    pub intr_least: Option<f64>,
    /// The maximum of interrupts per second.
    pub intr_most: Option<f64>,
    /// The maximum of context switches per second.
    pub csw_most: Option<f64>,
    /// The minimum of the percentage of idle time.
    pub idl_least: Option<f64>,
}

impl Published {
    /// Parses the data, which are part of the program.
    #[must_use]
    pub fn read() -> Published {
        let text = include_str!("published.json");
        // A test proves that the text is valid.
        serde_json::from_str(text).unwrap_or(Published { machine: String::new(), phases: Vec::new() })
    }
}

impl Figures {
    /// Each figure with its name, in the order of the report.
    #[must_use]
    pub fn listed(&self) -> Vec<(&'static str, Option<f64>)> {
        let (network, stream, set, others) = (&self.network, &self.stream, &self.set, &self.others);
        vec![
            ("stream out, Mbits/sec", self.out_mbits),
            ("stream in, Mbits/sec", self.in_mbits),
            ("network's CPU: intr", network.intr),
            ("network's CPU: ithr", network.ithr),
            ("network's CPU: xcal", network.xcal),
            ("network's CPU: sys", network.sys),
            ("stream's CPU: syscl", stream.syscl),
            ("stream's CPU: usr", stream.usr),
            ("stream's CPU: sys", stream.sys),
            ("stream's CPU: idl", stream.idl),
            ("set: intr, most", set.intr_most),
            ("set: csw, most", set.csw_most),
            ("set: idl, least", set.idl_least),
            ("others: intr, least", others.intr_least),
            ("others: intr, most", others.intr_most),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_numbers_are_there() {
        let published = Published::read();
        assert_eq!(published.phases.len(), 3);
        let outs: Vec<_> = published.phases.iter().map(|phase| (phase.out_mbits, phase.in_mbits)).collect();
        assert_eq!(outs, [(Some(540.0), Some(518.0)), (Some(481.0), Some(436.0)), (None, None)]);
        let network: Vec<_> = published.phases.iter().map(|phase| phase.network.ithr).collect();
        assert_eq!(network, [Some(41036.0), Some(42200.0), Some(47171.0)]);
        assert_eq!(published.phases[1].set.idl_least, Some(100.0));
        assert_eq!(published.phases[2].stream.syscl, Some(532_794.0));
    }
}
