//! Dispatch tables as they are shared: one value, which the tables of the machine and its kernel both hold. To write them makes another value.

use millpond_formats::dispadmin::default_tables;
use millpond_model::DispatchTables;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::{Arc, LazyLock};

static STANDARD: LazyLock<Arc<DispatchTables>> = LazyLock::new(|| Arc::new(default_tables(false)));

/// Those of a machine that was booted with no tunables.
pub fn standard() -> Arc<DispatchTables> {
    Arc::clone(&STANDARD)
}

pub(super) fn is_standard(tables: &Arc<DispatchTables>) -> bool {
    *tables == *STANDARD
}

/// For serde, which leaves pointers alone.
pub fn serialize<S: Serializer>(tables: &Arc<DispatchTables>, to: S) -> Result<S::Ok, S::Error> {
    tables.as_ref().serialize(to)
}

/// For serde.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<DispatchTables>, D::Error> {
    DispatchTables::deserialize(from).map(Arc::new)
}
