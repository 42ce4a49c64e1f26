//! The configuration of a machine as JSON, in saved machines and in journals.
//!
//! Every element is stored as the list of its properties, so that records of earlier versions stay readable.

use super::properties::{Element, blank_cpu, filled};
use millpond_model::pools::{
    CpuNode, ElementKind, PoolNode, PoolsConf, PoolsState, Properties, PsetNode, SystemNode,
};
use millpond_model::{CpuId, PoolId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A record. Converts from and to [`PoolsState`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    conf: Conf,
    #[serde(default)]
    keep_others: bool,
    #[serde(default)]
    zones: BTreeMap<String, PoolId>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Conf {
    system: Props,
    pools: Vec<Pool>,
    psets: Vec<Pset>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Props {
    kind: ElementKind,
    values: Properties,
}

#[derive(Debug, Serialize, Deserialize)]
struct Pool {
    props: Props,
}

#[derive(Debug, Serialize, Deserialize)]
struct Pset {
    props: Props,
    cpus: Vec<Cpu>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Cpu {
    id: CpuId,
    props: Props,
}

fn props(element: &impl Element) -> Props {
    Props { kind: element.kind(), values: element.properties() }
}

impl From<&PoolsState> for Record {
    fn from(state: &PoolsState) -> Self {
        let PoolsState { conf, keep_others, zones } = state;
        let cpu = |cpu: &CpuNode| Cpu { id: cpu.id, props: props(cpu) };
        let pset = |set: &PsetNode| Pset { props: props(set), cpus: set.cpus().iter().map(cpu).collect() };
        let conf = Conf {
            system: props(&conf.system),
            pools: conf.pools.iter().map(|pool| Pool { props: props(pool) }).collect(),
            psets: conf.psets.iter().map(pset).collect(),
        };
        Record { conf, keep_others: *keep_others, zones: zones.clone() }
    }
}

impl From<Record> for PoolsState {
    fn from(record: Record) -> Self {
        let Record { conf: Conf { system, pools, psets }, keep_others, zones } = record;
        let pset = |Pset { props, cpus }| {
            let mut set = filled(PsetNode::default(), props.values);
            for Cpu { id, props } in cpus {
                let cpu = filled(blank_cpu(id), props.values);
                set.add(CpuNode { id, ..cpu });
            }
            set
        };
        let conf = PoolsConf {
            system: filled(SystemNode::default(), system.values),
            pools: pools.into_iter().map(|pool| filled(PoolNode::default(), pool.props.values)).collect(),
            psets: psets.into_iter().map(pset).collect(),
        };
        PoolsState { conf, keep_others, zones }
    }
}

/// For `#[serde(with = …)]` of an optional configuration.
pub mod optional {
    use super::{PoolsState, Record};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Serializes the record, if any.
    ///
    /// # Errors
    /// Errors of the serializer.
    pub fn serialize<S: Serializer>(state: &Option<PoolsState>, serializer: S) -> Result<S::Ok, S::Error> {
        state.as_ref().map(Record::from).serialize(serializer)
    }

    /// Deserializes the record, if any.
    ///
    /// # Errors
    /// Errors of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PoolsState>, D::Error> {
        Ok(Option::<Record>::deserialize(deserializer)?.map(PoolsState::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::pools::Keyword;
    use millpond_model::{PsetId, State};

    /// A record in the form of all versions.
    const RECORD: &str = concat!(
        r#"{"conf":{"system":{"kind":"system","values":[["system.name",{"string":"default"}],"#,
        r#"["system.ref_id",{"string":"dummy"}],["system.comment",{"string":""}],["system.version",{"int":1}],"#,
        r#"["system.bind-default",{"boolean":true}],["system.poold.objectives",{"string":"wt-load"}]]},"#,
        r#""pools":[{"props":{"kind":"pool","values":[["pool.sys_id",{"int":0}],["pool.name",{"string":"pool_default"}],"#,
        r#"["pool.res",{"string":"pset_-1"}],["pool.ref_id",{"string":"pool_0"}],["pool.active",{"boolean":true}],"#,
        r#"["pool.default",{"boolean":true}],["pool.importance",{"int":1}],["pool.comment",{"string":""}]]}}],"#,
        r#""psets":[{"props":{"kind":"pset","values":[["type",{"string":"pset"}],["pset.sys_id",{"int":-1}],"#,
        r#"["pset.name",{"string":"pset_default"}],["pset.ref_id",{"string":"pset_-1"}],["pset.default",{"boolean":true}],"#,
        r#"["pset.min",{"uint":1}],["pset.max",{"uint":65536}],["pset.units",{"string":"population"}],"#,
        r#"["pset.load",{"uint":0}],["pset.size",{"uint":1}],["pset.comment",{"string":""}],["rack",{"float":0.5}]]},"#,
        r#""cpus":[{"id":3,"props":{"kind":"cpu","values":[["type",{"string":"cpu"}],["cpu.sys_id",{"int":3}],"#,
        r#"["cpu.ref_id",{"string":"cpu_3"}],["cpu.comment",{"string":""}],["cpu.status",{"string":"off-line"}],"#,
        r#"["cpu.pinned",{"boolean":true}]]}}]}]},"keep_others":true,"zones":{"/z":0}}"#,
    );

    #[test]
    fn a_record_is_read_and_written_as_earlier_versions_did() {
        let mut conf = PoolsConf::fresh([(CpuId(3), State::OffLine)]);
        conf.cpu_mut(CpuId(3)).unwrap().pinned = Some(true);
        conf.psets[0].user.set("rack", millpond_model::pools::PropValue::Float(0.5));
        let zones = [("/z".to_owned(), PoolId(0))].into();
        let state = PoolsState { conf, keep_others: true, zones };
        let record: Record = serde_json::from_str(RECORD).unwrap();
        assert_eq!(PoolsState::from(record), state);
        assert_eq!(serde_json::to_string(&Record::from(&state)).unwrap(), RECORD);
    }

    #[test]
    fn what_a_record_lacks_is_not_there() {
        let text = RECORD
            .replace(r#"["cpu.status",{"string":"off-line"}],"#, "")
            .replace(r#""int":-1"#, r#""int":-2"#);
        let state = PoolsState::from(serde_json::from_str::<Record>(&text).unwrap());
        assert_eq!((state.conf.psets[0].id, &state.conf.psets[0].cpus()[0].status), (None, &None));
        let text = RECORD.replace("off-line", "asleep").replace(r#""int":-1"#, r#""int":7"#);
        let state = PoolsState::from(serde_json::from_str::<Record>(&text).unwrap());
        let cpu = &state.conf.psets[0].cpus()[0];
        assert_eq!(
            (state.conf.psets[0].id, &cpu.status),
            (Some(PsetId(7)), &Some(Keyword::Other("asleep".into())))
        );
    }
}
