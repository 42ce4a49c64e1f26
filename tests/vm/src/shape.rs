//! The CPU topology of a guest: sockets, cores, threads, and memory nodes.

/// Without an interrupt remapper, emulated machines support at most this number of CPUs.
const CPUS_MAX: u32 = 255;

/// The CPUs of a guest. Every node has the same number of CPUs, in order: with 8 CPUs and 2 nodes, 0-3 and 4-7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    sockets: u32,
    cores: u32,
    threads: u32,
    nodes: u32,
    /// Non-default distances, as (from, to, distance).
    distances: Vec<(u32, u32, u8)>,
}

/// An invalid topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A number is zero, or there are too many CPUs.
    #[error(
        "cannot shape {sockets} sockets of {cores} cores of {threads} threads: from 1 to {CPUS_MAX} cpus"
    )]
    Count {
        /// Number of sockets.
        sockets: u32,
        /// Cores per socket.
        cores: u32,
        /// Threads per core.
        threads: u32,
    },
    /// The CPUs cannot be divided evenly.
    #[error("cannot deal {cpus} cpus out to {nodes} nodes")]
    Nodes {
        /// Number of CPUs.
        cpus: u32,
        /// Number of nodes.
        nodes: u32,
    },
    /// A distance between missing nodes, or one below 10.
    #[error("cannot put node {from} at distance {distance} from node {to}")]
    Distance {
        /// From this node.
        from: u32,
        /// To this node.
        to: u32,
        /// The distance. A node's distance to itself is 10.
        distance: u8,
    },
}

impl Shape {
    /// `cpus` cores with one thread each, one socket per node.
    ///
    /// # Errors
    /// The CPUs cannot be divided evenly.
    pub fn flat(cpus: u32, nodes: u32) -> Result<Self, ShapeError> {
        if nodes == 0 || cpus == 0 || !cpus.is_multiple_of(nodes) {
            return Err(ShapeError::Nodes { cpus, nodes });
        }
        Self::new(nodes, cpus / nodes, 1, nodes)
    }

    /// Sockets of cores of threads, divided among nodes in order.
    ///
    /// # Errors
    /// Too few or too many CPUs, or not evenly divisible.
    pub fn new(sockets: u32, cores: u32, threads: u32, nodes: u32) -> Result<Self, ShapeError> {
        let cpus = sockets.checked_mul(cores).and_then(|n| n.checked_mul(threads));
        match cpus {
            Some(cpus) if (1..=CPUS_MAX).contains(&cpus) => {
                if nodes == 0 || !cpus.is_multiple_of(nodes) {
                    return Err(ShapeError::Nodes { cpus, nodes });
                }
                Ok(Self { sockets, cores, threads, nodes, distances: Vec::new() })
            }
            _ => Err(ShapeError::Count { sockets, cores, threads }),
        }
    }

    /// The same machine with this distance between two nodes (default: 10 to itself, 20 to others).
    ///
    /// # Errors
    /// A missing node, or a distance that the firmware's table cannot represent (below 10).
    pub fn with_distance(mut self, from: u32, to: u32, distance: u8) -> Result<Self, ShapeError> {
        if from >= self.nodes || to >= self.nodes || distance < 10 {
            return Err(ShapeError::Distance { from, to, distance });
        }
        self.distances.push((from, to, distance));
        Ok(self)
    }

    /// Number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.sockets * self.cores * self.threads
    }

    /// Number of memory nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// First and last CPU of a node.
    #[must_use]
    pub fn cpus_of_node(&self, node: u32) -> (u32, u32) {
        let each = self.cpus() / self.nodes;
        (node * each, node * each + each - 1)
    }

    /// Distance between two nodes: the one set last, else 10 or 20.
    #[must_use]
    pub fn distance(&self, from: u32, to: u32) -> u8 {
        let told = self.distances.iter().rev().find(|(a, b, _)| (*a, *b) == (from, to));
        told.map_or(if from == to { 10 } else { 20 }, |(_, _, distance)| *distance)
    }

    /// All numbers by name, for checks in the guest.
    pub(crate) fn counts(&self) -> [(&'static str, u32); 5] {
        [
            ("cpus", self.cpus()),
            ("sockets", self.sockets),
            ("cores", self.cores),
            ("threads", self.threads),
            ("nodes", self.nodes),
        ]
    }

    /// The emulator's arguments for CPUs, memory and nodes.
    pub(crate) fn arguments(&self, memory_mb: u32) -> Vec<String> {
        let each_mb = memory_mb.div_ceil(self.nodes);
        let mut args = vec![
            "-smp".to_owned(),
            format!(
                "{},sockets={},dies=1,cores={},threads={}",
                self.cpus(),
                self.sockets,
                self.cores,
                self.threads
            ),
            "-m".to_owned(),
            format!("{}M", each_mb * self.nodes),
        ];
        for node in 0..self.nodes {
            let (first, last) = self.cpus_of_node(node);
            args.push("-object".to_owned());
            args.push(format!("memory-backend-ram,id=mem{node},size={each_mb}M"));
            args.push("-numa".to_owned());
            args.push(format!("node,nodeid={node},cpus={first}-{last},memdev=mem{node}"));
        }
        let pairs = (0..self.nodes).flat_map(|from| (0..self.nodes).map(move |to| (from, to)));
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            args.push("-numa".to_owned());
            args.push(format!("dist,src={from},dst={to},val={}", self.distance(from, to)));
        }
        args
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn eight_cpus_on_two_nodes_are_two_sockets_of_four() {
        let args = Shape::flat(8, 2).unwrap().arguments(1024).join(" ");
        assert_eq!(
            args,
            "-smp 8,sockets=2,dies=1,cores=4,threads=1 -m 1024M \
             -object memory-backend-ram,id=mem0,size=512M -numa node,nodeid=0,cpus=0-3,memdev=mem0 \
             -object memory-backend-ram,id=mem1,size=512M -numa node,nodeid=1,cpus=4-7,memdev=mem1 \
             -numa dist,src=0,dst=1,val=20 -numa dist,src=1,dst=0,val=20"
        );
    }

    #[test]
    fn impossible_shapes_are_refused() {
        assert_eq!(Shape::flat(7, 2), Err(ShapeError::Nodes { cpus: 7, nodes: 2 }));
        assert_eq!(Shape::new(64, 4, 1, 1), Err(ShapeError::Count { sockets: 64, cores: 4, threads: 1 }));
        assert!(Shape::new(u32::MAX, 2, 1, 1).is_err());
        assert!(Shape::flat(4, 2).unwrap().with_distance(0, 2, 20).is_err());
        assert!(Shape::flat(4, 2).unwrap().with_distance(0, 1, 9).is_err());
    }

    #[test]
    fn the_last_distance_told_counts() {
        let shape = Shape::flat(4, 2).unwrap();
        let shape = shape.with_distance(0, 1, 16).and_then(|s| s.with_distance(0, 1, 31)).unwrap();
        assert_eq!((shape.distance(0, 1), shape.distance(1, 0), shape.distance(1, 1)), (31, 20, 10));
    }

    proptest! {
        #[test]
        fn every_cpu_is_on_exactly_one_node(sockets in 1..5u32, cores in 1..9u32, threads in 1..3u32, nodes in 1..9u32) {
            let Ok(shape) = Shape::new(sockets, cores, threads, nodes) else {
                prop_assert!((sockets * cores * threads) % nodes != 0);
                return Ok(());
            };
            let mut next = 0;
            for node in 0..nodes {
                let (first, last) = shape.cpus_of_node(node);
                prop_assert_eq!(first, next);
                prop_assert!(last >= first);
                next = last + 1;
            }
            prop_assert_eq!(next, shape.cpus());
        }
    }
}
