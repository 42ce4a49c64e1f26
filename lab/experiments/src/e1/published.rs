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

/// The figures of one phase, published or ours. What is not known is not there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Figures {
    /// The stream's way out, in 10^6 bits a second.
    pub out_mbits: Option<f64>,
    /// Its way in.
    pub in_mbits: Option<f64>,
    /// The CPU that does the network's work.
    pub network: Row,
    /// The CPU that runs the stream's spinning thread.
    pub stream: Row,
    /// The CPUs of the set.
    pub set: Range,
    /// All that have no other role.
    pub others: Range,
}

/// Some columns of one CPU's row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Row {
    /// Which it is, on our machine.
    pub cpu: Option<u32>,
    /// Interrupts a second.
    pub intr: Option<f64>,
    /// Of these, in threads: the work of devices.
    pub ithr: Option<f64>,
    /// Cross calls a second.
    pub xcal: Option<f64>,
    /// Context switches a second.
    pub csw: Option<f64>,
    /// System calls a second.
    pub syscl: Option<f64>,
    /// Percent of time in user programs.
    pub usr: Option<f64>,
    /// Percent of time in the kernel.
    pub sys: Option<f64>,
    /// Percent of time idle.
    pub idl: Option<f64>,
}

/// What several CPUs have between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Range {
    /// Interrupts a second where there are fewest.
    pub intr_least: Option<f64>,
    /// Interrupts a second where there are most.
    pub intr_most: Option<f64>,
    /// Context switches a second where there are most.
    pub csw_most: Option<f64>,
    /// Percent of time idle where there is least.
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
