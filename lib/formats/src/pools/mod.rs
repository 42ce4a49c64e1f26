//! Pools as text: the input and output of their commands.
//!
//! | module | contents | used for |
//! |---|---|---|
//! | [`properties`] | names of properties, and their fields | all of them |
//! | [`record`] | the configuration of a machine as JSON | stored machines and journals |
//! | [`info`] | a configuration as a listing | `pooladm`, `poolcfg -c info` |
//! | [`script`] | changes in the language of `poolcfg` | `poolcfg -c`, `poolcfg -f` |
//! | [`xml`] | a configuration as a file, with its DTD | `/etc/pooladm.conf` |
//! | [`objectives`] | objectives of the system or of a set | the properties `*.poold.objectives` |
//! | [`poolstat`] | utilization of the sets of pools, as tables | `poolstat` |
//!
//! Nothing is changed here: a script is parsed into commands, which `pools` executes on a `PoolsConf`.

pub mod info;
pub mod objectives;
pub mod poolstat;
pub mod properties;
pub mod record;
pub mod script;
pub mod xml;
