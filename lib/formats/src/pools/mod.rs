//! Pools as text: what their commands read and write.
//!
//! | here | what | the text of |
//! |---|---|---|
//! | [`properties`] | names of properties, and the fields that they are | all of them |
//! | [`record`] | the configuration of a machine, as JSON | what machines keep, and their journals |
//! | [`info`] | a configuration as a listing | `pooladm`, `poolcfg -c info` |
//! | [`script`] | changes in a language of their own | `poolcfg -c`, `poolcfg -f` |
//! | [`xml`] | a configuration as a file, with its DTD | `/etc/pooladm.conf` |
//! | [`objectives`] | what is asked of the system or of a set | the properties `*.poold.objectives` |
//! | [`poolstat`] | how busy the sets of pools are, as tables | `poolstat` |
//!
//! Nothing is changed here: a script becomes commands, which `pools` executes on a `PoolsConf`.

pub mod info;
pub mod objectives;
pub mod poolstat;
pub mod properties;
pub mod record;
pub mod script;
pub mod xml;
